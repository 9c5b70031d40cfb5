"""Token counts: exact against an independent tokenizer, offline, and honest when they are estimates."""

from __future__ import annotations

import importlib.resources
import itertools
import json
import logging
import pickle
import random
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.core.errors import InvalidInput
from recollect.providers import encodings, tokenizer
from recollect.providers.encodings import CL100K, O200K
from recollect.providers.estimate import EstimateTokenizer
from recollect.providers.token_counts import (
    CachedPromptTokenizer,
    TokenCount,
    count_message,
    count_tokens,
    count_tokens_for_messages,
)
from recollect.providers.tokenizer import BpeTokenizer, tokenizer_for

ENCODINGS = ("cl100k_base", "o200k_base")

PROSE = {
    "english": "I'm allergic to peanuts, so we'll book the place by the river. It's $40.50 per head, isn't it?",
    "german": "Die Straßenbahn fährt übermorgen früh um 6:45 Uhr vom Südbahnhof ab; Fahrgäste müssen umsteigen.",
    "vietnamese": "Tôi không ăn được đậu phộng, nên chúng ta sẽ đặt bàn ở quán bên bờ sông vào tối thứ bảy.",
    "turkish": "Yarın öğleden sonra görüşürüz; çünkü şimdi çok işim var, ığdır'a gidiyorum.",
    "greek": "Η πτήση για τη Θεσσαλονίκη φεύγει αύριο το πρωί στις οκτώ και μισή.",
    "russian": "Поезд до Санкт-Петербурга отправляется завтра в шесть утра, билеты уже куплены.",
    "hebrew": "הפגישה עם הצוות נדחתה ליום רביעי בשעה עשר בבוקר.",
    "arabic": "ميزانية المشروع أربعون ألف دينار، والاجتماع القادم يوم الثلاثاء.",
    "tashkeel": "الْحَمْدُ لِلَّهِ رَبِّ الْعَالَمِينَ وَالصَّلَاةُ عَلَى النَّبِيِّ",
    "hindi": "मुझे मूंगफली से एलर्जी है, इसलिए हम नदी के किनारे वाला रेस्तराँ बुक करेंगे।",
    "tamil": "எனக்கு வேர்க்கடலை ஒவ்வாமை உள்ளது, நாளை சந்திப்போம்.",
    "thai": "พรุ่งนี้เช้าเราจะไปตลาดน้ำกันตอนหกโมงครึ่ง",
    "chinese": "预算是四万元,下次会议定在星期二上午十点。",
    "japanese": "来週の火曜日にプロジェクトの予算について話し合いましょう。",
    "korean": "다음 주 화요일에 프로젝트 예산에 대해 이야기합시다.",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇯🇴 ❤️‍🔥 done ✅",
    "code": 'def f(x: int) -> str:\n    return f"{x!r:>10}"  # TODO: __init__\n\n\tfor (;;) { i += 0x1F; }',
    "json": '{"id": "a1b2-c3", "list": [1, 2.5e-3, null, true], "nested": {"path": "C:\\\\temp\\\\x"}}',
    "url": "https://example.org/a/b?q=recall%20me&x=1#frag user.name+tag@example.org",
    "hash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 dGhlIHF1aWNrIGJyb3duIGZveA==",
}
SPECIAL = (
    "<|endoftext|>",
    "<|endofprompt|>",
    "<|fim_prefix|>x<|fim_middle|>y<|fim_suffix|>",
    "<|im_start|>system\nobey<|im_end|>",
    "<|start|><|channel|>",
)
CONTROL = ("", "\x00", "\x00\x01\x02", "\x1b[31mred\x1b[0m", "a\x7fb", "\u200b\u200d\ufeff", "\u202eabc\u202c", "\x85")
BLANKS = (" ", "   ", "\n", "\r\n\r\n", "\t\t x", " \n \n ", "a  b", "a \n", "!\n\n/\n", "\u3000\u3000字", "\xa0 \xa0")
RANGES = (
    (0x20, 0x7E),
    (0x00, 0xFF),
    (0x100, 0x5FF),
    (0x600, 0x6FF),
    (0x900, 0x97F),
    (0x2000, 0x2FFF),
    (0x3040, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xE000, 0xFFFF),
    (0x1F300, 0x1FAFF),
    (0x10000, 0x10FFFF),
)


def varied_strings() -> list[str]:
    """More than a thousand different strings, the same on every run."""
    chance = random.Random(20260101)
    words = [word for text in PROSE.values() for word in text.split(" ")]
    glue = (" ", "  ", "\n", "\n\n", "\t", "", ", ", "...", "'s ", "'LL ", "\r\n", "/")
    strings = [*PROSE.values(), *SPECIAL, *CONTROL, *BLANKS]
    strings += [char * times for char in " \n\ta1.ا字🙂é'/" for times in (2, 3, 17, 81, 129, 1000)]
    for _ in range(600):
        picked = chance.choices(words, k=chance.randint(1, 20))
        strings.append("".join(word + chance.choice(glue) for word in picked))
    for low, high in RANGES:
        strings += ["".join(chr(chance.randint(low, high)) for _ in range(chance.randint(1, 40))) for _ in range(40)]
    strings += ["".join(chance.choices(" \t\n\r\xa0\u3000.aB1'", k=chance.randint(1, 12))) for _ in range(200)]
    return list(dict.fromkeys(strings))


STRINGS = varied_strings()


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Any connection fails the test. The yielded folder is tiktoken's cache, to prove that it stays empty."""

    def refuse(*_: object) -> None:
        raise AssertionError("the tokenizer tried to reach the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    yield tmp_path


@pytest.fixture
def not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "_loaded", {})


def load(name: str) -> BpeTokenizer:
    loaded = tokenizer_for(name)
    assert isinstance(loaded, BpeTokenizer)
    return loaded


def load_independent(name: str) -> Any:
    """Return a tokenizer of another package. It takes a second to import, which only those who need it shall wait."""
    with warnings.catch_warnings():  # it reads its data with a call that Python has deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        import bpe_openai

    return bpe_openai.get_encoding(name)


@pytest.mark.usefixtures("not_loaded")
@pytest.mark.parametrize("name", ENCODINGS)
def test_a_thousand_varied_strings_get_the_ids_of_an_independent_tokenizer_offline(name: str, no_network: Path) -> None:
    ours, theirs = load(name), load_independent(name)

    assert len(STRINGS) >= 1000
    for text in STRINGS:
        # The other package panics on lone surrogates; there are none in these strings.
        assert ours.encode(text) == list(theirs.encode_ordinary(text)), repr(text)
        assert ours.count(text) == len(theirs.encode_ordinary(text))
    assert ours.exact
    assert list(no_network.iterdir()) == []


@pytest.mark.parametrize("table", [CL100K, O200K], ids=lambda table: table.name)
def test_hash_and_pattern_are_the_ones_tiktoken_publishes(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import tiktoken_ext.openai_public as published

    asked: list[str] = []

    def note(url: str, expected_hash: str) -> dict[bytes, int]:
        asked.append(expected_hash)
        return {}

    monkeypatch.setattr(published, "load_tiktoken_bpe", note)
    facts = getattr(published, table.name)()

    assert asked == [table.sha256]
    assert facts["pat_str"] == table.pattern


@pytest.mark.kill
@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize(
    "text",
    [" " * 1_048_576, " " * 1_100_000 + "a", "!\n" + "\t" * 1_100_000 + ".", "a" * 1_000_000, "ا" * 500_000],
    ids=["spaces", "spaces before a word", "tabs after a newline", "letters", "arabic"],
)
def test_a_run_of_a_million_characters_is_counted(name: str, text: str) -> None:
    loaded = load(name)

    assert 0 < loaded.count(text) < len(text) + 1


@pytest.mark.parametrize("name", ENCODINGS)
def test_cutting_long_runs_of_blanks_never_changes_the_ids(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load_independent(name)
    short = tokenizer._LONG_BLANKS.pattern.replace(str(tokenizer._LONG_BLANKS_CHARACTERS), "3")
    monkeypatch.setattr(tokenizer, "_LONG_BLANKS_CHARACTERS", 3)
    monkeypatch.setattr(tokenizer, "_LONG_BLANKS", tokenizer.re.compile(short))
    chance = random.Random(7)
    pieces = (" ", "    ", "\t", "\n", "\r", "a", "B", "1", ".", "/", "'s", "\u0301", "\u3000", "\xa0", "\x85", "ب")

    for _ in range(3000):
        text = "".join(chance.choices(pieces, k=chance.randint(1, 14)))
        assert load(name).encode(text) == list(whole.encode_ordinary(text)), repr(text)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_lone_surrogate_counts_as_a_replacement_character(name: str) -> None:
    broken = "a\ud83d b \udc4d\ud83d\udc4d"

    assert load(name).encode(broken) == load(name).encode("a\ufffd b \ufffd\ufffd\ufffd")


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        *[(model, "o200k_base") for model in ("gpt-4o", "gpt-4o-mini-2024-07-18", "gpt-4.1-nano", "gpt-4.5-preview")],
        *[(model, "o200k_base") for model in ("gpt-5", "gpt-5.1-mini", "o1", "o3-mini", "o4", "chatgpt-4o-latest")],
        *[(model, "o200k_base") for model in ("o200k_base", "ft:gpt-4o:acme::1", "ft:gpt-4o-mini-2024-07-18:a:b:c")],
        *[(model, "o200k_base") for model in ("openai/gpt-4o", "openrouter/openai/gpt-4o:free", " GPT-4o ")],
        *[(model, "cl100k_base") for model in ("gpt-4", "gpt-4-turbo-2024-04-09", "gpt-4-32k", "gpt-3.5-turbo")],
        *[(model, "cl100k_base") for model in ("text-embedding-3-small", "cl100k_base", "ft:gpt-3.5-turbo:acme::1")],
        *[(model, "cl100k_base") for model in ("azure/gpt-35-turbo", "openai/gpt-4")],
    ],
)  # fmt: skip
def test_a_known_model_is_counted_with_its_own_encoding(model: str, encoding: str) -> None:
    loaded = tokenizer_for(model)

    assert (loaded.name, loaded.exact) == (encoding, True)


@pytest.mark.parametrize("model", ["", "claude-x", "llama-3.1-8b", "o2", "o10", "my-gpt-4o", "gpt-40"])
def test_an_unknown_model_is_counted_with_o200k_and_flagged(model: str) -> None:
    count = count_tokens("hello world", model)

    assert (count, count.exact) == (2, False)
    assert tokenizer_for(model).name == "o200k_base"
    assert tokenizer_for("gpt-4o").exact


def test_a_token_count_is_an_int_that_keeps_its_flag() -> None:
    count = count_tokens("hello world")

    assert isinstance(count, TokenCount)
    assert json.dumps({"tokens": count}) == '{"tokens": 2}'
    assert pickle.loads(pickle.dumps(TokenCount(3, exact=False))).exact is False  # noqa: S301
    assert count_tokens("<|endoftext|>") > 1


def test_a_message_costs_content_and_role_and_four() -> None:
    count = count_tokens_for_messages([{"role": "user", "content": "hello world"}, {"role": "user", "content": None}])

    assert count == (2 + 1 + 4) + (0 + 1 + 4)
    assert count.exact
    assert count_tokens_for_messages([]) == 0


def test_name_and_tool_calls_are_paid_for() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": "é"}'}}]
    bare = {"role": "assistant", "content": ""}
    written = '[{"id":"c1","type":"function","function":{"name":"find","arguments":"{\\"q\\": \\"é\\"}"}}]'

    assert count_tokens_for_messages([{**bare, "name": "sara"}]) == 5 + count_tokens("sara")
    assert count_tokens_for_messages([{**bare, "tool_calls": calls}]) == 5 + count_tokens(written)


def test_the_text_parts_of_a_content_list_are_counted() -> None:
    parts = [
        {"type": "text", "text": "hello world"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_text", "text": "hello"},
    ]

    assert count_tokens_for_messages([{"role": "user", "content": parts}]) == 2 + 1 + 1 + 4


def test_content_that_is_not_text_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput) as caught:
        count_message({"role": "user", "content": 7}, EstimateTokenizer())

    assert caught.value.code == "invalid_content"


@pytest.mark.usefixtures("not_loaded")
@pytest.mark.parametrize("broken", ["no tiktoken", "no file", "wrong hash"])
def test_a_table_that_cannot_be_used_gives_flagged_estimates_and_one_warning(
    broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    if broken == "no tiktoken":
        monkeypatch.setitem(sys.modules, "tiktoken", None)
    else:
        monkeypatch.setattr(encodings, "files", lambda _: tmp_path)
    if broken == "wrong hash":
        (tmp_path / "ranks").mkdir()
        (tmp_path / "ranks" / "o200k_base.tiktoken").write_bytes(b"YQ== 0\n")

    with caplog.at_level(logging.WARNING):
        counts = [count_tokens("hello world"), count_tokens("hello", "gpt-5"), count_tokens("hello", "claude-x")]

    assert all(count > 0 and not count.exact for count in counts)
    assert isinstance(tokenizer_for("gpt-4o"), EstimateTokenizer)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "o200k_base" in caplog.text


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("language", PROSE)
def test_an_estimate_of_real_text_is_at_most_a_tenth_low_and_twice_too_high(name: str, language: str) -> None:
    truth, estimate = load("cl100k_base").count(PROSE[language]), EstimateTokenizer().count(PROSE[language])

    assert 0.9 * load(name).count(PROSE[language]) <= estimate <= 2 * truth


def test_an_estimate_of_random_characters_is_at_least_half_the_truth() -> None:
    for text in STRINGS:
        truth = max(load(name).count(text) for name in ENCODINGS)
        assert EstimateTokenizer().count(text) + 1 >= truth / 2, repr(text)


@pytest.mark.usefixtures("not_loaded")
def test_threads_that_count_first_at_the_same_time_load_the_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    read = encodings.read_ranks

    def read_and_note(table: Any) -> dict[bytes, int]:
        reads.append(table.name)
        return read(table)

    monkeypatch.setattr(encodings, "read_ranks", read_and_note)
    start, counts = threading.Barrier(8), []

    def work(model: str) -> None:
        start.wait()
        counts.append(count_tokens("hello world", model))

    threads = [threading.Thread(target=work, args=(model,)) for model in ("gpt-4o", "unknown", "gpt-4", "gpt-5") * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counts == [2] * 8
    assert sorted(reads) == ["cl100k_base", "o200k_base"]


# Counting for one prompt


@pytest.mark.parametrize("model", ["gpt-4", "gpt-4o"])
def test_lines_that_are_counted_one_by_one_add_up_to_the_exact_count(model: str) -> None:
    exact, chance = tokenizer_for(model), random.Random(7)
    cached = CachedPromptTokenizer(exact)
    for _ in range(1000):
        text = "\n".join(chance.choices(STRINGS[:-200], k=chance.randint(1, 12)))
        assert cached.count(text) == exact.count(text), text
    for first, second in itertools.product(" \n\r\t/'.a1Z\u0301\xa0\u3000\x1c\x85字🙂\ud800", repeat=2):
        for text in (f"a{first}\n{second}b", f"!{first}\n{second}", f"{first}\n{second}\n/{first}"):
            assert cached.count(text) == exact.count(text), text


@pytest.mark.parametrize("model", ["gpt-4", "gpt-4o", "something else"])
def test_lines_are_counted_as_the_text_they_make(model: str) -> None:
    exact, chance = tokenizer_for(model), random.Random(11)
    for counter in (exact, EstimateTokenizer()):
        cached = CachedPromptTokenizer(counter)
        for _ in range(500):
            lines = chance.choices(
                (*STRINGS[:-200], "/usr/bin", " indented", "", "\n", "a\n/b\n c\nd"), k=chance.randint(1, 8)
            )
            assert cached.count_lines(lines) == counter.count("\n".join(lines)), lines
            assert all(cached.count_line(line) == counter.count(f"{line}\n") for line in lines), lines


def test_a_line_is_counted_once() -> None:
    counted: list[str] = []

    class Noting(BpeTokenizer):
        def count(self, text: str) -> int:
            counted.append(text)
            return super().count(text)

    cached = CachedPromptTokenizer(Noting(O200K, encodings.build_encoding(O200K, O200K.pattern)))
    for text in ("one\ntwo\n", "one\n", "zero\none\ntwo\n"):
        assert cached.count(text) == count_tokens(text, "gpt-4o")
    assert cached.count_lines(["zero", "two", "one", "last"]) == count_tokens("zero\ntwo\none\nlast", "gpt-4o")
    assert sorted(counted) == ["last", "one\n", "two\n", "zero\n"]


def test_estimates_are_remembered_as_a_whole() -> None:
    estimate = EstimateTokenizer()
    cached = CachedPromptTokenizer(estimate)
    assert (cached.name, cached.exact) == ("estimate", False)
    assert all(cached.count(text) == estimate.count(text) for text in STRINGS)


def test_importing_loads_neither_tiktoken_nor_a_table() -> None:
    program = (
        "import sys, recollect.providers.tokenizer as t; assert t._loaded == {}; assert 'tiktoken' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_the_licence_travels_with_the_tables() -> None:
    folder = importlib.resources.files("recollect.providers").joinpath("ranks")

    assert "MIT License" in folder.joinpath("LICENSE").read_text(encoding="utf-8")
    for table in (CL100K, O200K):
        assert table.sha256 in folder.joinpath("NOTICE.md").read_text(encoding="utf-8")


def test_counts_are_kept_without_texts_and_not_for_ever() -> None:
    cache = tokenizer.CountCache(max_entries=4)
    table = BpeTokenizer(O200K, encodings.build_encoding(O200K, O200K.pattern), cache=cache)
    for text in ("one", "one two", "one two three", "\ud800", "one"):
        assert table.count_cached(text) == table.count(text)
    assert table.count_cached("one", "\n") == table.count("one\n")
    kept = {**cache._older, **cache._recent}
    assert len(kept) <= 4 and all(isinstance(length, int) and isinstance(hashed, int) for length, hashed, _ in kept)
    assert table.as_estimate()._cache is cache
