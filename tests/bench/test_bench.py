"""The figures that benches print, on examples small enough to work out by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from bench.adapter import to_stored
from bench.baselines import Baselines, Lexical, code_match, code_terms, match_expression, reciprocal_ranks, weighted_sum
from bench.cache import CachedEmbedder
from bench.chart import grouped_bars
from bench.data import Conversation, Question, Texts
from bench.lexical import Exact
from bench.measures import Times
from bench.recall import Outcome, compare, evaluate, evidence, losses, packed
from bench.shapes import SHAPES, measure, to_row
from bench.word_stores import IndexedMessage
from rich.console import Console

from bench import figures, versions


def message(id: str, content: str, speaker: str = "user") -> dict[str, str]:
    return {
        "id": id, "role": "user", "speaker": speaker, "content": content, "timestamp": "2024-05-01T10:00:00",
        "session_id": "s",
    }  # fmt: skip


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# Rankings


def test_a_ranking_is_scored_by_place():
    found = figures.score_ranking(["x", "a", "y", "b"], ["a", "b"], k=3)
    assert found["any@3"] == 1
    assert found["all@3"] == 0
    assert found["mrr"] == 0.5
    assert found["ndcg@3"] == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))


def test_a_perfect_and_an_empty_ranking():
    assert set(figures.score_ranking(["a", "b"], ["b", "a"]).values()) == {1.0}
    assert set(figures.score_ranking([], ["a"]).values()) == {0.0}


def test_evidence_named_twice_counts_once():
    assert figures.score_ranking(["a"], ["a", "a"])["all@10"] == 1


# Prompts


def test_layout_and_letters_do_not_count():
    assert figures.normalise("  Hello, *World*!\n(again) ") == "hello world again"


def test_short_evidence_must_stand_whole():
    prompt = figures.normalise("user: I moved to Oslo, in May.")
    assert figures.is_quoted("i moved to oslo", prompt)
    assert not figures.is_quoted("i moved to bergen", prompt)


def test_of_long_evidence_half_will_do():
    words = [f"w{i}" for i in range(100)]
    long = " ".join(words)
    assert figures.is_quoted(long, " ".join(words[:60]))
    assert not figures.is_quoted(long, " ".join(words[:40]))
    assert not figures.is_quoted(" ".join(words[:60]), " ".join(words[:50]))  # not long enough for that


def test_what_a_prompt_keeps_are_the_answers_words_from_the_evidence():
    found = figures.score_prompt(
        "the red bicycle",
        ["I bought a red bicycle in Lima", "It was cheap"],
        "a red bicycle from Quito, in Lima",
        500,
        501,
    )
    assert found == {
        "ctx_any@500": 0.0,
        "ctx_all@500": 0.0,
        "ctx_over@500": 1.0,
        "ctx_kept@500": pytest.approx(2 / 3),  # red, bicycle; not Lima. Quito is not in the evidence
    }


def test_an_answer_without_words_of_the_evidence_is_not_counted():
    assert "ctx_kept@500" not in figures.score_prompt("so", ["it was May"], "yes", 500, 3)


def test_mean_and_error_skip_questions_without_the_figure():
    rows = [{"x": 1.0}, {"x": 0.0}, {"y": 1.0}]
    assert figures.mean(rows, "x") == 0.5
    assert figures.standard_error(rows, "x") == pytest.approx(0.5)
    assert math.isnan(figures.mean(rows, "z"))
    assert math.isnan(figures.standard_error(rows, "y"))


# Baselines


@pytest.mark.parametrize("query", ['"', "NEAR(", "a AND", "*", "col:x", "", "؟", "don't (stop) -me"])
def test_any_text_is_a_query_of_the_lexical_baseline(query: str):
    assert len(Lexical(["some text", "more"]).scores(query)) == 2


def test_the_lexical_baseline_stems_and_prefers_the_rare():
    scores = Lexical(["cats, dogs", "a cat", "one dog", "dogs again", *["rain"] * 8]).scores("cat dog")
    assert scores.argmax() == 0
    assert scores[1] > scores[2] > 0
    assert match_expression("Cat cat!") == '"cat"'


def test_reciprocal_ranks_by_hand():
    found = reciprocal_ranks(floats(3, 0, 1), floats(0.1, 0.9, 0.5))
    assert found == pytest.approx([1 / 61 + 1 / 63, 1 / 61, 1 / 62 + 1 / 62], rel=1e-5)


def test_the_formula_by_hand():
    found = weighted_sum(floats(0.5, 1.0), floats(4, 2), floats(0, 1))
    assert found == pytest.approx([0.3 + 0.3, 0.6 + 0.15 + 0.1])
    assert weighted_sum(floats(0.5), floats(0), floats(0)) == pytest.approx([0.3])


def test_code_terms_are_names_not_words():
    assert code_terms("call `foo bar` and my_func() in camelCase of main.py, e.g. run()") == {
        "foo bar", "my_func", "camelcase", "main.py", "run",
    }  # fmt: skip
    assert code_match("where is my_func in main.py?", ["my_func", "nothing", "main.py: my_func()"]).tolist() == [
        0.5,
        0,
        1,
    ]
    assert code_match("no code", ["my_func"]).tolist() == [0]


def encode(texts: list[str] | tuple[str, ...]) -> np.ndarray:
    """Two dimensions: how many of the letters are a, and the rest."""
    rows = np.array([[text.count("a"), len(text) - text.count("a") + 0.1] for text in texts], np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_baselines_rank_messages():
    some = [message("1", "xyz"), message("2", "aaaa"), message("3", "xyz aaa", speaker="Ann")]
    found = Baselines(some, encode).rankings("aaaa", ["fts5", "dense", "rrf", "formula"], 10)
    assert found["fts5"] == ["2"]
    assert found["dense"][0] == found["rrf"][0] == found["formula"][0] == "2"
    assert sorted(found["dense"]) == sorted(found["rrf"]) == ["1", "2", "3"]


def test_packing_passes_over_what_does_not_fit():
    texts = {"long": "word " * 200, "short": "few words", "other": "more words"}
    assert packed(["long", "short", "other"], texts, "question?", 30) == "few words\nmore words"


# Runs


CONVERSATION = Conversation(
    "c",
    [message("1", "I moved to Oslo in May."), message("2", "My cat is called Miso.", "Ann"), message("3", "It rains.")],
    [
        Question("q1", "SearchScope did I move?", "one", "Oslo", ("1",)),
        Question("q2", "What is the cat called?", "abstention", "Miso", ("2",)),
    ],
)


def test_simple_methods_are_evaluated_and_what_stands_apart_stays_apart():
    class Embedder(CachedEmbedder):
        def __init__(self) -> None:
            pass

        def encode(self, texts, check=None):
            return encode(texts)

    outcome = evaluate([CONVERSATION], ["fts5"], Embedder())
    assert outcome.questions == 1
    row = outcome.overall("fts5")[0]
    assert row["ctx_all@500"] == row["ctx_kept@1000"] == row["kept_bare@1000"] == 1
    assert row["ctx_over@500"] == 0


def made(kept: float) -> dict[str, Outcome]:
    rows = [{f"ctx_kept@{budget}": kept for budget in figures.BUDGETS}]
    return {"set": Outcome(1, 1, {"ours": {"one": rows, "abstention": [{"ctx_kept@500": 0.0}]}})}


def test_a_loss_of_more_than_half_a_point_is_told(tmp_path: Path):
    console = Console(file=(tmp_path / "out").open("w"))
    path = tmp_path / "evidence.json"
    path.write_text(json.dumps(evidence(made(0.9))))
    assert json.loads(path.read_text())["set"]["ctx_kept@500"] == 0.9
    assert compare(console, evidence(made(0.896)), path)
    assert compare(console, evidence(made(0.95)), path)
    assert not compare(console, evidence(made(0.894)), path)
    console.file.close()


def test_other_questions_are_not_compared():
    with pytest.raises(SystemExit, match="not the questions"):
        list(losses({"set": {"questions": 2, "ctx_kept@500": 1}}, {"set": {"questions": 1, "ctx_kept@500": 1}}))
    assert not list(losses({"new": {"questions": 2}}, {"set": {"questions": 1}}))


# The rest


def test_a_speaker_who_is_merely_the_role_has_no_name():
    one, other = to_stored([message("1", "x"), message("2", "y", "Ann")])
    assert "name" not in one
    assert other["name"] == "Ann"
    assert other["at"] == "2024-05-01T10:00:00"


def test_the_cache_knows_a_text_again(tmp_path: Path):
    class Counting:
        name, dimensions, calls = "counting", 2, 0

        def encode(self, texts, check=None, **options):
            self.calls += len(texts)
            return encode(texts)

    def opened() -> tuple[CachedEmbedder, Counting]:
        cached, own = CachedEmbedder(tmp_path / "vectors.npz"), Counting()
        cached._embedder, cached.extends, cached.dimensions = own, own.name, own.dimensions
        return cached, own

    first, own = opened()
    vectors = first.encode(["a", "b", "a"])
    assert own.calls == 2
    first.save()
    second, own = opened()
    assert (second.encode(["a", "b", "a"]) == vectors).all()
    assert own.calls == 0
    second.extends = "another"
    second.encode(["a"])
    assert own.calls == 1


def test_generated_texts_have_about_the_length_asked_for():
    texts = Texts(None, seed=1)
    assert not texts.are_real
    sizes = [len(texts.text(120)) for _ in range(200)]
    assert 110 < sum(sizes) / len(sizes) < 135
    assert len(set(texts.questions(20))) == 20


def test_exact_bm25_counts_ties_as_agreement():
    exact = Exact([IndexedMessage(i, 0, 0, i, text) for i, text in enumerate(["red cat", "red cat", "blue", "red"])])
    assert exact.agreement("cat", [0, 1]) == exact.agreement("cat", [1, 0]) == 1
    assert exact.agreement("cat", [0, 2]) == 0.5
    assert exact.agreement("nothing", []) == 1


def test_times_of_parts_add_up():
    both = Times([0.001, 0.003]) + Times([0.002, 0.002])
    assert both.ms(0.5) == pytest.approx(5)
    assert str(Times()) == "–"


def test_a_chart_is_drawn_and_escaped():
    drawn = grouped_bars("a < b", [("set any@10", {"ours": 0.8, "none": math.nan}, 0.75)])
    assert drawn.startswith("<svg") and "a &lt; b" in drawn and drawn.count("<title>") == 1


# Versions


def test_a_version_costs_something_for_each_call():
    assert all(cost > 0 for cost in versions.measure(messages=20).values())


def test_a_call_that_costs_a_tenth_more_is_noticed(capsys: pytest.CaptureFixture[str]):
    before = [1.0, 1.1, 0.9]
    assert versions.report({"add": (before, [1.02 * cost for cost in before])}, "base")
    assert not versions.report({"add": (before, [1.1 * cost for cost in before])}, "base")
    assert "1.100" in capsys.readouterr().out


# Shapes


def test_a_shape_changes_roles_and_names_and_nothing_else():
    said = [{"id": "1", "role": "user", "content": "hi"}, {"id": "2", "role": "assistant", "content": "hello"}]
    assert SHAPES["unnamed"].tell(said) == said
    assert SHAPES["names without roles"].tell(said) == [
        {"id": "1", "role": "user", "content": "hi", "name": "Sara"},
        {"id": "2", "role": "user", "content": "hello", "name": "Nova"},
    ]
    for shape in SHAPES.values():
        assert [(one["id"], one["content"]) for one in shape.tell(said)] == [("1", "hi"), ("2", "hello")]


def test_a_shape_is_compared_with_the_first():
    talk = Conversation("c", [message("a", "The ferry leaves at nine."), message("b", "The bus is late.")], [])
    talk.questions.extend(Question(f"q{n}", "When does the ferry leave?", "x", "nine", ("a",)) for n in range(2))
    found = measure([talk], SHAPES["imported"], CachedEmbedder(None))
    assert [row["any@10"] for row in found] == [1.0, 1.0]
    assert to_row("imported", found, [{"any@10": 1.0, "all@10": 0.5}]) == [
        "imported",
        "1.000",
        "+0.0",
        "1.000",
        "+50.0",
    ]
