"""Any text goes in and comes out the same on both databases, and is found by its words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recollect import Memory
from recollect.core import analysis
from recollect.core.text import storable

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
    with Memory(path, worker=False) as here, Memory(dsn, worker=False) as there:
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
    expected, replaced = storable(content)
    results = []
    for memory in both:
        stored = memory.add("any", "user", content, metadata=metadata, name=name, at="2026-01-01T00:00:00Z", id=None)
        (read,) = memory.history("any", limit=1)
        assert read == stored
        assert read.content == expected
        assert read.replaced >= replaced
        results.append((read.content, read.metadata, read.name, read.replaced))
    assert results[0] == results[1]


@given(content=ANYTHING)
@example(content="node.js C++ what's up? AND OR NOT NEAR( \"* col:x ^ -y")
@example(content="وزارة الوزارةُ إدارة ادارة")
@example(content="東京タワー 한국어 ไทย हिन्दी")
def test_every_message_is_found_by_each_of_its_words_alike_on_both(both: tuple[Memory, Memory], content: str) -> None:
    for memory in both:
        message = memory.add("words", "user", content)
        for word in analysis.words(message.content)[:5]:
            assert message in _search(memory, word, conversation="words", limit=10_000)


HOSTILE = [
    "'; DROP TABLE messages; --", '" OR 1=1', "message_words MATCH 'x'", "a NEAR/2 b", "body:x", "scope:p", "@c1", "*",
    "^start", "x* y*", "(((", '"""', "{a b}", "-not", "+plus", "a AND", "\\", "%", "_", "🙂", "\u202e", "", " ", "NULL",
]  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE)
def test_no_query_is_read_as_syntax(memory: Memory, query: str) -> None:
    memory.add("trip", "user", f"before {query} after")
    memory.add("trip", "user", "nothing of the kind")
    found = _search(memory, query)
    assert len(found) == (1 if analysis.words(query) else 0)


@settings(max_examples=settings.default.max_examples * 5)  # 10,000 in the long lane
@given(query=ANYTHING)
def test_any_text_is_a_valid_query(both: tuple[Memory, Memory], query: str) -> None:
    for memory in both:
        _search(memory, query, limit=5)


def test_search_finds_only_the_persons_own_words(open_memory: Open) -> None:
    sara, omar = open_memory(person="sara"), open_memory(person="omar")
    sara.add("trip", "user", "peanuts")
    assert _search(omar, "peanuts") == []
    assert _search(omar, "peanuts", conversation="trip") == []
    assert _search(omar, analysis.person_scope("sara")) == []
    assert len(_search(sara, "Peanuts!")) == 1


def test_search_can_be_kept_to_one_conversation(memory: Memory) -> None:
    memory.add("one", "user", "peanuts here")
    memory.add("two", "user", "peanuts there")
    assert [m.conversation for m in _search(memory, "peanuts", conversation="two")] == ["two"]
    assert [m.conversation for m in _search(memory, "peanuts")] == ["two", "one"]
    assert [m.conversation for m in _search(memory, "peanuts", limit=1)] == ["two"]


def test_arabic_variants_are_one_word() -> None:
    assert analysis.words("إدارة") == analysis.words("ادارة") == analysis.words("إِدَارَة")
    assert analysis.words("٣ أبريل") == ["3", "ابريل"]


def _search(memory: Memory, text: str, **options: Any) -> list[Any]:
    engine = memory._engine
    return memory._wait(engine._store.search(engine._principal, text, **options))
