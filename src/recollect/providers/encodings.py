"""The two OpenAI encodings: which model uses which one, and how its rank table becomes a tiktoken encoding.

The rank tables lie beside this file. Nothing is ever downloaded: tiktoken only merges, it never loads. Special tokens
are left out on purpose, so that text which looks like one is counted as the text it is.
"""

from __future__ import annotations

import hashlib
import re
from binascii import a2b_base64
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import tiktoken


@dataclass(frozen=True, slots=True)
class EncodingTable:
    """The facts of one encoding: its name, the hash of its rank file, and the pattern that cuts text into pieces.

    `cuts_trailing_blanks` is True if the pattern's look-ahead also cuts blanks at the end of a text (see
    `tokenizer._LONG_BLANKS`).
    """

    name: str
    sha256: str
    pattern: str
    cuts_trailing_blanks: bool


_WORD_END: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER: Final = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_LOWER: Final = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"

CL100K: Final = EncodingTable(
    name="cl100k_base",
    sha256="223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    pattern=(
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    cuts_trailing_blanks=False,
)
O200K: Final = EncodingTable(
    name="o200k_base",
    sha256="446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    pattern=(
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_WORD_END}"
        rf"|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_WORD_END}"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    cuts_trailing_blanks=True,
)

_O200K_MODELS: Final = re.compile(r"(gpt-4o|gpt-4\.1|gpt-4\.5|gpt-5|chatgpt-4o|o[134](?=-|$)|o200k_base$)", re.ASCII)
_CL100K_MODELS: Final = re.compile(r"(gpt-4(?=-|$)|gpt-3\.?5|text-embedding-|cl100k_base$)", re.ASCII)


def table_for_model(model: str) -> tuple[EncodingTable, bool]:
    """Return the encoding of a model, and whether the model is known; an unknown one gets o200k_base.

    Reads `ft:NAME:…`, `vendor/NAME` and `NAME:tag` as NAME. The name of an encoding stands for itself.
    """
    name = model.strip().casefold().rpartition("/")[2].removeprefix("ft:").partition(":")[0]
    if _O200K_MODELS.match(name):
        return O200K, True
    if _CL100K_MODELS.match(name):
        return CL100K, True
    return O200K, False


def build_encoding(table: EncodingTable, pattern: str) -> tiktoken.Encoding:
    """Build a tiktoken encoding that cuts text by `pattern` and merges by the ranks of `table`.

    Raises ImportError, OSError or ValueError if tiktoken or the rank file cannot be used.
    """
    import tiktoken  # late: importing recollect must stay fast

    return tiktoken.Encoding(table.name, pat_str=pattern, mergeable_ranks=read_ranks(table), special_tokens={})


def read_ranks(table: EncodingTable) -> dict[bytes, int]:
    """Read the rank of each token. Each line of the file is a token in base64 and its rank."""
    data = files("recollect.providers").joinpath("ranks", f"{table.name}.tiktoken").read_bytes()
    if hashlib.sha256(data).hexdigest() != table.sha256:
        raise ValueError("its SHA-256 is not the published one")
    pairs = (line.split() for line in data.splitlines())
    return {a2b_base64(token): int(rank) for token, rank in pairs}
