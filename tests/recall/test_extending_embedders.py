"""An embedder that extends an earlier one: what both read alike keeps its vectors, and only the rest is embedded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from recollect import Memory, Settings
from recollect.core.language import passages
from recollect.recall.vector_job import EQUAL_PASSAGES
from recollect.testing import FakeEmbedder
from support.tables import ask, stored_vectors

Open = Callable[..., Memory]

ENGLISH = ["I am allergic to peanuts.", "My sister lives in Lisbon.", "The meeting is on Tuesday."]
ARABIC = ["عندي حساسية من الفول السوداني.", "The report is called تقرير الميزانية."]
LONG = "\n\n".join(f"Paragraph {n} speaks of {word}. " + f"{word} again. " * 60 for n, word in enumerate("abcdefgh"))


class Earlier(FakeEmbedder):
    """The embedder before it learned Arabic."""

    @property
    def embedded(self) -> list[str]:
        return [text for call in self.calls for text in call]


class Extending(Earlier):
    """The same vectors but for texts with Arabic letters, which it turns around."""

    def __init__(self, extends: str = "fake-embedder-384") -> None:
        super().__init__()
        self.name, self.extends = "fake-embedder-384+ar", extends

    def keeps_vector(self, text: str) -> bool:
        return not any("\u0600" <= letter <= "\u06ff" for letter in text)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        rows = await super().embed(texts)
        return [
            row if self.keeps_vector(text) else [-value for value in row] for text, row in zip(texts, rows, strict=True)
        ]


def blobs(location: str) -> dict[tuple[str, int], bytes]:
    return {place: made[0][1] for place, made in stored_vectors(location).items()}


def fill(memory: Memory, texts: Sequence[str], name: str = "talk") -> None:
    memory.add_many(name, [{"role": "user", "content": text} for text in texts])
    assert memory.drain().complete


def test_only_texts_that_are_read_in_another_way_are_embedded_again(location: str, open_memory: Open) -> None:
    fill(open_memory(embedder=Earlier()), [*ENGLISH, *ARABIC, LONG])
    before = blobs(location)
    extending = Extending()

    assert open_memory(embedder=extending).drain().complete

    after = blobs(location)
    assert sorted(extending.embedded) == sorted(ARABIC)
    assert {place for place in after if after[place] != before[place]} == {("talk", 4), ("talk", 5)}
    assert {name for made in stored_vectors(location).values() for name, _ in made} == {"fake-embedder-384+ar"}


def test_the_name_of_the_speaker_is_not_embedded(location: str, open_memory: Open) -> None:
    memory = open_memory(embedder=Earlier())
    memory.add("talk", "user", "hello there", name="سالم")
    memory.add("talk", "user", "مرحبا", name="Salem")
    memory.drain()
    extending = Extending()

    open_memory(embedder=extending).drain()

    assert extending.embedded == ["مرحبا"]


@pytest.mark.parametrize("embedder", [Earlier, Extending])
def test_only_named_messages_are_embedded_again_where_names_were_embedded(
    location: str, open_memory: Open, embedder: type[Earlier]
) -> None:
    memory = open_memory(embedder=Earlier())
    memory.add("talk", "user", "hello there", name="Sara")
    fill(memory, ENGLISH)
    ask(location, "UPDATE embedders SET passages = 2")  # as they were before names were left out
    again = embedder()

    open_memory(embedder=again).drain()

    assert again.embedded == ["hello there"]
    assert len(blobs(location)) == 1 + len(ENGLISH)


def test_new_messages_are_embedded_as_ever(location: str, open_memory: Open) -> None:
    fill(open_memory(embedder=Earlier()), ENGLISH)
    extending = Extending()
    memory = open_memory(embedder=extending)
    fill(memory, ["Something new."])
    fill(memory, ["In another conversation."], "other")

    assert sorted(extending.embedded) == ["In another conversation.", "Something new."]
    assert len(blobs(location)) == 5


def test_vectors_of_an_embedder_that_is_not_the_extended_one_are_made_again(location: str, open_memory: Open) -> None:
    fill(open_memory(embedder=Earlier()), ENGLISH)
    extending = Extending(extends="somebody-else")

    open_memory(embedder=extending).drain()

    assert sorted(extending.embedded) == sorted(ENGLISH)


def test_damaged_vectors_are_not_taken_over(location: str, open_memory: Open) -> None:
    fill(open_memory(embedder=Earlier()), ENGLISH)
    ask(location, "UPDATE vectors SET vectors = substr(vectors, 1, 100) WHERE seq = 2")
    extending = Extending()

    open_memory(embedder=extending).drain()

    assert extending.embedded == [ENGLISH[1]]


def test_a_conversation_is_found_by_its_earlier_vectors_until_the_new_ones_are_there(open_memory: Open) -> None:
    fill(open_memory(embedder=Earlier()), ENGLISH)
    memory = open_memory(embedder=Extending())

    recalled = memory.recall("allergic to peanuts")

    assert recalled.degraded == ()
    assert recalled[0].text == ENGLISH[0]
    assert recalled[0].why["dense"] > 0


def test_messages_of_the_earlier_embedder_that_never_had_vectors_get_them(location: str, open_memory: Open) -> None:
    earlier = open_memory(embedder=Earlier())
    fill(earlier, ENGLISH[:1])
    earlier.add("talk", "user", ENGLISH[1])
    extending = Extending()

    open_memory(embedder=extending).drain()

    assert extending.embedded == [ENGLISH[1]]
    assert len(blobs(location)) == 2


def test_the_same_embedder_takes_vectors_over_although_older_messages_get_none_of_a_new_one(
    location: str, open_memory: Open
) -> None:
    """Else the old and the new messages of a conversation would have vectors of two kinds, and one of them no use."""
    fill(open_memory(embedder=Earlier()), ENGLISH)
    settings = Settings(backfill_chunks=False)
    ask(location, "UPDATE embedders SET passages = 2")
    memory = open_memory(embedder=Earlier(), settings=settings)
    fill(memory, ["The harbour is closed."])
    for text in (ENGLISH[0], "The harbour is closed."):
        assert memory.recall(text)[0].why["dense"] > 0


def test_a_new_version_of_passages_says_whether_borders_moved() -> None:
    assert passages.VERSION in EQUAL_PASSAGES, "add it if no border moved, else empty the set, and change this test"
