"""Blocks of the archive: a few texts as few bytes, with a checksum; and the dictionaries that make them fewer.

    block    = head payload checksum
    head     = version and codec (one byte, a nibble each), then as varints: dictionary, texts, bytes of the run
    run      = each text as UTF-8 (lone surrogates included) and a byte 0xFF, which no UTF-8 contains
    payload  = the run itself, or one zstd frame of it without magic number and without its first byte, which is always
               0: no size, no checksum, no dictionary in it
    checksum = BLAKE2b over head and payload, 8 bytes, keyed with the hash of the dictionary's body

Ends between texts instead of lengths before them: the dictionary knows what stands around them, and a block of ten
chat messages saves 1 % more. Deflate (gzip) is not among the codecs: it is smaller than zstd without a dictionary for
short blocks, but of 1,754 blocks of 1, 3 and 10 real messages it beat zstd with the shipped one in 4.

A learned dictionary stands on the shipped one: what zstd gets is the tables of the learned, the content of the shipped,
the content of the learned. So the store keeps only what its own texts add.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b, sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from recollect.core.errors import StoreUnavailable

if TYPE_CHECKING:
    from zstandard import ZstdCompressionDict, ZstdCompressionParameters, ZstdDecompressor

VERSION: Final = 1
STORED: Final = 0  # codecs
ZSTD: Final = 1

LARGEST: Final = 1 << 24  # bytes of a run
LARGEST_ID: Final = (1 << 31) - 1
END: Final = b"\xff"  # of a text
CHECKSUM: Final = 8  # bytes

LEVEL: Final = 19  # of ten chat messages it saves 1.7 % more than 12 and takes 0.7 ms instead of 0.2
LONG: Final = 1 << 15  # bytes of a run from which on it would take tens of milliseconds
LEVEL_OF_LONG: Final = 12
QUICK: Final = 3  # a tenth of the time, and a sixth more bytes

SHIPPED: Final = 1
LEARNED: Final = 1000  # ids from here on are the store's own
SHIPPED_FILE: Final = "chat-1.zdict"
SHIPPED_SHA256: Final = "573ab2c24d11256f17db61ec739c6467858bb27a814cef9187f5bf7b2cc44d2f"
KEPT: Final = 32  # dictionaries that stay compiled; the largest take a megabyte each

LEARN_FROM: Final = 1 << 16  # bytes of archived text: from about 20 kB on a dictionary pays for itself, here well
LEARN_AGAIN: Final = 4  # when there is so many times the text that the last one was learned from
SHARE: Final = 4  # of the text, one in so many bytes: net of its own it saves 0.7 % more than 8, 2 only 0.4 % more
LARGEST_DICTIONARY: Final = 1 << 18
TOGETHER: Final = 10  # texts of a sample: a dictionary for blocks is learned from what looks like blocks
SAMPLES: Final = 20  # fewer and longer ones say little about what comes again
APART: Final = 7

_REPEATS: Final = bytes((1, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0))  # the three offsets that end the tables of a dictionary
_EMPTY_FRAME: Final = bytes((0, 0, 1, 0, 0))
_VARINT: Final = re.compile(rb"[\x80-\xff]{0,4}[\x00-\x7f]")


class Damaged(ValueError):
    """These bytes are not the block that was written, or the dictionary is not the one it was written with."""


@dataclass(frozen=True, slots=True)
class Dictionary:
    """What blocks may refer to: 0 is none, 1 the shipped one, from 1000 on those learned from a store's own texts."""

    id: int
    body: bytes


NONE: Final = Dictionary(0, b"")


def encode(texts: Sequence[str], dictionary: Dictionary, *, quick: bool = False) -> bytes:
    """The smallest block of these texts: stored, by zstd, or by zstd with the dictionary. A `quick` one is larger."""
    run = b"".join(text.encode("utf-8", "surrogatepass") + END for text in texts)
    return _seal(run, len(texts), dictionary, QUICK if quick else LEVEL if len(run) < LONG else LEVEL_OF_LONG)


def decode(block: bytes, find: Callable[[int], Dictionary]) -> list[str]:
    """The texts of a block, or `Damaged`. `find` gives the dictionary of an id, or raises KeyError."""
    run, count = _open(block, find)
    if not run:
        texts = []
    elif run.endswith(END):
        texts = run[:-1].split(END)
    else:
        raise Damaged("The last text of the block has no end.")
    if len(texts) != count:
        raise Damaged(f"The block has {len(texts)} texts and should have {count}.")
    try:
        return [text.decode("utf-8", "surrogatepass") for text in texts]
    except UnicodeDecodeError as error:
        raise Damaged("A text of the block is not UTF-8.") from error


def pack(body: bytes) -> bytes:
    """A learned dictionary's body as the store keeps it: a third of its size, with a checksum."""
    return _seal(body, 1, shipped(), LEVEL)


def unpack(packed: bytes) -> bytes:
    """The body again, or `Damaged`."""
    return _open(packed, {SHIPPED: shipped()}.__getitem__)[0]


def dictionary_size(archived: int) -> int:
    """Bytes of the dictionary to learn from so many bytes of archived text; 0: none yet."""
    return 0 if archived < LEARN_FROM else min(archived // SHARE, LARGEST_DICTIONARY)


def train(texts: Sequence[str], size: int) -> bytes:
    """The body of a dictionary of at most `size` bytes; the same for the same texts."""
    import zstandard

    runs = [text.encode("utf-8", "surrogatepass") + END for text in texts]
    if sum(map(len, runs)) - len(runs) < size:
        raise ValueError(f"A dictionary of {size:,} bytes cannot be learned from less text than that.")
    try:
        # k and d as measured: long pieces, because the shipped content already has the short ones
        body = zstandard.train_dictionary(size, _samples(runs), k=500, d=8, f=20, level=LEVEL).as_bytes()
        _split(body)
    except (zstandard.ZstdError, ValueError) as error:
        raise ValueError("There is too little text to learn a dictionary from.") from error
    return body


def _samples(runs: Sequence[bytes]) -> list[bytes | bytearray | memoryview]:
    """Neighbours together, but far from the samples beside them: the trainer stops at a long stretch of alike text."""
    step = max(1, min(TOGETHER, len(runs) // SAMPLES))
    found = [b"".join(runs[start : start + step]) for start in range(0, len(runs), step)]
    return [sample for start in range(APART) for sample in found[start::APART]]


@lru_cache(maxsize=1)
def shipped() -> Dictionary:
    """The one that comes with the package."""
    body = files("recollect.core").joinpath("dictionary", SHIPPED_FILE).read_bytes()
    if sha256(body).hexdigest() != SHIPPED_SHA256:
        told = f"{SHIPPED_FILE} is not the file that was published; install the package again."
        raise StoreUnavailable("package_damaged", told, retryable=False)
    return Dictionary(SHIPPED, body)


def forget(id: int) -> None:
    """Drops what was made of a dictionary. A learned one contains what people said."""
    for dictionary in list(_compiled):
        if dictionary.id == id:
            _compiled.pop(dictionary, None)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A dictionary as zstd uses it. Threads share it; the compressors made with it are for one call.

    Compressing needs a table for each level, made when it is first needed: tens of milliseconds, which reading is
    spared.
    """

    key: bytes
    whole: bytes
    reading: ZstdCompressionDict | None
    writing: dict[int, ZstdCompressionDict] = field(default_factory=dict)
    idle: list[ZstdDecompressor] = field(default_factory=list)  # making one takes as long as reading a block with it

    def compress(self, run: bytes, level: int) -> bytes:
        from zstandard import ZstdCompressor

        if self.reading is None:
            return ZstdCompressor(compression_params=_parameters(level)).compress(run)
        return ZstdCompressor(compression_params=_parameters(level), dict_data=self._for(level)).compress(run)

    def _for(self, level: int) -> ZstdCompressionDict:
        from zstandard import DICT_TYPE_FULLDICT, ZstdCompressionDict

        found = self.writing.get(level)
        if found is None:  # an object for each level: computing one for a second level breaks the interpreter
            found = ZstdCompressionDict(self.whole, dict_type=DICT_TYPE_FULLDICT)
            found.precompute_compress(compression_params=_parameters(level))
            self.writing[level] = found
        return found

    def expand(self, payload: bytes, size: int) -> bytes:
        """At most `size` bytes."""
        try:
            own = self.idle.pop()  # nobody else has it now
        except IndexError:
            own = _decompressor(self.reading)
        found = own.decompress(b"\0" + payload, max_output_size=size, allow_extra_data=False)
        if not self.idle:
            self.idle.append(own)
        return found


_compiled: Final[dict[Dictionary, _Compiled]] = {}


def _compile(dictionary: Dictionary) -> _Compiled:
    """Raises ValueError for a body that is no dictionary."""
    found = _compiled.get(dictionary)
    if found is not None:
        return found
    if dictionary.id == NONE.id:
        return _Compiled(b"", b"", None)
    from zstandard import DICT_TYPE_FULLDICT, ZstdCompressionDict, ZstdError

    try:
        whole = _whole(dictionary)
        reading = ZstdCompressionDict(whole, dict_type=DICT_TYPE_FULLDICT)
        # The first use digests the dictionary. It is here, before threads share it.
        _decompressor(reading).decompress(_EMPTY_FRAME, max_output_size=1)
    except ZstdError as error:
        raise ValueError(f"The body of dictionary {dictionary.id} is not one.") from error
    found = _Compiled(blake2b(dictionary.body, digest_size=32).digest(), whole, reading)
    for other in [one for one in list(_compiled) if one.id >= LEARNED][: max(0, len(_compiled) + 1 - KEPT)]:
        _compiled.pop(other, None)  # the oldest; the shipped one stays
    _compiled[dictionary] = found
    return found


def _whole(dictionary: Dictionary) -> bytes:
    """What zstd gets: a learned dictionary's own content comes last, where references to it are shortest."""
    if dictionary.id < LEARNED:
        return dictionary.body
    tables, content = _split(dictionary.body)
    return tables + _split(shipped().body)[1] + content


def _split(body: bytes) -> tuple[bytes, bytes]:
    """Tables and content."""
    found = body.find(_REPEATS)
    if found < 0:
        raise ValueError("A dictionary without tables.")
    start = found + len(_REPEATS)
    return body[:start], body[start:]


@lru_cache(maxsize=4)
def _parameters(level: int) -> ZstdCompressionParameters:
    from zstandard import FORMAT_ZSTD1_MAGICLESS, ZstdCompressionParameters

    return ZstdCompressionParameters.from_level(
        level, format=FORMAT_ZSTD1_MAGICLESS, write_content_size=0, write_checksum=0, write_dict_id=0
    )


def _decompressor(dictionary: ZstdCompressionDict | None) -> ZstdDecompressor:
    from zstandard import FORMAT_ZSTD1_MAGICLESS, ZstdDecompressor

    window = 2 * LARGEST
    if dictionary is None:
        return ZstdDecompressor(max_window_size=window, format=FORMAT_ZSTD1_MAGICLESS)
    return ZstdDecompressor(dict_data=dictionary, max_window_size=window, format=FORMAT_ZSTD1_MAGICLESS)


def _seal(run: bytes, count: int, dictionary: Dictionary, level: int) -> bytes:
    if len(run) > LARGEST:
        raise ValueError(f"A block holds at most {LARGEST:,} bytes of text, these are {len(run):,}.")
    compiled = _compile(dictionary)
    payload = compiled.compress(run, level)[1:]
    if dictionary.id and 2 * len(payload) > len(run):  # one that saves more than half was never the worse one
        plain = _compile(NONE).compress(run, level)[1:]
        if len(plain) < len(payload):
            compiled, dictionary, payload = _compile(NONE), NONE, plain
    codec = ZSTD
    if len(payload) >= len(run):
        compiled, dictionary, payload, codec = _compile(NONE), NONE, run, STORED
    head = bytes((VERSION << 4 | codec,)) + b"".join(map(_varint, (dictionary.id, count, len(run))))
    return head + payload + _checksum(head + payload, compiled.key)


def _open(block: bytes, find: Callable[[int], Dictionary]) -> tuple[bytes, int]:
    """The run of a block, and how many texts it should have."""
    if len(block) < 1 + 3 + CHECKSUM:
        raise Damaged("The block is cut short.")
    version, codec = divmod(block[0], 16)
    if version != VERSION or codec not in (STORED, ZSTD):
        raise Damaged("The block is of an unknown version or codec.")
    sealed = block[:-CHECKSUM]
    number, start = _read_varint(sealed, 1)
    count, start = _read_varint(sealed, start)
    size, start = _read_varint(sealed, start)
    if size > LARGEST:
        raise Damaged(f"The block claims to hold {size:,} bytes of text; {LARGEST:,} are allowed.")
    compiled = _found(number, find)
    if _checksum(sealed, compiled.key) != block[-CHECKSUM:]:
        raise Damaged("The block does not fit its checksum.")
    payload = sealed[start:]
    run = payload if codec == STORED else _expand(compiled, payload, size)
    if len(run) != size:
        raise Damaged(f"The block holds {len(run):,} bytes of text and should hold {size:,}.")
    return run, count


def _expand(compiled: _Compiled, payload: bytes, size: int) -> bytes:
    import zstandard

    if not size:  # zstandard takes 0 for no limit
        raise Damaged("The block holds nothing, compressed.")
    try:
        return compiled.expand(payload, size)
    except zstandard.ZstdError as error:
        raise Damaged("The block cannot be decompressed.") from error


def _found(id: int, find: Callable[[int], Dictionary]) -> _Compiled:
    if id == NONE.id:
        return _compile(NONE)
    if id > LARGEST_ID:
        raise Damaged("The block names a dictionary that cannot be.")
    try:
        dictionary = find(id)
    except KeyError as error:
        raise Damaged(f"The block needs dictionary {id}, which is not there.") from error
    try:
        return _compile(dictionary)
    except ValueError as error:
        raise Damaged(f"Dictionary {id} is damaged.") from error


def _checksum(sealed: bytes, key: bytes) -> bytes:
    return blake2b(sealed, digest_size=CHECKSUM, key=key).digest()


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last have the highest bit set."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _read_varint(data: bytes, start: int) -> tuple[int, int]:
    """A number, and where it ends."""
    if start < len(data) and data[start] < 0x80:  # most are short
        return data[start], start + 1
    found = _VARINT.match(data, start)
    if found is None:
        raise Damaged("The head of the block is cut or not one.")
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(found[0])), found.end()
