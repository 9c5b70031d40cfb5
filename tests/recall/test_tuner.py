"""Labelled questions, how right a ranking is, and the search for better weights."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect import AsyncMemory, InvalidInput, Memory, ProviderUnavailable, Settings
from recollect.core.models import Principal
from recollect.recall import evaluation
from recollect.recall import tuner as tuning
from recollect.recall.evaluation import Judged, all_at, any_at, ndcg, read_labels
from recollect.recall.recaller import Recaller
from recollect.recall.scoring import largest_indices
from recollect.testing import FakeEmbedder
from support.growth import assert_linear

WORDS = ["river", "budget", "dinner", "hotel", "museum", "peanut", "garden", "deploy", "parse_row", "loadUser"]
WORDS += [f"word{n}" for n in range(60)]


def sayings(count: int, seed: int = 1) -> list[dict[str, str]]:
    chance = random.Random(seed)
    roles = ["user", "assistant"]
    return [
        {"id": f"m{n}", "role": chance.choice(roles), "content": " ".join(chance.choices(WORDS, k=12))}
        for n in range(count)
    ]


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:", worker=False, embedder=FakeEmbedder()) as opened:
        yield opened


def labels_for(messages: list[dict[str, str]], count: int, words: int = 4) -> list[dict[str, Any]]:
    chance = random.Random(2)
    chosen = chance.sample(messages, count)
    return [{"query": " ".join(one["content"].split()[:words]), "relevant": [one["id"]]} for one in chosen]


# Labels


def test_labels_are_read_from_lines_from_a_list_and_from_mappings(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"query": "a", "relevant": ["1", "2", "1"], "note": "ignored"},
        {"query": "ب", "relevant": ["3"], "conversation": "trip"},
    ]
    lines, whole = tmp_path / "l.ndjson", tmp_path / "l.json"
    lines.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", "utf-8")
    whole.write_text("\ufeff " + json.dumps(rows, indent=1), "utf-8")
    found = read_labels(rows)
    assert found == read_labels(lines) == read_labels(str(whole))
    assert [(one.query, one.relevant, one.conversation) for one in found] == [
        ("a", ("1", "2"), None), ("ب", ("3",), "trip"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "no_labels"),
        (b"[]", "no_labels"),
        (b"{", "invalid_labels"),
        (b"[1]", "invalid_labels"),
        (b'"text"', "invalid_labels"),
        (b"null", "invalid_labels"),
        (b'{"query": "a"}', "invalid_labels"),
        (b'{"query": "a", "relevant": "m1"}', "invalid_labels"),
        (b'{"query": "a", "relevant": []}', "invalid_labels"),
        (b'{"query": "a", "relevant": [1]}', "invalid_labels"),
        (b'{"query": "  ", "relevant": ["m1"]}', "invalid_labels"),
        (b'{"query": null, "relevant": ["m1"]}', "invalid_labels"),
        (b'{"query": "a", "relevant": ["m1"], "conversation": ""}', "invalid_conversation"),
        (b'{"query": "a", "relevant": ["m1"], "conversation": 5}', "invalid_conversation"),
        (b"\xff\xfe\x00", "invalid_labels"),
        (b"[" * 100_000, "invalid_labels"),
        (b'{"query": "a", "relevant": ["m1"]}\nnonsense', "invalid_labels"),
    ],
)
def test_a_malformed_file_of_labels_is_refused_with_a_reason(tmp_path: Path, text: bytes, code: str) -> None:
    file = tmp_path / "labels"
    file.write_bytes(text)
    with pytest.raises(InvalidInput) as refused:
        read_labels(file)
    assert refused.value.code == code


@pytest.mark.parametrize("labelled", [{"query": "a", "relevant": ["m1"]}, 5, None])
def test_what_is_no_list_of_labels_is_refused(labelled: Any) -> None:
    with pytest.raises(InvalidInput):
        read_labels(labelled)


def test_a_file_that_is_not_there_and_one_that_is_too_large_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(InvalidInput, match="There is no file"):
            read_labels(path)
    monkeypatch.setattr(evaluation, "MAX_LABEL_FILE_BYTES", 10)
    (tmp_path / "large").write_text('{"query": "a", "relevant": ["m1"]}')
    with pytest.raises(InvalidInput, match="larger"):
        read_labels(tmp_path / "large")


# How right a ranking is


def test_the_measures_of_a_ranking() -> None:
    marks = [False, True, False, False, False, True]
    assert any_at(marks) == 1
    assert any_at(marks, 1) == 0
    assert (all_at(marks, 2), all_at(marks, 3)) == (1, 0)
    assert all_at([True] * 10, 12) == 1  # as many as have room
    assert ndcg([True], 1) == 1
    assert ndcg([True, True], 2) == 1
    assert ndcg([False, True], 1) == pytest.approx(0.63093, abs=1e-5)
    assert ndcg([False] * 5 + [True], 1) == 0
    assert ndcg([], 3) == 0


@given(st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.5, 1.0]), max_size=40), st.integers(0, 12), st.integers(1, 20))
def test_the_best_are_the_first_of_a_stable_sort(values: list[float], count: int, times: int) -> None:
    scores = np.array(values * times, np.float32)
    assert largest_indices(scores, count).tolist() == np.argsort(-scores, kind="stable")[:count].tolist()


# The grid


def test_the_grid_holds_all_weights_that_add_up_to_one_and_first_those_in_force() -> None:
    points = tuning.make_grid(0.1, (0.6, 0.4, 0.1))
    assert (len(points), points[0]) == (67, (0.6, 0.4, 0.1))
    assert all(sum(point) == pytest.approx(1) for point in points[1:])
    assert len(tuning.make_grid(0.1, (0.6, 0.3, 0.1))) == 66
    assert len(tuning.make_grid(1, (0.6, 0.4, 0.1))) == 4


@pytest.mark.parametrize("step", [0, -0.1, 0.3, 0.001, 2, float("nan"), float("inf"), "fine"])
def test_a_step_that_does_not_divide_one_is_refused(step: Any) -> None:
    with pytest.raises(InvalidInput, match="step"):
        tuning.make_grid(step, (0.6, 0.4, 0.1))


@pytest.mark.parametrize("conversation", [None, "a", "small"])
@pytest.mark.parametrize("point", [(0.6, 0.3, 0.1), (0.0, 1.0, 0.0), (0.35, 0.05, 0.6), (0.0, 0.0, 0.0)])
def test_scores_from_the_arms_are_those_that_recall_gives_with_such_weights(
    conversation: str | None, point: tuning.Point
) -> None:
    """Holds the shortcut of the grid to the real thing, with the part that other conversations bring in too."""
    settings = Settings(**dict(zip(tuning.WEIGHT_SETTINGS, point, strict=True)))

    async def compare() -> None:
        async with AsyncMemory(":memory:", worker=False, embedder=FakeEmbedder()) as memory:
            await memory.add_many("a", sayings(120))
            await memory.add_many("small", sayings(2, seed=5))
            await memory.drain()
            real = Recaller(memory._store, memory._clock, memory._embedders, lambda _: settings)
            tuner = tuning.Tuner(real, Settings())
            for query in ("river dinner", "what does parse_row in loadUser do last week", "museum"):
                question = Judged(query, conversation, frozenset())
                arms = await tuner.take_apart(Principal(), question)
                ranked = await real.find(Principal(), question.scope(Principal()), query)
                plain = ranked.ordered.scores_of(ranked.ranked)
                np.testing.assert_allclose(arms.total(point)[ranked.ranked], plain, atol=2e-6)

    asyncio.run(compare())


# Choosing from the grid

POINTS = [(0.6, 0.4, 0.1), (0.0, 0.0, 1.0), (0.5, 0.5, 0.0), (1.0, 0.0, 0.0)]


def test_equally_good_weights_leave_those_in_force() -> None:
    tuned = tuning.summarise_rates(POINTS, np.full((4, 6), 0.5))
    assert tuned.settings == tuned.current
    assert not tuned.improves
    assert tuned.top[0] == {"alpha": 0.6, "beta": 0.4, "gamma": 0.1, "ndcg": 0.5, "current": True}


def test_of_equally_good_ones_the_nearest_to_those_in_force_wins() -> None:
    rates = np.array([[0.1] * 4, [0.9] * 4, [0.9] * 4, [0.9] * 4])
    tuned = tuning.summarise_rates(POINTS, rates)
    assert list(tuned.settings.values()) == [0.5, 0.5, 0.0]
    assert [row["ndcg"] for row in tuned.top] == [0.9, 0.9, 0.9, 0.1]
    assert (tuned.before, tuned.after, tuned.held_out, tuned.better, tuned.worse) == (0.1, 0.9, 0.9, 4, 0)
    assert tuned.holds


def test_a_gain_by_chance_does_not_hold_when_held_out() -> None:
    """Each of the others is right about one question only, so what is best for the rest is wrong about it."""
    rates = np.array([[0.2, 0.2, 0.2], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    tuned = tuning.summarise_rates(POINTS, rates)
    assert tuned.improves
    assert tuned.held_out is not None
    assert tuned.held_out < tuned.before
    assert not tuned.holds


def test_one_question_alone_proves_nothing() -> None:
    tuned = tuning.summarise_rates(POINTS, np.array([[0.2], [1.0], [0.1], [0.1]]))
    assert tuned.held_out is None
    assert tuned.improves
    assert not tuned.holds


# Tuning a memory


def test_better_weights_are_found_and_put_in_force_when_asked(memory: Memory) -> None:
    said = sayings(150)
    memory.add_many("a", said)
    memory.change_settings(rag_rerank_alpha=0, rag_rerank_beta=0, rag_rerank_gamma=1)
    labelled = labels_for(said, 12)
    tuned = memory.tune(labelled)
    assert tuned.before < tuned.after
    assert tuned.holds
    assert not tuned.applied
    assert memory.settings().rag_rerank_gamma == 1
    applied = memory.tune(labelled, apply=True)
    assert applied.applied
    assert applied.settings == tuned.settings
    assert {name: getattr(memory.settings(), name) for name in tuning.WEIGHT_SETTINGS} == tuned.settings
    again = memory.tune(labelled, apply=True)
    assert (again.before, again.applied) == (tuned.after, False)
    assert json.loads(json.dumps(again.to_dict()))["queries"] == 12


def test_what_is_no_better_is_not_stored(memory: Memory) -> None:
    memory.add("a", "user", "one message alone", id="m")
    tuned = memory.tune([{"query": "message", "relevant": ["m"]}], apply=True)
    assert (tuned.before, tuned.after, tuned.applied) == (1, 1, False)
    assert memory.setting_origins()["rag_rerank_alpha"] == "default"


def test_labels_that_name_nothing_are_counted_and_left_out(memory: Memory) -> None:
    memory.add("a", "user", "the river", id="m")
    good = {"query": "river", "relevant": ["m", "gone"]}
    tuned = memory.tune([good, {"query": "x", "relevant": ["never"]}])
    assert (tuned.queries, tuned.unknown, tuned.before) == (1, 2, 1)
    with pytest.raises(InvalidInput) as refused:
        memory.tune([{"query": "x", "relevant": ["never"]}])
    assert refused.value.code == "labels_unknown"


def test_an_id_is_looked_for_in_the_conversation_that_the_question_names(memory: Memory) -> None:
    memory.add("a", "user", "the river is wide", id="m")
    memory.add("b", "user", "bread and coffee", id="m")
    asked = {"query": "bread and coffee", "relevant": ["m"]}
    assert memory.tune([asked | {"conversation": "b"}]).before == 1
    assert memory.tune([asked | {"conversation": "a"}]).before < 1
    with pytest.raises(InvalidInput):
        memory.tune([asked | {"conversation": "nowhere"}])


def test_nobody_tunes_by_the_messages_of_another(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", person="sara", worker=False, embedder=FakeEmbedder()) as hers:
        hers.add("a", "user", "the river", id="m")
    with Memory(tmp_path / "m.db", person="omar", worker=False, embedder=FakeEmbedder()) as his:
        his.add("a", "user", "something else", id="n")
        with pytest.raises(InvalidInput, match="None of the labelled messages"):
            his.tune([{"query": "river", "relevant": ["m"]}])


def test_without_the_embedder_nothing_is_tuned() -> None:
    embedder = FakeEmbedder()
    with Memory(":memory:", worker=False, embedder=embedder) as memory:
        memory.add("a", "user", "the river", id="m")
        embedder.failure = ProviderUnavailable("provider_unreachable", "away")
        with pytest.raises(ProviderUnavailable):
            memory.tune([{"query": "river", "relevant": ["m"]}])
        embedder.failure = None
        memory.drain()
        embedder.failure = ProviderUnavailable("provider_unreachable", "away")
        with pytest.raises(ProviderUnavailable):
            memory.tune([{"query": "river", "relevant": ["m"]}])


def test_tuning_is_linear_in_the_number_of_questions(memory: Memory) -> None:
    said = sayings(200)
    memory.add_many("a", said)
    memory.drain()
    assert_linear(memory.tune, lambda n: labels_for(said, n), 5, clock=time.process_time)


def test_tuning_is_linear_in_the_number_of_messages() -> None:
    with ExitStack() as stack:

        def fill(count: int) -> tuple[Memory, list[dict[str, Any]]]:
            memory = stack.enter_context(Memory(":memory:", worker=False, embedder=FakeEmbedder()))
            said = sayings(count)
            memory.add_many("a", said)
            memory.drain()
            return memory, labels_for(said, min(5, count))

        assert_linear(lambda filled: filled[0].tune(filled[1]), fill, 100, clock=time.process_time)


# The bench


def test_a_bench_shows_ours_beside_plainer_ways(memory: Memory) -> None:
    said = sayings(80)
    memory.add_many("a", said)
    measured = memory.bench(labels_for(said, 10))
    assert (measured.kind, measured.queries, measured.scope) == ("labelled", 10, 80)
    assert list(measured.quality) == list(evaluation.METHODS)
    assert measured.quality["words alone"]["any@10"] == 1
    assert all(0 <= rate <= 1 for rates in measured.quality.values() for rate in rates.values())
    assert measured.ms["total"]["p50"] <= measured.ms["total"]["p95"]
    assert json.loads(json.dumps(measured.to_dict()))["ms"].keys() >= {"load", "embed", "score", "total"}
    assert memory.metrics()["queries"] == 0  # measuring does not count as asking


def test_a_bench_without_labels_asks_for_messages_by_their_rarer_words_and_always_the_same(memory: Memory) -> None:
    memory.add_many("a", sayings(60))
    memory.add_many("short", [{"role": "user", "content": "too short to ask for"}] * 5)
    one, other = memory.bench(), memory.bench()
    assert (one.kind, one.quality) == ("known_items", other.quality)
    assert 30 < one.queries <= 60
    assert one.quality["words alone"]["any@10"] > 0.9
    assert memory.bench(sample=7).queries == 7


def test_a_bench_needs_something_to_ask_for(memory: Memory) -> None:
    for content in ("", "hello", "the and of to in is it"):
        memory.add("a", "user", content)
        with pytest.raises(InvalidInput, match="8 words"):
            memory.bench()
    with pytest.raises(InvalidInput, match="sample"):
        memory.bench(sample=0)


def test_a_bench_goes_on_without_the_embedder_and_says_so() -> None:
    embedder = FakeEmbedder()
    with Memory(":memory:", worker=False, embedder=embedder) as memory:
        memory.add_many("a", sayings(30))
        memory.drain()
        embedder.failure = ProviderUnavailable("provider_unreachable", "away")
        measured = memory.bench(sample=5)
    assert measured.degraded == ("embedder",)
    assert measured.quality["vectors alone"]["any@10"] == 0
    assert measured.quality["recollect"]["any@10"] > 0
