"""Encodes texts as blocks of the archive: compressed, with a checksum. Also trains the dictionaries that blocks use.

    block    = head payload checksum
    head     = version and codec (one byte, a nibble each), then as varints: dictionary, texts, bytes of the run
    run      = each text as UTF-8 (lone surrogates included) and a byte 0xFF, which no UTF-8 contains
    payload  = the run itself, or one zstd frame of it without magic number and without its first byte, which is always
               0: no size, no checksum, no dictionary in it
    checksum = BLAKE2b over head and payload, 8 bytes, keyed with the hash of the dictionary's body

Texts are separated by an end byte instead of prefixed by a length: the dictionary knows what stands around an end, and
a block of ten chat messages saves 1 % more. Deflate (gzip) is not among the codecs. Without a dictionary it is smaller
than zstd for short blocks. But of 1,754 blocks of 1, 3 and 10 real messages it beat zstd with the shipped dictionary in
4.

A learned dictionary builds on the shipped one. zstd gets the tables of the learned one, the content of the shipped one
and the content of the learned one, in this order. So the store keeps only what its own texts add.

This module reads no files: `storage/shipped_dictionary.py` loads the shipped dictionary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zstandard import ZstdCompressionDict, ZstdCompressionParameters, ZstdDecompressor

VERSION: Final = 1
CODEC_STORED: Final = 0
CODEC_ZSTD: Final = 1

MAX_RUN_BYTES: Final = 1 << 24
MAX_DICTIONARY_ID: Final = (1 << 31) - 1
TEXT_END: Final = b"\xff"
CHECKSUM_BYTES: Final = 8

BEST_LEVEL: Final = 19  # ten chat messages: 1.7 % smaller than by level 12, in 0.7 ms instead of 0.2
LONG_RUN_BYTES: Final = 1 << 15  # from here on the best level would take tens of milliseconds
LONG_RUN_LEVEL: Final = 12
QUICK_LEVEL: Final = 3  # a tenth of the time, and a sixth more bytes

SHIPPED_ID: Final = 1
FIRST_LEARNED_ID: Final = 1000
MAX_COMPILED_DICTIONARIES: Final = 32  # the largest take a megabyte of memory each

MIN_LEARNING_BYTES: Final = 1 << 16  # of archived text; a dictionary pays for itself from about 20 kB on
RELEARN_GROWTH: Final = 4  # learn again when there is this many times the text of the last time
TEXT_BYTES_PER_DICTIONARY_BYTE: Final = 4  # with its own size, 4 saves 0.7 % more than 8; 2 saves only 0.4 % more
MAX_DICTIONARY_BYTES: Final = 1 << 18
TEXTS_PER_SAMPLE: Final = 10  # samples should look like blocks
MIN_SAMPLES: Final = 20  # fewer and longer samples say little about what repeats
SAMPLE_STRIDE: Final = 7

_TABLES_END: Final = bytes((1, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0))  # the three offsets that end a dictionary's tables
_EMPTY_FRAME: Final = bytes((0, 0, 1, 0, 0))
_VARINT: Final = re.compile(rb"[\x80-\xff]{0,4}[\x00-\x7f]")


class Damaged(ValueError):
    """Raised for bytes that are not the block that was written, or for another dictionary than it was written with."""


@dataclass(frozen=True, slots=True)
class Dictionary:
    """A zstd dictionary that blocks refer to by its id.

    Id 0 is none, id 1 the shipped one. From id 1000 on dictionaries are learned from a person's own texts and build on
    the shipped one, whose body is their `base`.
    """

    id: int
    body: bytes
    base: bytes = b""


NO_DICTIONARY: Final = Dictionary(0, b"")


def encode(texts: Sequence[str], dictionary: Dictionary, *, quick: bool = False) -> bytes:
    """Return the smallest block of these texts: stored, by zstd, or by zstd with the dictionary.

    A `quick` block is larger. Raise ValueError if the texts have more than `MAX_RUN_BYTES`.
    """
    run = b"".join(text.encode("utf-8", "surrogatepass") + TEXT_END for text in texts)
    level = QUICK_LEVEL if quick else BEST_LEVEL if len(run) < LONG_RUN_BYTES else LONG_RUN_LEVEL
    return _seal(run, len(texts), dictionary, level)


def decode(block: bytes, find: Callable[[int], Dictionary]) -> list[str]:
    """Return the texts of a block, or raise `Damaged`. `find` returns the dictionary of an id, or raises KeyError."""
    run, count = _open(block, find)
    if not run:
        texts = []
    elif run.endswith(TEXT_END):
        texts = run[:-1].split(TEXT_END)
    else:
        raise Damaged("The last text of the block has no end.")
    if len(texts) != count:
        raise Damaged(f"The block has {len(texts)} texts and should have {count}.")
    try:
        return [text.decode("utf-8", "surrogatepass") for text in texts]
    except UnicodeDecodeError as error:
        raise Damaged("A text of the block is not UTF-8.") from error


def pack_dictionary(body: bytes, shipped: Dictionary) -> bytes:
    """Return a learned dictionary's body in the form that the store keeps: a third of its size, with a checksum."""
    return _seal(body, 1, shipped, BEST_LEVEL)


def unpack_dictionary(packed: bytes, shipped: Dictionary) -> bytes:
    """Return the body of a packed dictionary, or raise `Damaged`."""
    return _open(packed, {shipped.id: shipped}.__getitem__)[0]


def dictionary_size(text_bytes: int) -> int:
    """Return the bytes of the dictionary to learn from so many bytes of archived text; 0 if there is too little."""
    if text_bytes < MIN_LEARNING_BYTES:
        return 0
    return min(text_bytes // TEXT_BYTES_PER_DICTIONARY_BYTE, MAX_DICTIONARY_BYTES)


def train(texts: Sequence[str], size: int) -> bytes:
    """Return the body of a dictionary of at most `size` bytes. The same texts give the same body.

    Raise ValueError if there is too little text.
    """
    import zstandard

    runs = [text.encode("utf-8", "surrogatepass") + TEXT_END for text in texts]
    if sum(map(len, runs)) - len(runs) < size:
        raise ValueError(f"A dictionary of {size:,} bytes cannot be learned from less text than that.")
    try:
        # k and d were measured. Pieces are long because the shipped content already has the short ones.
        body = zstandard.train_dictionary(size, _samples(runs), k=500, d=8, f=20, level=BEST_LEVEL).as_bytes()
        _split(body)
    except (zstandard.ZstdError, ValueError) as error:
        raise ValueError("There is too little text to learn a dictionary from.") from error
    return body


def _samples(runs: Sequence[bytes]) -> list[bytes | bytearray | memoryview]:
    """Join neighbouring texts to samples, and shuffle the samples in a fixed way.

    zstd's trainer stops at a long stretch of similar text, so similar samples are spread.
    """
    step = max(1, min(TEXTS_PER_SAMPLE, len(runs) // MIN_SAMPLES))
    samples = [b"".join(runs[start : start + step]) for start in range(0, len(runs), step)]
    return [sample for start in range(SAMPLE_STRIDE) for sample in samples[start::SAMPLE_STRIDE]]


def forget(id: int | None = None) -> None:
    """Drop the compiled form of one dictionary, or without an id of all learned ones.

    A learned dictionary contains pieces of what people said. Without an id, buffers of the shipped one are dropped too.
    """
    for dictionary, compiled in list(_compiled.items()):
        if dictionary.id == id or (id is None and dictionary.id >= FIRST_LEARNED_ID):
            _compiled.pop(dictionary, None)
        elif id is None:
            compiled.idle.clear()


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A dictionary in the form that zstd uses. Threads share it; each compressor made with it serves one call.

    Compression needs a table for each level, which takes tens of milliseconds to build. It is built when it is first
    needed, so that readers do not pay for it.
    """

    checksum_key: bytes
    content: bytes  # the whole dictionary, a learned one with the shipped one in it
    for_reading: ZstdCompressionDict | None
    by_level: dict[int, ZstdCompressionDict] = field(default_factory=dict)  # for writing
    idle: list[ZstdDecompressor] = field(default_factory=list)  # creating one takes as long as reading a block

    def compress(self, run: bytes, level: int) -> bytes:
        from zstandard import ZstdCompressor

        if self.for_reading is None:
            return ZstdCompressor(compression_params=_parameters(level)).compress(run)
        return ZstdCompressor(compression_params=_parameters(level), dict_data=self._for_writing(level)).compress(run)

    def _for_writing(self, level: int) -> ZstdCompressionDict:
        from zstandard import DICT_TYPE_FULLDICT, ZstdCompressionDict

        prepared = self.by_level.get(level)
        if prepared is None:  # an object for each level: preparing one for a second level crashes the interpreter
            prepared = ZstdCompressionDict(self.content, dict_type=DICT_TYPE_FULLDICT)
            prepared.precompute_compress(compression_params=_parameters(level))
            self.by_level[level] = prepared
        return prepared

    def expand(self, payload: bytes, max_bytes: int) -> bytes:
        """Decompress a payload of a block to at most `max_bytes`."""
        try:
            decompressor = self.idle.pop()  # no other thread has it now
        except IndexError:
            decompressor = _decompressor(self.for_reading)
        run = decompressor.decompress(b"\0" + payload, max_output_size=max_bytes, allow_extra_data=False)
        if not self.idle:
            self.idle.append(decompressor)
        return run


_compiled: Final[dict[Dictionary, _Compiled]] = {}


def _compile(dictionary: Dictionary) -> _Compiled:
    """Return the compiled form of a dictionary. Raise ValueError for a body that is no dictionary."""
    compiled = _compiled.get(dictionary)
    if compiled is not None:
        return compiled
    if dictionary.id == NO_DICTIONARY.id:
        return _Compiled(b"", b"", None)
    from zstandard import DICT_TYPE_FULLDICT, ZstdCompressionDict, ZstdError

    try:
        content = _whole_content(dictionary)
        for_reading = ZstdCompressionDict(content, dict_type=DICT_TYPE_FULLDICT)
        # The first use digests the dictionary. It happens here, before threads share it.
        _decompressor(for_reading).decompress(_EMPTY_FRAME, max_output_size=1)
    except ZstdError as error:
        raise ValueError(f"The body of dictionary {dictionary.id} is not one.") from error
    compiled = _Compiled(blake2b(dictionary.body, digest_size=32).digest(), content, for_reading)
    learned = [other for other in list(_compiled) if other.id >= FIRST_LEARNED_ID]
    for oldest in learned[: max(0, len(_compiled) + 1 - MAX_COMPILED_DICTIONARIES)]:  # the shipped one stays
        _compiled.pop(oldest, None)
    _compiled[dictionary] = compiled
    return compiled


def _whole_content(dictionary: Dictionary) -> bytes:
    """Return the bytes that zstd gets. A learned dictionary's own content is last: references to it are shortest."""
    if dictionary.id < FIRST_LEARNED_ID:
        return dictionary.body
    tables, own_content = _split(dictionary.body)
    return tables + _split(dictionary.base)[1] + own_content


def _split(body: bytes) -> tuple[bytes, bytes]:
    """Return the tables and the content of a dictionary."""
    offset = body.find(_TABLES_END)
    if offset < 0:
        raise ValueError("A dictionary without tables.")
    start = offset + len(_TABLES_END)
    return body[:start], body[start:]


@lru_cache(maxsize=4)
def _parameters(level: int) -> ZstdCompressionParameters:
    from zstandard import FORMAT_ZSTD1_MAGICLESS, ZstdCompressionParameters

    return ZstdCompressionParameters.from_level(
        level, format=FORMAT_ZSTD1_MAGICLESS, write_content_size=0, write_checksum=0, write_dict_id=0
    )


def _decompressor(dictionary: ZstdCompressionDict | None) -> ZstdDecompressor:
    from zstandard import FORMAT_ZSTD1_MAGICLESS, ZstdDecompressor

    window = 2 * MAX_RUN_BYTES
    if dictionary is None:
        return ZstdDecompressor(max_window_size=window, format=FORMAT_ZSTD1_MAGICLESS)
    return ZstdDecompressor(dict_data=dictionary, max_window_size=window, format=FORMAT_ZSTD1_MAGICLESS)


def _seal(run: bytes, count: int, dictionary: Dictionary, level: int) -> bytes:
    if len(run) > MAX_RUN_BYTES:
        raise ValueError(f"A block holds at most {MAX_RUN_BYTES:,} bytes of text, these are {len(run):,}.")
    compiled = _compile(dictionary)
    payload = compiled.compress(run, level)[1:]
    if dictionary.id and 2 * len(payload) > len(run):  # above that a dictionary was never worse
        plain = _compile(NO_DICTIONARY).compress(run, level)[1:]
        if len(plain) < len(payload):
            compiled, dictionary, payload = _compile(NO_DICTIONARY), NO_DICTIONARY, plain
    codec = CODEC_ZSTD
    if len(payload) >= len(run):
        compiled, dictionary, payload, codec = _compile(NO_DICTIONARY), NO_DICTIONARY, run, CODEC_STORED
    head = bytes((VERSION << 4 | codec,)) + b"".join(map(_varint, (dictionary.id, count, len(run))))
    return head + payload + _checksum(head + payload, compiled.checksum_key)


def _open(block: bytes, find: Callable[[int], Dictionary]) -> tuple[bytes, int]:
    """Return the run of a block, and the number of texts that it should have."""
    if len(block) < 1 + 3 + CHECKSUM_BYTES:
        raise Damaged("The block is cut short.")
    version, codec = divmod(block[0], 16)
    if version != VERSION or codec not in (CODEC_STORED, CODEC_ZSTD):
        raise Damaged("The block is of an unknown version or codec.")
    sealed = block[:-CHECKSUM_BYTES]
    dictionary_id, start = _read_varint(sealed, 1)
    count, start = _read_varint(sealed, start)
    size, start = _read_varint(sealed, start)
    if size > MAX_RUN_BYTES:
        raise Damaged(f"The block claims to hold {size:,} bytes of text; {MAX_RUN_BYTES:,} are allowed.")
    compiled = _find_compiled(dictionary_id, find)
    if _checksum(sealed, compiled.checksum_key) != block[-CHECKSUM_BYTES:]:
        raise Damaged("The block does not fit its checksum.")
    payload = sealed[start:]
    run = payload if codec == CODEC_STORED else _expand(compiled, payload, size)
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


def _find_compiled(id: int, find: Callable[[int], Dictionary]) -> _Compiled:
    if id == NO_DICTIONARY.id:
        return _compile(NO_DICTIONARY)
    if id > MAX_DICTIONARY_ID:
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
    return blake2b(sealed, digest_size=CHECKSUM_BYTES, key=key).digest()


def _varint(number: int) -> bytes:
    """Encode a number: seven bits a byte, the lowest first. All bytes but the last have the highest bit set."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _read_varint(data: bytes, start: int) -> tuple[int, int]:
    """Return the number that begins at `start`, and the position after it."""
    if start < len(data) and data[start] < 0x80:  # most numbers are short
        return data[start], start + 1
    match = _VARINT.match(data, start)
    if match is None:
        raise Damaged("The head of the block is cut or not one.")
    return sum((byte & 0x7F) << 7 * index for index, byte in enumerate(match[0])), match.end()
