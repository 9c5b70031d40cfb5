"""Packing: what surely does not fit is known without counting."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.language import passages
from recollect.core.message import Message
from recollect.core.protocols import Tokenizer
from recollect.providers.encodings import CL100K, O200K, EncodingTable, read_ranks
from recollect.providers.estimate import EstimateTokenizer
from recollect.providers.tokenizer import tokenizer_for
from recollect.recall import message_texts
from recollect.recall.message_texts import (
    MAX_PRELOADED_MESSAGES,
    MAX_PRELOADED_WORDS,
    MESSAGE_OVERHEAD_BYTES,
    MessageTexts,
    QuotablePassage,
    surely_exceeds,
)
from recollect.recall.prompt.pack import Candidate, pack_candidates

COUNTERS = (tokenizer_for("gpt-4o"), tokenizer_for("gpt-4"), EstimateTokenizer())
PIECES = (
    "word",
    "a",
    "'s",
    "12",
    "/",
    "//",
    ";",
    "*/",
    "}",
    ".",
    "字",
    "أنا",
    "🙂",
    " ",
    "\n",
    "\r\n",
    "\t",
    "\x1c",
    "\x85",
)
TEXTS = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def item(place: int, text: str, score: float) -> Candidate:
    message = Message("m", "talk", 1, "user", text, NOW, "typed")
    return Candidate(0, place, message, QuotablePassage.of(message, text, "prose"), score)


@pytest.mark.parametrize("table", [CL100K, O200K], ids=lambda table: table.name)
def test_no_token_of_a_table_reaches_into_a_word_that_begins_with_anything_but_a_slash(table: EncodingTable) -> None:
    for token in read_ranks(table):
        _, *others = token.decode(errors="replace").split() or [""]
        assert all(word.startswith("/") for word in others), token


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
@given(text=TEXTS)
def test_nothing_that_fits_is_said_to_exceed(counter: Tokenizer, text: str) -> None:
    tokens = counter.count(text)
    assert not any(surely_exceeds(text, most) for most in range(max(tokens, 1), tokens + 3))


def test_many_words_exceed_few_tokens() -> None:
    assert surely_exceeds("one two three four", 3) and not surely_exceeds("one two three four", 4)
    assert surely_exceeds("", 0) and surely_exceeds("one", -5)


def test_only_what_may_fit_is_counted_and_the_best_comes_first() -> None:
    counted: list[int] = []

    def cost(one: Candidate) -> int:
        counted.append(one.passage_index)
        return len(one.passage.text.split()) + 1

    items = [item(0, "far too long for it all", 0.9), item(1, "one two", 0.1), item(2, "one two three", 0.5)]
    taken: list[Candidate] = []
    found = pack_candidates(items, 4, cost, taken.append, lambda *_: True)
    assert found == ([items[2]], [items[0], items[1]])
    assert taken == [items[2]] and counted == [2]


def test_a_long_quote_must_bring_more_than_a_short_one_and_what_is_left_out_leaves_its_room() -> None:
    items = [item(0, "one two three four five", 0.9), item(1, "one two", 0.8), item(2, "one", 0.7)]
    taken: list[Candidate] = []

    def is_worth(one: Candidate, tokens: int) -> bool:
        return one.score >= 0.3 * tokens

    found = pack_candidates(items, 5, lambda one: len(one.passage.text.split()), taken.append, is_worth)
    assert found == ([items[1], items[2]], [items[0]])
    assert taken == [items[1], items[2]]


# What a scope keeps of messages


def said(seq: int, text: str, *, damaged: bool = False) -> Message:
    return Message(f"m{seq}", "talk", seq, "user", text, NOW, "typed", damaged=damaged)


def test_the_messages_that_were_read_first_go_first() -> None:
    kept = MessageTexts(max_bytes=3 * (MESSAGE_OVERHEAD_BYTES + 3 * 200))
    for seq in range(5):
        kept.keep(seq, said(seq, "x" * 100))
        kept.passages(seq, said(seq, "x" * 100))
    assert [kept.get(seq) is not None for seq in range(5)] == [False, False, True, True, True]
    assert kept.nbytes <= 3 * (MESSAGE_OVERHEAD_BYTES + 3 * 200)


def test_what_is_damaged_is_read_again() -> None:
    kept = MessageTexts()
    kept.keep(1, said(1, "", damaged=True))
    assert kept.get(1) is None and not kept.nbytes


def test_passages_are_those_of_the_text() -> None:
    kept, message = MessageTexts(), said(1, "One.\n\n```python\nprint(1)\n```\n\nTwo.")
    expected = [message.content[one.start : one.stop] for one in passages.split(message.content)]
    assert [piece.text for piece in kept.passages(1, message)] == expected
    kept.keep(1, message)
    assert kept.passages(1, message) is kept.passages(1, message)


def test_a_short_scope_is_read_ahead_newest_first_and_nothing_twice() -> None:
    kept = MessageTexts()
    kept.keep(7, said(7, "known"))
    assert kept.choose_ahead([1.0] * 10, 4) == [9, 8, 6, 5]
    assert kept.choose_ahead([1.0] * 10, 0) == [] and kept.choose_ahead([1.0] * 10, -3) == []  # no room this time
    assert kept.choose_ahead([1.0] * 12, 4) == [4, 3, 2, 1]  # what came since is read with the tail
    assert kept.choose_ahead([1.0] * 12, 4) == [0]
    assert kept.choose_ahead([1.0] * 12, 4) == []


def test_long_messages_and_long_scopes_are_not_read_ahead_nor_more_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MessageTexts().choose_ahead([1.0] * (MAX_PRELOADED_MESSAGES + 1), 10) == []
    assert MessageTexts().choose_ahead([1.0, MAX_PRELOADED_WORDS + 1, 1.0, MAX_PRELOADED_WORDS], 10) == [3, 2, 0]
    monkeypatch.setattr(message_texts, "MAX_PRELOADED_BYTES", 6000)
    kept = MessageTexts()
    for seq in range(9):
        kept.keep_ahead(seq, said(seq, "x" * 1000))
    assert [seq for seq in range(9) if kept.get(seq)] == [0, 1]  # the second passes the bound, the third is too many
    assert kept.choose_ahead([1.0] * 9, 10) == []
    kept.keep(8, said(8, "x" * 1000))  # what was asked for is kept all the same
    assert kept.get(8) is not None
