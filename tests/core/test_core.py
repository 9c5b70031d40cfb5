"""The pure parts: times and days, words, ids, and the public fakes."""

from __future__ import annotations

import asyncio
import math
import struct
import uuid
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recollect.admin.erase import make_pieces
from recollect.core import times, word_index
from recollect.core.dates import periods
from recollect.core.errors import InvalidInput, ProviderUnavailable
from recollect.core.language import analyser, message_flags, passages
from recollect.core.text import replace_unstorable, replace_unstorable_json
from recollect.runtime.ids import new_id
from recollect.testing import FakeClock, FakeEmbedder, FakeModel

ZONES = st.sampled_from(sorted(available_timezones()))
MOMENTS = st.datetimes(datetime(1900, 1, 2), datetime(2199, 12, 30), timezones=st.just(UTC))


@given(MOMENTS)
def test_microseconds_keep_every_moment(moment: datetime) -> None:
    assert times.from_micros(times.to_micros(moment)) == moment


@given(moment=MOMENTS, zone=ZONES)
def test_every_moment_lies_in_exactly_its_local_day_in_every_zone(moment: datetime, zone: str) -> None:
    local = moment.astimezone(ZoneInfo(zone)).date()
    start, end = times.day_bounds(local, zone)
    assert start <= moment < end
    for other in (local - timedelta(days=1), local + timedelta(days=1)):
        start, end = times.day_bounds(other, zone)
        assert not start <= moment < end


def test_days_with_a_clock_change_are_shorter_or_longer() -> None:
    spring = times.day_bounds(date(2026, 3, 29), "Europe/Berlin")
    autumn = times.day_bounds(date(2026, 10, 25), "Europe/Berlin")
    assert [(end - start) / timedelta(hours=1) for start, end in (spring, autumn)] == [23, 25]


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../../etc/passwd", "/etc/passwd", "Europe", None, 3, "a\x00b"])
def test_an_unknown_zone_is_refused(zone: object) -> None:
    with pytest.raises(InvalidInput):
        times.load_zone(zone)


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=300))
@example("camelCase snake_case v1.2.3 PROJ-123 main.py don't")
def test_words_are_short_and_without_blanks_and_a_text_holds_all_that_it_asks_for(text: str) -> None:
    text = replace_unstorable(text)[0]
    indexed = analyser.words(text)
    for word in indexed:
        assert 0 < len(word) <= analyser.MAX_WORD_CHARACTERS
        assert not set(word) & set(" '\"\\@:*()|&!<>\t\n\x00")
    asked = analyser.query_words(text)
    assert set(asked) <= set(indexed)
    assert bool(asked) == bool(indexed)
    assert len(set(asked)) == len(asked)


@given(st.text(st.characters(max_codepoint=127), max_size=300))
def test_the_fast_way_for_ascii_finds_the_same_words(text: str) -> None:
    slow = analyser.words(f"{text} Ж")  # one letter beyond ASCII sends the whole text the slow way
    assert Counter(slow) - Counter(analyser.words(text)) == Counter(analyser.words("Ж"))
    assert Counter(analyser.words(text)) - Counter(slow) == Counter()


@given(st.text(max_size=100), st.none() | st.text(max_size=20))
@example("One.\n\n```py\nx = 1\n```\nTwo.", "Sara")
def test_a_row_is_the_speakers_words_then_each_passage_behind_its_mark_then_the_flags(
    text: str, name: str | None
) -> None:
    text, name = replace_unstorable(text)[0], None if name is None else replace_unstorable(name)[0]
    expected = [] if name is None else [word_index.hash_word(word) for word in analyser.words(name)]
    for passage in passages.split(text):
        expected.append(word_index.CODE_MARK if passage.kind == "code" else word_index.PROSE_MARK)
        expected += map(word_index.hash_word, analyser.words(text[passage.start : passage.stop]))
    flags = message_flags.find_flags(text)
    expected += [word_index.FIRST_FLAG_MARK + bit for bit in range(message_flags.FLAG_COUNT) if flags >> bit & 1]
    row = word_index.encode_row(text, name)
    assert list(struct.unpack(f"<{len(row) // 4}I", row)) == expected
    assert all(number >= word_index.FIRST_WORD_NUMBER for number in map(word_index.hash_word, analyser.words(text)))


def test_the_number_of_a_word_is_the_same_on_every_machine() -> None:
    assert [word_index.hash_word(word) for word in ("peanut", "تقرير", "東京")] == [3995411123, 33148845, 1168149181]


def test_caches_hold_no_word_of_a_text_after_forget() -> None:
    secret = "Zyxwvutsrq"
    word_index.encode_row(f"{secret} said é " * 40, secret)
    periods.find_periods(f"what did {secret} say yesterday?", now=datetime(2026, 5, 1, tzinfo=UTC))
    assert secret.lower() in word_index._numbers
    assert any(secret in piece for piece in passages._costs)
    assert analyser._stemmed.cache_info().currsize
    assert periods._find_mentions_cached.cache_info().currsize
    for module in (word_index, passages, analyser, periods):
        module.forget()
    assert not word_index._numbers
    assert not passages._costs
    assert not analyser._stemmed.cache_info().currsize
    assert not periods._find_mentions_cached.cache_info().currsize


def test_json_values_keep_what_can_be_stored_and_other_values_are_refused() -> None:
    assert replace_unstorable_json({"a\x00": [1, None, "b\ud800"]}) == ({"a\ufffd": [1, None, "b\ufffd"]}, 2)
    for bad in (math.inf, {"x": {1, 2}}, {3: 1}):
        with pytest.raises(InvalidInput):
            replace_unstorable_json({"v": bad})


@given(MOMENTS)
def test_ids_are_uuid7_and_sort_by_time(moment: datetime) -> None:
    first, second = new_id(moment), new_id(moment + timedelta(milliseconds=2))
    assert uuid.UUID(first).version == 7
    assert uuid.UUID(first).variant == uuid.RFC_4122
    assert first < second or moment.year < 1970
    assert new_id(moment) != new_id(moment)


def test_pieces_of_evidence_come_from_the_middle_and_are_long_enough() -> None:
    assert make_pieces(["short", "x" * 100, "two\nthis line is the longest of them all, really\nend"]) == [
        "x" * 32,
        "ine is the longest of them all, ",
    ]


def test_the_fake_clock_moves_only_when_told() -> None:
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    assert clock.now() == clock.now()
    assert clock.advance(timedelta(days=1)) == clock.now() == datetime(2026, 1, 2, tzinfo=UTC)
    with pytest.raises(ValueError, match="zone"):
        FakeClock(datetime(2026, 1, 1))


def test_the_fake_model_answers_in_turn_and_remembers_the_calls() -> None:
    model = FakeModel(["one", ProviderUnavailable("provider_timeout", "late"), "two"])

    async def ask(text: str) -> str:
        return await model.complete([{"role": "user", "content": text}], max_tokens=5)

    assert asyncio.run(ask("a")) == "one"
    with pytest.raises(ProviderUnavailable):
        asyncio.run(ask("b"))
    assert [asyncio.run(ask("c")), asyncio.run(ask("d"))] == ["two", "two"]
    assert [call.messages[0]["content"] for call in model.calls] == ["a", "b", "c", "d"]
    assert (
        asyncio.run(FakeModel(lambda call: call.messages[0]["content"][::-1]).complete([{"content": "abc"}])) == "cba"
    )
    assert asyncio.run(FakeModel([]).complete([])) == "ok"


def test_the_fake_embedder_puts_texts_with_common_words_near_each_other() -> None:
    embedder = FakeEmbedder(dimensions=64)
    near, far, same = asyncio.run(embedder.embed(["green apples", "loud trains", "green apples"]))
    (query,) = asyncio.run(embedder.embed(["red apples"]))
    assert near == same
    assert sum(a * b for a, b in zip(query, near, strict=True)) > sum(a * b for a, b in zip(query, far, strict=True))
    assert all(abs(math.hypot(*vector) - 1) < 1e-9 for vector in (near, far, query))
    assert len(asyncio.run(embedder.embed(["", "\ud800"]))) == 2
    embedder.failure = ProviderUnavailable("provider_unreachable", "down")
    with pytest.raises(ProviderUnavailable):
        asyncio.run(embedder.embed(["x"]))
