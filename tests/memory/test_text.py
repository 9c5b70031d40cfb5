"""Any text goes in and comes out the same on both databases, and is found by its words."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recollect import Memory
from recollect.core.language import analyser
from recollect.core.text import replace_unstorable
from recollect.testing import FakeClock, FakeEmbedder

Open = Callable[..., Memory]
ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)  # lone surrogates and NUL too
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANYTHING,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANYTHING, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    """One memory on each database, for properties that compare them."""
    dsn = request.getfixturevalue("shared_pg")
    path = tmp_path_factory.mktemp("text") / "memory.db"
    options: dict[str, Any] = {"worker": False, "clock": FakeClock(), "embedder": FakeEmbedder()}
    with Memory(path, **options) as here, Memory(dsn, **options) as there:
        yield here, there


@given(
    content=ANYTHING,
    metadata=st.dictionaries(ANYTHING, JSON, max_size=3),
    name=ANYTHING.filter(lambda n: len(n) <= 200),
)
@example(content="a\x00b\ud800\u200f\u202e\ufeff", metadata={"\x00": ["\udfff"]}, name="")
@example(content="\r\n\x85\u2028 \x1f'\"\\%_{}", metadata={"n": 1e308}, name="%s :x $1")
def test_any_string_round_trips_or_is_replaced_with_a_flag_alike_on_both(
    both: tuple[Memory, Memory], content: str, metadata: dict[str, Any], name: str
) -> None:
    expected, replaced = replace_unstorable(content)
    results = []
    for memory in both:
        stored = memory.add("any", "user", content, metadata=metadata, name=name, at="2026-01-01T00:00:00Z", id=None)
        (read,) = memory.history("any", limit=1)
        assert read == stored
        assert read.content == expected
        assert read.replaced >= replaced
        results.append((read.content, read.metadata, read.name, read.replaced))
    assert results[0] == results[1]


@pytest.mark.slow
@given(content=ANYTHING)
@example(content="node.js C++ what's up? AND OR NOT NEAR( \"* col:x ^ -y")
@example(content="وزارة الوزارةُ إدارة ادارة")
@example(content="東京タワー 한국어 ไทย हिन्दी")
@example(content="snake_case camelCase v1.2.3 PROJ-123 main.py")
def test_every_message_is_found_by_each_of_its_words_alike_on_both(both: tuple[Memory, Memory], content: str) -> None:
    conversation, rankings = uuid.uuid4().hex, []
    for memory in both:
        message = memory.add(conversation, "user", content, id="m")
        memory.add(conversation, "user", "other things", id="other")
        for word in [each for each in message.content.split() if analyser.words(each)][:5]:
            assert ("m", True) in _found(memory, word, conversation)
        hits = memory.recall(content, conversation=conversation)
        rankings.append([(hit.message_id, hit.score, hit.why) for hit in hits if hit.conversation == conversation])
    assert rankings[0] == rankings[1]


HOSTILE = [
    "'; DROP TABLE messages; --", '" OR 1=1', "entries MATCH 'x'", "a NEAR/2 b", "body:x", "scope:p", "@c1", "*",
    "^start", "x* y*", "(((", '"""', "{a b}", "-not", "+plus", "a AND", "\\", "%", "_", "🙂", "\u202e", "", " ", "NULL",
]  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE)
def test_no_query_is_read_as_syntax(memory: Memory, query: str) -> None:
    memory.add("trip", "user", f"before {query} after", id="one")
    memory.add("trip", "user", "nothing of the kind", id="two")
    expected = {"one"} if analyser.words(query) else set()
    assert {message for message, by_words in _found(memory, query) if by_words} == expected
    assert len(memory.history("trip")) == 2


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples * 5)  # 10,000 in the long lane
@given(query=ANYTHING)
def test_any_text_is_a_valid_query(both: tuple[Memory, Memory], query: str) -> None:
    for memory in both:
        memory.add("asked", "user", "something to find", id="m")
        assert len(memory.recall(query, conversation="asked", limit=5)) <= 5


def test_recall_finds_only_the_persons_own_words(open_memory: Open) -> None:
    sara, omar = open_memory(person="sara"), open_memory(person="omar")
    sara.add("trip", "user", "peanuts", id="m")
    assert _found(omar, "peanuts") == set()
    assert _found(omar, "peanuts", "trip") == set()
    assert _found(omar, "sara") == set()
    assert _found(sara, "Peanuts!") == {("m", True)}
    omar.add("trip", "user", "peanuts of omar", id="his")
    assert _found(omar, "peanuts", "trip") == {("his", True)}


def test_recall_searches_other_conversations_only_if_the_one_asked_about_has_few_good_hits(memory: Memory) -> None:
    for n in range(4):
        memory.add("full", "user", f"peanuts here {n}")
    memory.add("scant", "user", "peanuts there")
    assert {hit.conversation for hit in memory.recall("peanuts", conversation="full")} == {"full"}
    assert {hit.conversation for hit in memory.recall("peanuts", conversation="scant")} == {"full", "scant"}
    assert len(memory.recall("peanuts")) == 5
    assert len(memory.recall("peanuts", limit=1)) == 1


def test_arabic_variants_are_one_word() -> None:
    assert analyser.words("إدارة") == analyser.words("ادارة") == analyser.words("إِدَارَة")
    assert analyser.words("٣ أبريل") == ["3", "ابريل"]


def _found(memory: Memory, text: str, conversation: str | None = None) -> set[tuple[str, bool]]:
    """Return the messages that recall finds, each with whether it was found by its words."""
    hits = memory.recall(text, conversation=conversation, limit=1000)
    return {(hit.message_id, not {"bm25", "code"}.isdisjoint(hit.why)) for hit in hits}
