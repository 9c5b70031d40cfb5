"""Builds the dictionary that the archive ships with, from LongMemEval's text alone.

    python tools/build_dictionary.py [--data FOLDER] [--out FOLDER]

LongMemEval is under the MIT licence (copyright 2024 Di Wu) and synthetic: what users say, and of an assistant's answers
the first and the last paragraph, where it talks rather than lists. Texts that have an address, a link or a long number
are left out. zstd's trainer gets them in the form of blocks, ten at a time. The same text and the same zstd give the
same bytes. Size and parameters were chosen by what they save on LoCoMo, of which nothing is in here.
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
FOLDER = ROOT / "src" / "recollect" / "core" / "dictionary"
DATA = ROOT.parent / "shared" / "bench"
TEXT_SHA256 = "d578c19e9d661a5c3b4deba10a62b65e88419387b39ebd535c2ad86a9314a36b"
NAME = "chat-1.zdict"

# Bytes. Of ten messages of LoCoMo (every third block) saved: 62.4 % by 64 kB, 63.4 by 112, 64.2 by 200, 64.6 by 256.
SIZE = 256_000
PIECE, OVERLAP = 80, 8  # k and d of the trainer: from 48 to 200 they hardly differ, longer and shorter pieces save less
LEVEL = 19
TOGETHER = 10
PARAGRAPH = 400  # characters
END = b"\xff"
PERSONAL = re.compile(r"@\w|https?:|www\.|\d{5,}|\d{3}[-. ]\d{3,4}\b|\d-\d{4}")

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


def said(conversations: list[dict[str, object]]) -> Iterator[str]:
    """First all that users say, then the ends of the answers."""
    messages = [message for one in conversations for message in one["messages"]]  # type: ignore[attr-defined]
    answers = [message["content"] for message in messages if message["role"] != "user"]
    yield from (message["content"] for message in messages if message["role"] == "user")
    for place in (0, -1):
        yield from (answer.split("\n\n")[place][:PARAGRAPH] for answer in answers)


def build(texts: list[str]) -> bytes:
    runs = [text.encode() + END for text in texts]
    samples: list[bytes | bytearray | memoryview] = [
        b"".join(runs[start : start + TOGETHER]) for start in range(0, len(runs), TOGETHER)
    ]
    return zstandard.train_dictionary(SIZE, samples, k=PIECE, d=OVERLAP, level=LEVEL).as_bytes()


def read(folder: Path) -> list[str]:
    """Each text once; only if the file is the known one."""
    data = (folder / "normalized" / "lme_pool.json.gz").read_bytes()
    if hashlib.sha256(data).hexdigest() != TEXT_SHA256:
        raise SystemExit("The text is not the known one: its SHA-256 differs.")
    found = dict.fromkeys(said(json.loads(gzip.decompress(data))["conversations"]))
    return [text for text in found if not PERSONAL.search(text)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the dictionary of the archive.")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data (../shared/bench)")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the files go (default: into the package)")
    options = parser.parse_args()
    body = build(read(options.data))
    digest = hashlib.sha256(body).hexdigest()
    version = ".".join(map(str, zstandard.ZSTD_VERSION))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / NAME).write_bytes(body)
    (options.out / "LICENSE").write_bytes((options.data / "licences" / "longmemeval.MIT.txt").read_bytes())
    (options.out / "NOTICE.md").write_text(NOTICE.format(name=NAME, digest=digest, zstd=version), "utf-8")
    sys.stdout.write(f"{digest}  {NAME}  {len(body):,} bytes\n")


if __name__ == "__main__":
    main()
