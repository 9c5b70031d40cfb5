"""Builds the dictionary that the archive ships with, from LongMemEval's text alone.

    python tools/build_dictionary.py [--data FOLDER] [--out FOLDER]

LongMemEval is synthetic and under the MIT licence (copyright 2024 Di Wu). The dictionary is trained on what users say,
and on the first and last paragraphs of answers, which are talk rather than lists. Texts with an address, a link or a
long number are left out. zstd's trainer gets the texts as they lie in blocks, ten at a time. The same text and the same
zstd give the same bytes. Size and parameters were chosen by what they save on LoCoMo, of which nothing is in here.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import zstandard

ROOT = Path(__file__).resolve().parent.parent
PACKAGE_FOLDER = ROOT / "src" / "recollect" / "storage" / "dictionary"
DATA_FOLDER = ROOT.parent / "shared" / "bench"
TEXT_SHA256 = "d578c19e9d661a5c3b4deba10a62b65e88419387b39ebd535c2ad86a9314a36b"
DICTIONARY_NAME = "chat-1.zdict"

# Saved on ten messages of LoCoMo (every third block): 62.4 % by 64 kB, 63.4 by 112, 64.2 by 200, 64.6 by 256.
DICTIONARY_BYTES = 256_000
# The trainer's k and d. From 48 to 200 they hardly differ; longer and shorter pieces save less.
PIECE_BYTES, OVERLAP_BYTES = 80, 8
COMPRESSION_LEVEL = 19
BLOCK_MESSAGES = 10
MAX_PARAGRAPH_CHARACTERS = 400
TEXT_END = b"\xff"
PERSONAL_DATA = re.compile(r"@\w|https?:|www\.|\d{5,}|\d{3}[-. ]\d{3,4}\b|\d-\d{4}")

NOTICE = """# The archive's dictionary

`{name}` is a zstd dictionary trained on text of LongMemEval (Di Wu et al., ICLR 2025), which is synthetic and under
the MIT licence; the licence is in `LICENSE` beside this file. It contains pieces of that text: of what users say, and
of the first and last paragraphs of answers. Nothing of any other set is in it. `tools/build_dictionary.py` makes it,
with zstd {zstd}.

| file | SHA-256 |
|---|---|
| `{name}` | `{digest}` |

The hash is checked when the dictionary is read; a file that differs is not used. Blocks refer to it, so it never
changes: a better one gets a number and a file of its own.
"""


def pick_texts(conversations: list[dict[str, object]]) -> Iterator[str]:
    """Yield all messages of users, then the first paragraphs of the answers, then the last ones."""
    messages = [message for row in conversations for message in row["messages"]]  # type: ignore[attr-defined]
    answers = [message["content"] for message in messages if message["role"] != "user"]
    yield from (message["content"] for message in messages if message["role"] == "user")
    for paragraph in (0, -1):
        yield from (answer.split("\n\n")[paragraph][:MAX_PARAGRAPH_CHARACTERS] for answer in answers)


def build(texts: list[str]) -> bytes:
    """Train the dictionary on the texts."""
    runs = [text.encode() + TEXT_END for text in texts]
    samples: list[bytes | bytearray | memoryview] = [
        b"".join(runs[start : start + BLOCK_MESSAGES]) for start in range(0, len(runs), BLOCK_MESSAGES)
    ]
    dictionary = zstandard.train_dictionary(
        DICTIONARY_BYTES, samples, k=PIECE_BYTES, d=OVERLAP_BYTES, level=COMPRESSION_LEVEL
    )
    return dictionary.as_bytes()


def read_texts(folder: Path) -> list[str]:
    """Return each text once. Exit if the file is not the known one."""
    data = (folder / "normalized" / "lme_pool.json.gz").read_bytes()
    if hashlib.sha256(data).hexdigest() != TEXT_SHA256:
        raise SystemExit("The text is not the known one: its SHA-256 differs.")
    texts = dict.fromkeys(pick_texts(json.loads(gzip.decompress(data))["conversations"]))
    return [text for text in texts if not PERSONAL_DATA.search(text)]


def main() -> None:
    """Write the dictionary, its licence and its notice, and print its hash."""
    parser = argparse.ArgumentParser(description="Build the dictionary of the archive.")
    parser.add_argument("--data", type=Path, default=DATA_FOLDER, help="folder of the data (../shared/bench)")
    parser.add_argument(
        "--out", type=Path, default=PACKAGE_FOLDER, help="where the files go (default: into the package)"
    )
    options = parser.parse_args()
    body = build(read_texts(options.data))
    digest = hashlib.sha256(body).hexdigest()
    version = ".".join(map(str, zstandard.ZSTD_VERSION))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / DICTIONARY_NAME).write_bytes(body)
    (options.out / "LICENSE").write_bytes((options.data / "licences" / "longmemeval.MIT.txt").read_bytes())
    (options.out / "NOTICE.md").write_text(NOTICE.format(name=DICTIONARY_NAME, digest=digest, zstd=version), "utf-8")
    sys.stdout.write(f"{digest}  {DICTIONARY_NAME}  {len(body):,} bytes\n")


if __name__ == "__main__":
    main()
