"""Blocks of the archive give back exactly what went in, or say that they are damaged."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from hashlib import blake2b, sha256
from importlib.resources import files

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect import StoreUnavailable
from recollect.core import archive
from recollect.core.archive import FIRST_LEARNED_ID, NO_DICTIONARY, Damaged, Dictionary
from recollect.storage import shipped_dictionary as shipped_file
from recollect.storage.shipped_dictionary import learned_dictionary, shipped_dictionary

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
SPECIAL = st.sampled_from(
    ["", "\0", "\ud800", "\udfff\ud83d", "\ud83d\ude00", "😀👩‍👩‍👧", "\xff", "ÿ\0ÿ", "a" * 300, "\n"]
)
CHAT = [
    "Hey Ann! How was the weekend?",
    "It was great, thanks! I went hiking with my sister, and we had a wonderful time.",
    "That sounds amazing! I've been thinking about going to the mountains too.",
    "",
    "You should! By the way, do you have any tips for a good pair of shoes? 👟",
]


@lru_cache(maxsize=1)
def own() -> Dictionary:
    """Return a dictionary that was learned from invented chat."""
    return learned_dictionary(FIRST_LEARNED_ID, archive.train(chat(1500), 8000))


def chat(count: int, seed: int = 1) -> list[str]:
    """Return so many texts, encoded of a few hundred words."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("etaoinshrdlu", k=chance.randint(2, 8))) for _ in range(400)]
    weights = [1 / rank for rank in range(1, 401)]
    return [" ".join(chance.choices(words, weights, k=chance.randint(3, 20))) for _ in range(count)]


def find(id: int) -> Dictionary:
    return {archive.SHIPPED_ID: shipped_dictionary(), FIRST_LEARNED_ID: own()}[id]


def dictionary(name: str) -> Dictionary:
    return {"none": NO_DICTIONARY, "shipped": shipped_dictionary(), "learned": own()}[name]


def blocks() -> list[bytes]:
    """Return one block of each kind."""
    encoded = [
        archive.encode(["k7", "", "\ud800"], NO_DICTIONARY),
        archive.encode(CHAT * 3, NO_DICTIONARY),
        archive.encode(CHAT, shipped_dictionary()),
        archive.encode(chat(10, 2), own()),
    ]
    assert [(block[0] & 15, block[1]) for block in encoded[:3]] == [
        (archive.CODEC_STORED, 0),
        (archive.CODEC_ZSTD, 0),
        (archive.CODEC_ZSTD, 1),
    ]
    assert encoded[3][0] & 15 == archive.CODEC_ZSTD
    assert encoded[3][1] | encoded[3][2] << 8 == (FIRST_LEARNED_ID & 0x7F | 0x80) | (FIRST_LEARNED_ID >> 7) << 8
    return encoded


def crafted(payload: bytes, size: int, *, count: int = 1, codec: int = archive.CODEC_ZSTD) -> bytes:
    """Return a block without a dictionary and with a right checksum."""
    head = bytes((archive.VERSION << 4 | codec, 0)) + archive._varint(count) + archive._varint(size)
    return head + payload + blake2b(head + payload, digest_size=archive.CHECKSUM_BYTES).digest()


def frame(run: bytes, **options: int) -> bytes:
    """Return a zstd frame like those in blocks, with its first byte and with other options."""
    options = {"write_content_size": 0, "write_checksum": 0, "write_dict_id": 0} | options
    parameters = zstandard.ZstdCompressionParameters.from_level(3, format=zstandard.FORMAT_ZSTD1_MAGICLESS, **options)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(run)


@pytest.mark.parametrize("name", ["none", "shipped", "learned"])
@settings(deadline=None, max_examples=150)
@given(texts=st.lists(ANY_TEXT | SPECIAL | st.sampled_from(CHAT), max_size=64))
def test_any_texts_come_back_as_they_were(name: str, texts: list[str]) -> None:
    assert archive.decode(archive.encode(texts, dictionary(name)), find) == texts


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["\0"], ["\ud83d\ude00"], ["ÿ" * 70_000], ["x", "y" * 200_000]])
def test_edges_come_back_as_they_were(texts: list[str]) -> None:
    for name in ("none", "shipped", "learned"):
        assert archive.decode(archive.encode(texts, dictionary(name)), find) == texts


def test_a_block_is_never_more_than_a_few_bytes_larger_than_its_texts() -> None:
    noise = "".join(chr(random.Random(4).randrange(0x4E00, 0x9FFF)) for _ in range(500))
    for texts in ([], ["x"], [noise], CHAT):
        raw = sum(len(text.encode()) + 1 for text in texts)
        assert len(archive.encode(texts, shipped_dictionary())) <= raw + 16


def test_dictionaries_make_blocks_of_chat_much_smaller() -> None:
    plain, shipped = (len(archive.encode(CHAT, which)) for which in (NO_DICTIONARY, shipped_dictionary()))
    assert shipped < 0.7 * plain
    texts = chat(1500)[300:320]
    assert len(archive.encode(texts, own())) < 0.9 * len(archive.encode(texts, shipped_dictionary()))


def test_ten_thousand_flips_cuts_and_extensions_are_all_noticed() -> None:
    chance = random.Random(11)
    encoded = blocks()
    for trial in range(10_000):
        block = bytearray(encoded[trial % len(encoded)])
        kind = chance.random()
        if kind < 0.7:
            for bit in chance.sample(range(8 * len(block)), chance.choice((1, 1, 1, 2, 5))):
                block[bit // 8] ^= 1 << bit % 8
        elif kind < 0.85:
            start = chance.randrange(len(block))
            del block[start : start + chance.randint(1, len(block))]
        else:
            offset = chance.randint(0, len(block))
            block[offset:offset] = chance.randbytes(chance.randint(1, 40))
        if bytes(block) == encoded[trial % len(encoded)]:
            continue
        with pytest.raises(Damaged):
            archive.decode(bytes(block), find)


@settings(deadline=None, max_examples=300)
@given(block=st.binary(max_size=80), first=st.sampled_from([b"", b"\x10", b"\x11", b"\x11\x01", b"\x11\xe8\x07"]))
def test_bytes_that_never_were_a_block_are_damaged(block: bytes, first: bytes) -> None:
    with pytest.raises(Damaged):
        archive.decode(first + block, find)


@settings(deadline=None, max_examples=300)
@given(
    payload=st.binary(max_size=60),
    size=st.integers(0, 200),
    count=st.integers(0, 5),
    codec=st.sampled_from([archive.CODEC_STORED, archive.CODEC_ZSTD]),
)
def test_a_right_checksum_over_nonsense_gives_texts_or_damaged_and_nothing_else(
    payload: bytes, size: int, count: int, codec: int
) -> None:
    try:
        texts = archive.decode(crafted(payload, size, count=count, codec=codec), find)
    except Damaged:
        return
    assert len(texts) == count


@pytest.mark.parametrize(
    "block",
    [
        crafted(b"ab", 2, codec=archive.CODEC_STORED),
        crafted(b"a\xff", 2, count=2, codec=archive.CODEC_STORED),
        crafted(b"a\xff", 3, codec=archive.CODEC_STORED),
        crafted(b"\xc3\xff", 2, codec=archive.CODEC_STORED),
        crafted(b"", 0, codec=archive.CODEC_STORED),
        crafted(b"a\xff", 2, codec=2),
        crafted(b"", 0, count=0),
        crafted(frame(b"abc\xff")[1:], 5),
        crafted(frame(b"abc\xff")[1:], 3),
        crafted(frame(b"abc\xff")[1:] + b"x", 4),
        crafted(frame(b"abc\xff")[1:-1], 4),
    ],
)
def test_contradictions_under_a_right_checksum_are_damaged(block: bytes) -> None:
    with pytest.raises(Damaged):
        archive.decode(block, find)


def test_what_is_crafted_here_is_otherwise_read() -> None:
    assert archive.decode(crafted(b"a\xff", 2, codec=archive.CODEC_STORED), find) == ["a"]
    assert archive.decode(crafted(frame(b"abc\xff")[1:], 4), find) == ["abc"]


@pytest.mark.parametrize("size", [10, archive.MAX_RUN_BYTES, archive.MAX_RUN_BYTES + 1, 1 << 34])
def test_a_bomb_is_refused_in_bounded_memory(size: int) -> None:
    bombs = [frame(b"\0" * 100_000_000)[1:], frame(b"\0" * 100_000_000, write_content_size=1)]
    assert max(map(len, bombs)) < 20_000
    tracemalloc.start()
    try:
        for payload in bombs:
            with pytest.raises(Damaged):
                archive.decode(crafted(payload, size), find)
        assert tracemalloc.get_traced_memory()[1] < 2 * archive.MAX_RUN_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
def test_a_bomb_does_not_take_memory_from_the_system_either() -> None:
    code = """
import resource, sys
from recollect.core import archive
block = bytes.fromhex(sys.stdin.read())
try:
    archive.decode(archive.encode(["a" * 1000], archive.NO_DICTIONARY), {}.__getitem__)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    archive.decode(block, {}.__getitem__)
except archive.Damaged:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    block = crafted(frame(b"\0" * 100_000_000)[1:], 50)
    done = subprocess.run([sys.executable, "-c", code], input=block.hex(), text=True, capture_output=True, check=True)
    assert int(done.stdout) < 24 * 1024  # kB


def test_more_text_than_a_block_may_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        archive.encode(["x" * archive.MAX_RUN_BYTES], NO_DICTIONARY)


def test_a_block_without_its_dictionary_is_damaged() -> None:
    with pytest.raises(Damaged, match="1000"):
        archive.decode(archive.encode(chat(10), own()), {}.__getitem__)


@pytest.mark.parametrize("body", [b"", b"no dictionary", None], ids=["empty", "text", "another"])
def test_a_dictionary_with_other_content_is_noticed(body: bytes | None) -> None:
    block = archive.encode(chat(10), own())
    other = learned_dictionary(FIRST_LEARNED_ID, archive.train(chat(1500, 9), 8000) if body is None else body)
    with pytest.raises(Damaged):
        archive.decode(block, lambda _: other)
    assert archive.decode(block, find) == chat(10)


def test_one_changed_byte_of_a_dictionary_is_noticed_in_every_block_that_needs_it() -> None:
    body = bytearray(own().body)
    body[-1] ^= 1
    with pytest.raises(Damaged):
        archive.decode(archive.encode(["zz"] * 30, own()), lambda _: learned_dictionary(FIRST_LEARNED_ID, bytes(body)))


def test_a_body_that_is_no_dictionary_is_refused() -> None:
    for number in (2, FIRST_LEARNED_ID):
        with pytest.raises(ValueError, match="dictionary"):
            archive.encode(CHAT, learned_dictionary(number, b"text" * 100))


def test_the_shipped_dictionary_is_the_one_its_notice_names() -> None:
    folder = files("recollect.storage").joinpath(shipped_file.FOLDER)
    digest = sha256(folder.joinpath(shipped_file.FILE_NAME).read_bytes()).hexdigest()
    assert digest == shipped_file.SHA256
    assert f"| `{shipped_file.FILE_NAME}` | `{digest}` |" in folder.joinpath("NOTICE.md").read_text("utf-8")
    assert "Copyright (c) 2024 Di Wu" in folder.joinpath("LICENSE").read_text("utf-8")


def test_the_shipped_dictionary_is_small_and_has_no_addresses_or_numbers_of_people() -> None:
    body = shipped_dictionary().body
    assert len(body) <= 256 * 1024
    content = archive._split(body)[1].replace(b"\xff", b" ").decode("utf-8", "ignore")
    assert "I've been" in content
    assert re.findall(r"\w@\w|https?:|\d{5,}|\d{3}-\d{4}", content) == []


def test_a_shipped_file_that_differs_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped_file, "SHA256", "0" * 64)
    with pytest.raises(StoreUnavailable, match="install"):  # not Damaged: the blocks are well
        shipped_dictionary.__wrapped__()


def test_training_is_deterministic() -> None:
    assert archive.train(chat(1500), 8000) == own().body
    assert archive.train(chat(1500, 2), 8000) != own().body
    assert len(own().body) <= 8000


def test_a_long_stretch_of_the_same_does_not_end_the_training() -> None:
    texts = chat(600) + ["the same thing again and again"] * 4000 + chat(600, 5)
    content = archive.train(texts, 16_000)
    assert len(content) > 12_000


@pytest.mark.parametrize(("texts", "size"), [([], 4000), (["x"], 4000), (CHAT, 4000), ([""] * 9000, 4000), (CHAT, 100)])
def test_too_little_text_to_learn_from_is_refused(texts: list[str], size: int) -> None:
    with pytest.raises(ValueError, match="learn"):
        archive.train(texts, size)


def test_a_dictionary_is_kept_in_less_than_its_size_and_comes_back() -> None:
    packed = archive.pack_dictionary(own().body, shipped_dictionary())
    assert len(packed) < 0.8 * len(own().body)
    assert archive.unpack_dictionary(packed, shipped_dictionary()) == own().body
    with pytest.raises(Damaged):
        archive.unpack_dictionary(packed[:-1], shipped_dictionary())


def test_the_size_of_a_dictionary_grows_with_the_text_to_a_limit() -> None:
    sizes = [archive.dictionary_size(text) for text in range(0, 4_000_000, 1000)]
    assert sizes == sorted(sizes)
    assert archive.dictionary_size(archive.MIN_LEARNING_BYTES - 1) == 0
    assert 0 < archive.dictionary_size(archive.MIN_LEARNING_BYTES) <= archive.MIN_LEARNING_BYTES / 3
    assert sizes[-1] == archive.MAX_DICTIONARY_BYTES


@pytest.mark.slow
def test_eight_threads_share_dictionaries() -> None:
    archive.forget(archive.SHIPPED_ID)
    archive.forget(FIRST_LEARNED_ID)
    texts = [chat(10, seed) for seed in range(40)]
    expected = [archive.encode(group, own()) for group in texts[:3]]
    archive.forget(FIRST_LEARNED_ID)

    def work(number: int) -> list[bytes]:
        encoded = []
        for index, group in enumerate(texts):
            which = (NO_DICTIONARY, shipped_dictionary(), own())[(index + number) % 3]
            block = archive.encode(group, which)
            assert archive.decode(block, find) == group
            encoded.append(archive.encode(texts[index % 3], own()))
            if index % 10 == number:
                archive.forget(FIRST_LEARNED_ID)
        return encoded

    with ThreadPoolExecutor(8) as pool:
        for encoded in pool.map(work, range(8)):
            assert encoded == [expected[index % 3] for index in range(len(texts))]


def test_a_forgotten_dictionary_is_no_longer_held() -> None:
    archive.encode(CHAT, own())
    archive.encode(CHAT, shipped_dictionary())
    archive.forget(FIRST_LEARNED_ID)
    held = {dictionary.id for dictionary in archive._compiled}
    assert archive.SHIPPED_ID in held
    assert FIRST_LEARNED_ID not in held


def test_forgetting_without_an_id_drops_every_learned_dictionary_and_keeps_the_shipped_one() -> None:
    for dictionary in (shipped_dictionary(), own(), learned_dictionary(FIRST_LEARNED_ID + 1, own().body)):
        assert archive.decode(archive.encode(CHAT, dictionary), lambda _, known=dictionary: known) == CHAT
    archive.forget()
    assert [dictionary.id for dictionary in archive._compiled] == [archive.SHIPPED_ID]
    assert [compiled.idle for compiled in archive._compiled.values()] == [[]]
    assert archive.decode(archive.encode(CHAT, own()), find) == CHAT


def test_a_learned_dictionary_without_its_base_is_refused() -> None:
    with pytest.raises(ValueError, match="dictionary"):
        archive.encode(CHAT, Dictionary(FIRST_LEARNED_ID + 7, own().body))


@pytest.mark.slow
def test_only_a_few_dictionaries_stay_compiled() -> None:
    several = {
        number: learned_dictionary(number, own().body)
        for number in range(FIRST_LEARNED_ID, FIRST_LEARNED_ID + 3 * archive.MAX_COMPILED_DICTIONARIES)
    }
    for dictionary in several.values():
        assert archive.decode(archive.encode(chat(5), dictionary), several.__getitem__) == chat(5)
        assert len(archive._compiled) <= archive.MAX_COMPILED_DICTIONARIES
    for number in several:
        archive.forget(number)


def test_importing_the_module_does_not_import_zstandard() -> None:
    code = "import sys; import recollect.core.archive; print('zstandard' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout.strip() == "False"
