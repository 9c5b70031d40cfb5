"""The learned order: its parts add up, the documentation names them, and it depends on what was said alone."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect import Memory, Settings
from recollect.core.models import Recalled
from recollect.core.scope import ConversationScope, PersonScope
from recollect.recall import order, scoring
from recollect.recall.features import CandidateFacts
from recollect.recall.order_weights import WEIGHTS
from recollect.recall.ranked_messages import RankedMessages
from recollect.recall.relevance import Floor
from recollect.recall.scope_index import ScopeIndex
from recollect.recall.scoring import ArmWeights, QueryFeatures
from recollect.testing import FakeClock, FakeEmbedder
from support.talks import add_two_topics, open_for_topics

Open = Callable[..., Memory]
Said = dict[str, Any]

WHY = Path(__file__).parents[2] / "docs" / "reference" / "why.md"
START = datetime(2026, 1, 1, 9, tzinfo=UTC)
WORDS = (
    "peanuts", "Berlin", "I", "my", "sister", "ferry", "moved", "42", "March", "always", "never", "parse_date",
    "PROJ-7", "you", "recommended", "?", "when", "how", "many", "last", "week", "Sara", "قهوة", "أختي", "مسقط", "أنا",
    "متى", "٣", "דירה", "猫", "🙂", "\u200f", "```", "…",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system", "tool"]),
        "content": TEXTS,
        "name": st.sampled_from([None, "Sara", "Omar", "سارة"]),
        "conversation": st.sampled_from(["trip", "work", "home"]),
        "minutes": st.sampled_from([0, 1, 30, 90, 60 * 24 * 8]),
    }
)


def open_alone(**options: Any) -> Memory:
    return Memory(":memory:", worker=False, embedder=FakeEmbedder(64), clock=FakeClock(START), **options)


def tell(memory: Memory, said: list[Said]) -> None:
    """Add messages in their order. The number of a message is its id."""
    for number in range(len(said)):
        tell_one(memory, said, number)


def tell_one(memory: Memory, said: list[Said], number: int) -> None:
    message = said[number]
    fields = {key: message[key] for key in ("role", "content", "name")}
    if message["role"] == "tool":
        fields["tool_call_id"] = f"call-{number}"
    at = START + timedelta(minutes=sum(one["minutes"] for one in said[: number + 1]))
    memory.add(message["conversation"], **fields, id=f"m{number}", at=at)


def check_hits(found: Recalled) -> None:
    for hit in found:
        assert sum(hit.why.values()) == pytest.approx(hit.score, abs=1e-6)
        assert all(np.isfinite(value) and value != 0 for value in hit.why.values())
        assert 0 <= hit.relevance <= 1
        assert hit.why.keys() <= named_parts()
    scores = [hit.score for hit in found if hit.message_id is not None]
    assert scores == sorted(scores, reverse=True)


def named_parts() -> set[str]:
    """Return the parts of a score that the documentation describes."""
    table = WHY.read_text("utf-8").split("## Score parts")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def find(memory: Memory, text: str, conversation: str | None = None, limit: int = 10, **options: Any) -> RankedMessages:
    """Return the messages that recall ranks, before any text is read. Nothing is left out."""
    engine = memory._engine
    scope = PersonScope("local") if conversation is None else ConversationScope(conversation)
    ranked: RankedMessages = memory._wait(
        engine._recaller.find(engine.principal, scope, text, limit=limit, floor=Floor(0.0), **options)
    )
    return ranked


def random_talk(count: int, seed: int = 3) -> list[Said]:
    chance = random.Random(seed)
    return [
        {
            "role": ("user", "assistant")[number % 2],
            "content": f"note {number} " + " ".join(chance.choices(WORDS, k=chance.randrange(1, 30))),
            "name": None,
            "conversation": ("trip", "work")[number // 7 % 2],
            "minutes": chance.choice((1, 5, 90)),
        }
        for number in range(count)
    ]


@settings(max_examples=40)
@given(
    said=st.lists(MESSAGES, max_size=12),
    question=TEXTS,
    drained=st.booleans(),
    conversation=st.sampled_from([None, "trip", "empty"]),
)
def test_parts_add_up_and_are_documented_whatever_was_said_and_asked(
    said: list[Said], question: str, drained: bool, conversation: str | None
) -> None:
    with open_alone() as memory:
        tell(memory, said)
        if drained:
            memory.drain()
        check_hits(memory.recall(question, conversation=conversation, limit=30, min_relevance=0))
        for everywhere in (False, True):
            context = memory.context("trip", question, everywhere=everywhere)
            for part in context.explain["parts"]:
                for item in part["items"]:
                    if "why" in item:
                        assert sum(item["why"].values()) == pytest.approx(item["score"], abs=2e-3)  # both are rounded
                        assert item["why"].keys() <= named_parts()


def test_parts_add_up_with_an_active_topic_and_other_conversations(open_memory: Open) -> None:
    memory = open_for_topics(open_memory)
    add_two_topics(memory)
    memory.add("other", "user", "#2 this matter elsewhere")
    memory.drain()
    found = memory.recall("#2 this matter", conversation="trip", limit=20)
    check_hits(found)
    assert any("topic" in hit.why for hit in found)
    found = memory.recall("matter", conversation="other", limit=20)
    check_hits(found)
    assert {hit.conversation for hit in found if "here" in hit.why} == {"other"}


def test_every_part_that_can_appear_is_documented() -> None:
    arms = scoring.fuse(ScopeIndex(), QueryFeatures(), ArmWeights()).parts.keys()
    assert named_parts() == {*order.PARTS, *arms, "here", "topic"}


def test_every_weight_belongs_to_one_part_and_to_a_feature() -> None:
    features = [name for names in order.PARTS.values() for name in names]
    assert len(features) == len(set(features))
    assert WEIGHTS.keys() <= {*features, "sum"}
    with open_alone() as memory:
        tell(memory, random_talk(6))
        ranked = find(memory, "Berlin")
        table = CandidateFacts(ranked.scope, QueryFeatures(), ranked.scores, ranked.ordered.candidates).compute()
        assert {*features, "sum"} <= table.keys()
        assert {len(values) for values in table.values()} == {len(ranked.ordered.candidates)}


def test_candidates_hold_the_best_of_each_arm() -> None:
    with open_alone() as memory:
        said = random_talk(600)
        memory.add_many("trip", [{"role": one["role"], "content": one["content"]} for one in said])
        memory.drain()
        ranked = find(memory, "when did my sister move to Berlin? أختي")
        candidates = set(ranked.ordered.candidates.tolist())
        arms = {
            "sum": (ranked.scores.total, order.MIN_CANDIDATES),
            "nearest": (ranked.scores.similarities.nearest, order.ARM_CANDIDATES),
            "meaning": (ranked.scores.dense, order.ARM_CANDIDATES),
            "words": (ranked.scores.lexical, order.ARM_CANDIDATES),
        }
        assert len(candidates) < 600
        for name, (values, count) in arms.items():
            best = set(np.argsort(-values, kind="stable")[:count].tolist())
            assert best <= candidates, name


def test_what_only_one_arm_finds_is_a_candidate() -> None:
    """A message whose words answer the question is looked at, however many others are nearer in meaning."""

    class Deaf(FakeEmbedder):
        def _vector(self, text: str) -> list[float]:
            return super()._vector("far" if "PROJ-7" in text and "ticket" not in text else "near")

    with Memory(":memory:", worker=False, embedder=Deaf(64), clock=FakeClock(START)) as memory:
        memory.add("trip", "user", "PROJ-7 is done.", id="wanted")
        roles = ("user", "assistant")
        told = [{"role": roles[n % 2], "content": f"I have a ticket, number {n}."} for n in range(400)]
        memory.add_many("trip", told)
        memory.drain()
        found = memory.recall("my ticket PROJ-7", conversation="trip", limit=150, min_relevance=0)
        assert "wanted" in [hit.message_id for hit in found]


@settings(max_examples=15)
@given(said=st.lists(MESSAGES, min_size=2, max_size=14), question=TEXTS, pieces=st.integers(2, 5))
def test_results_do_not_depend_on_how_many_batches_messages_were_read_in(
    said: list[Said], question: str, pieces: int
) -> None:
    said = [message | {"content": f"{message['content']} {number}"} for number, message in enumerate(said)]  # no ties
    with open_alone() as whole, open_alone() as piecewise:
        tell(whole, said)
        whole.drain()
        for number in range(len(said)):
            tell_one(piecewise, said, number)
            if number % pieces == 0:
                piecewise.drain()
                piecewise.recall(question)
                piecewise.recall(question, conversation="trip")
        piecewise.drain()
        for conversation in (None, "trip"):
            in_one, in_several = (
                {hit.message_id: hit for hit in memory.recall(question, conversation=conversation, limit=30)}
                for memory in (whole, piecewise)
            )
            assert in_one.keys() == in_several.keys()
            for message_id, hit in in_one.items():
                other = in_several[message_id]
                assert (other.score, other.relevance) == pytest.approx((hit.score, hit.relevance), abs=1e-3)
                assert other.why == pytest.approx(hit.why, abs=1e-3)


def test_equal_messages_come_in_the_same_order_however_they_were_read() -> None:
    orders = []
    for reads_between in (False, True):
        with open_alone() as memory:
            for number, name in enumerate(["trip", "work"] * 4):
                memory.add(name, "user", "The ferry leaves at nine.", id=f"m{number}")
                if reads_between:
                    memory.recall("When does the ferry leave?")
            memory.drain()
            orders.append([hit.message_id for hit in memory.recall("When does the ferry leave?", limit=8)])
    assert orders[0] == orders[1]


def test_a_limit_above_the_number_of_candidates_brings_all_that_is_related_once() -> None:
    with open_alone() as memory:
        said = random_talk(300)
        memory.add_many("trip", [{"role": one["role"], "content": one["content"]} for one in said])
        memory.drain()
        for limit in (order.MIN_CANDIDATES + 1, 299, 300, 5000):
            ids = [hit.message_id for hit in memory.recall("note", limit=limit, min_relevance=0)]
            assert len(ids) == len(set(ids)) == min(limit, 300)


def test_a_larger_limit_keeps_what_a_smaller_one_found() -> None:
    """Candidates beyond those of a small limit are looked at too, so that places may change, but not by much."""
    with open_alone() as memory:
        said = random_talk(300)
        memory.add_many("trip", [{"role": one["role"], "content": one["content"]} for one in said])
        memory.drain()
        few, many = (
            [hit.message_id for hit in memory.recall("my sister in Berlin", limit=limit, min_relevance=0)]
            for limit in (10, 300)
        )
        assert set(few) <= set(many[:20])


@pytest.mark.parametrize("changed", [{"rag_rerank_alpha": 0.5}, {"rag_rerank_beta": 0.0}, {"rag_rerank_gamma": 0.3}])
def test_the_plain_sum_orders_once_a_weight_is_changed(changed: dict[str, float]) -> None:
    with open_alone(settings=Settings(**changed)) as memory:
        tell(memory, random_talk(60))
        memory.drain()
        ranked = find(memory, "when did my sister move? parse_date", conversation="trip", limit=30)
        expected = ranked.scores.total[ranked.ordered.candidates]
        assert ranked.ordered.total() == pytest.approx(expected, abs=1e-5)
        scores = ranked.scores.total[ranked.ranked].tolist()
        assert scores == sorted(scores, reverse=True)
        assert not ranked.ordered.parts.keys() & {"statement", "answer", "instruction"}
        found = memory.recall("when did my sister move? parse_date", conversation="trip", min_relevance=0)
        check_hits(found)


def test_the_learned_order_returns_with_the_default_weights() -> None:
    with open_alone() as memory:
        tell(memory, random_talk(40))
        memory.drain()
        before = [(hit.message_id, hit.score) for hit in memory.recall("my sister", min_relevance=0)]
        memory.change_settings(rag_rerank_alpha=0.2)
        changed = [(hit.message_id, hit.score) for hit in memory.recall("my sister", min_relevance=0)]
        memory.change_settings(rag_rerank_alpha=None)
        after = [(hit.message_id, hit.score) for hit in memory.recall("my sister", min_relevance=0)]
        assert before == after != changed
