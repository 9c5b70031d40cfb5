"""`recollect recall`, `context`, `similar`, `metrics`, `tune`, `bench`: output, strange input, exit codes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from recollect import Memory
from recollect.cli import app, catch_up, display
from recollect.cli.display import render_bar, render_excerpt
from recollect.core.errors import StoreUnavailable
from support.fault_server import FaultServer

RUNNER = CliRunner()
Run = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("quick_vectors")
HOSTILE = [
    "", " ", "\n\t", "'", '"', '"unclosed', "a AND", "NOT", "NEAR(a b, 3)", "content:x", "a* OR ^b", "(((", "-x", "*",
    "%_", "'; DROP TABLE messages; --", "\x00", "\x1b[2J\x07", "\ud800", "🥜🥜", "ما الذي لا آكله؟", "花生",
    "a" * 20_000, "{}[]\\",
]  # fmt: skip


@pytest.fixture
def run(db: str) -> Run:
    def invoke(name: str, *args: object, input: bytes | None = None, code: int = 0) -> Any:
        """Options first, so that a text that looks like one can follow after two dashes."""
        result = RUNNER.invoke(app, [name, "--db", db, *map(str, args)], input=input)
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return invoke


@pytest.fixture
def trip(db: str) -> str:
    """Return a database with two small conversations, one of them in Riyadh's zone."""
    with Memory(db, worker=False) as memory:
        memory.add_many(
            "trip",
            [
                {"id": "t1", "role": "user", "name": "Sara", "at": "2026-03-01T20:57Z",
                 "content": "I am allergic to peanuts, badly.\n\nI carry a pen."},
                {"id": "t2", "role": "assistant", "at": "2026-03-01T20:58Z", "content": "Noted: no peanuts anywhere."},
                {"id": "t3", "role": "user", "name": "Sara", "at": "2026-03-02T08:00Z",
                 "content": "We sleep in a small guesthouse in Seville with a quiet courtyard and orange trees."},
            ],
        )  # fmt: skip
        memory.update_conversation("trip", zone="Asia/Riyadh")
        asked = "which trains go from Seville to Granada on Sunday"
        memory.add("trains", "user", asked, id="q1", at="2026-03-03T08:00Z")
        memory.add("trains", "assistant", "One at 8:12 and one at 14:30.", id="q2", at="2026-03-03T08:00Z")
        memory.drain()
    return db


def as_json(result: Any) -> Any:
    return json.loads(result.stdout)


# recall


def test_recall_lists_rank_score_time_speaker_conversation_and_text(run: Run, trip: str) -> None:
    result = run("recall", "who is allergic to peanuts", "--limit", 2)
    head, text, *rest = result.stdout.splitlines()
    assert re.fullmatch(r" +1  \d\.\d{3}  2026-03-01 23:57  user \(Sara\)  trip", head)
    assert text == "       I am allergic to peanuts, badly. I carry a pen."
    assert len(rest) == 2
    assert re.search(r"^2 hits among 5 messages, in \d+ ms\.$", result.stderr, re.MULTILINE)


def test_recall_as_json_is_what_the_method_returns(run: Run, trip: str) -> None:
    found = as_json(run("recall", "peanuts", "--json"))
    with Memory(trip, worker=False) as memory:
        same = memory.recall("peanuts").to_dict()
    assert found["hits"] == same["hits"]
    assert found.keys() == {"hits", "metrics", "degraded"}


def test_why_shows_parts_that_add_up_to_the_score(run: Run, trip: str) -> None:
    shown = run("recall", "allergic to peanuts", "--limit", 1, "--why").stdout
    parts = {name: float(value) for name, value in re.findall(r"^ {7}(\w+) +(-?\d\.\d{3})", shown, re.MULTILINE)}
    score = re.search(r"1  (\d\.\d{3})", shown)
    assert score is not None
    assert {"dense", "bm25", "role"} <= parts.keys()
    assert sum(parts.values()) == pytest.approx(float(score[1]), abs=0.005)
    assert "█" in shown


def test_what_another_command_added_a_moment_ago_is_found_by_words_and_by_meaning(run: Run, db: str) -> None:
    run("add", "trip", "user", "The guesthouse is called Casa Naranjo")
    (hit,) = as_json(run("recall", "Casa Naranjo", "--json"))["hits"]
    assert {"dense", "bm25"} <= hit["why"].keys()


def test_the_built_in_model_finds_what_was_added_in_other_words(run: Run, db: str, monkeypatch: Any) -> None:
    monkeypatch.delenv("RECOLLECT_EMBEDDER_URL")
    for text in ("The train leaves at noon.", "My dog is afraid of thunder.", "I paid 40 euros for the ticket."):
        run("add", "trip", "user", text)
    (hit,) = as_json(run("recall", "Which pet do I have?", "--limit", 1, "--json"))["hits"]
    assert "dog" in hit["text"]


@pytest.mark.slow
@pytest.mark.parametrize("query", HOSTILE)
def test_any_text_is_a_question(run: Run, trip: str, query: str) -> None:
    asked = ("--", query)
    recalled = run("recall", *asked)
    context = run("context", "--", "trip", query)
    for shown in (recalled.stdout, recalled.stderr, context.stdout, run("similar", "--", "new", query).stdout):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
    assert recalled.exit_code == 0
    assert query.strip() or not recalled.stdout.strip()  # what asks for nothing finds nothing


def test_a_question_may_come_from_stdin(run: Run, trip: str) -> None:
    assert "peanuts" in run("recall", "-", "--limit", 1, input=b"peanuts \xff\n").stdout
    assert "user: peanuts\n" in run("context", "trip", "-", "--text", input=b"peanuts\n").stdout


def test_recalled_text_cannot_control_the_terminal(run: Run, db: str) -> None:
    run("add", "t\x1b[2J\nx", "user", "\x1b[31mred\x07 \x9b1m [bold]x[/bold]", "--name", "\x1b]0;title\x07")
    shown = run("recall", "red").stdout + run("context", "t\x1b[2J\nx", "red").stdout
    shown += run("similar", "new", "[31mred 1m [bold]x[/bold]").stdout
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)
    assert "[bold]x[/bold]" in shown


def test_limits_and_budgets_may_be_nothing_or_more_than_there_is(run: Run, trip: str) -> None:
    assert run("recall", "peanuts", "--limit", 0).stdout == ""
    assert run("recall", "peanuts", "--budget", 0).stdout == ""
    assert len(as_json(run("recall", "peanuts", "--limit", 1_000_000, "--json"))["hits"]) == 5
    assert len(as_json(run("recall", "peanuts", "--budget", 30, "--json"))["hits"]) < 5


def test_since_until_and_conversation_narrow_what_is_found(run: Run, trip: str) -> None:
    def found(*args: object) -> set[str]:
        return {hit["message_id"] for hit in as_json(run("recall", "Seville", "--json", *args))["hits"]}

    assert found("--since", "2026-03-02") == {"t3", "q1", "q2"}
    assert found("--until", "2026-03-02") == {"t1", "t2"}
    assert found("--since", "2026-03-02", "--until", "2026-03-03") == {"t3"}


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("recall", "x", "--limit", -1), "invalid_limit"),
        (("recall", "x", "--budget", -1), "invalid_budget"),
        (("recall", "x", "--since", "noon"), "invalid_time"),
        (("recall", "x", "--at", "9999-99-99"), "invalid_time"),
        (("recall", "x", "--conversation", ""), "invalid_conversation"),
        (("recall", "x", "--person", " "), "invalid_person"),
        (("context", "trip", "x", "--budget", 0), "budget_too_small"),
        (("context", "trip", "x", "--budget", 5, "--system", "long " * 50), "budget_too_small"),
        (("context", "", "x"), "invalid_conversation"),
        (("context", "trip", "x", "--text", "--json"), "invalid_output"),
        (("similar", "trip", "x", "--limit", -1), "invalid_limit"),
        (("metrics", "--since", "noon"), "invalid_time"),
    ],
)
def test_wrong_use_exits_with_2_and_names_its_code(run: Run, trip: str, args: tuple[object, ...], code: str) -> None:
    result = run(*args, code=2)
    assert result.stdout == ""
    error = result.stderr.splitlines()[-1]
    assert (json.loads(error)["error"]["code"] if "--json" in args else error.split()[-1].strip("[]")) == code


def test_without_a_database_nothing_is_asked_and_none_is_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "l").write_text('{"query": "a", "relevant": ["m"]}')
    for args in (["recall", "x"], ["context", "a", "x"], ["similar", "a", "x"], ["metrics"], ["tune", "l"], ["bench"]):
        assert "database_not_found" in run(*args, code=3).stderr
    assert [file.name for file in tmp_path.iterdir()] == ["l"]


def test_an_empty_memory_gives_an_empty_answer(run: Run, db: str) -> None:
    with Memory(db, worker=False):
        pass
    assert run("recall", "anything").stdout == ""
    assert run("similar", "new", "anything").stdout == ""
    assert as_json(run("context", "new", "anything", "--json"))["text"] == "user: anything"


def test_an_unknown_conversation_is_noted_on_stderr(run: Run, trip: str) -> None:
    found = run("recall", "peanuts", "--conversation", "trp", "--json")
    assert "there is no conversation 'trp' yet" in found.stderr
    assert {hit["conversation"] for hit in as_json(found)["hits"]} <= {"trip", "trains"}
    assert "no conversation 'trp'" in run("context", "trp", "peanuts").stderr
    assert "no conversation" not in run("context", "trip", "peanuts").stderr


def test_people_do_not_find_each_other(run: Run, trip: str) -> None:
    assert run("recall", "peanuts", "--person", "omar").stdout == ""
    assert "peanuts, badly" not in run("context", "trip", "peanuts", "--person", "omar").stdout


# When the embedder is away


@pytest.fixture
def embedder_away(trip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer() as gone:
        address = gone.url
    monkeypatch.setenv("RECOLLECT_EMBEDDER_URL", address)


def test_without_the_embedder_words_still_answer_with_a_warning(run: Run, embedder_away: None) -> None:
    result = run("recall", "allergic peanuts", "--limit", 1)
    assert "peanuts" in result.stdout
    assert "warning: the embedder does not answer" in result.stderr
    assert as_json(run("recall", "peanuts", "--json"))["degraded"] == ["embedder"]
    assert "warning: the embedder" in run("context", "trip", "peanuts").stderr


def test_without_the_embedder_finding_nothing_exits_with_5(run: Run, embedder_away: None) -> None:
    run("recall", "peanuts", "--since", "2100-01-01", code=5)
    assert as_json(run("recall", "peanuts", "--limit", 0, "--json", code=5))["hits"] == []


def test_vectors_of_another_embedder_cause_a_warning(
    run: Run, embedder_away: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_EMBEDDER_NAME", "another")
    assert "older vectors are another embedder's" in run("recall", "peanuts").stderr


# context


def test_context_shows_where_tokens_go_and_then_the_prompt(run: Run, trip: str) -> None:
    shown = run("context", "trip", "what can't I eat", "--budget", 400, "--system", "Be brief.").stdout
    table, prompt = shown.split("\n\n", 1)
    rows = {name: int(tokens) for name, tokens in re.findall(r"^(\w+) +(\d+) ", table, re.MULTILINE)}
    assert sum(rows.values()) == 2 * rows["together"] <= 800
    assert f"of 400; {400 - rows['together']} free" in table
    assert re.search(rf"^recall +{rows['recall']}  █[█▉-▏·]{{15}}  passages", table, re.MULTILINE)
    assert prompt.startswith("Be brief.")
    assert prompt.endswith("user: what can't I eat\n")


def test_context_shows_the_share_of_the_brief_and_counts_it_as_an_answer(run: Run, trip: str) -> None:
    with Memory(trip, worker=False, settings="A") as memory:
        memory.add_many("trip", [{"role": "user", "content": f"What is there on day {n}?"} for n in range(90)])
        memory.compress("trip", force=True)
        memory.drain()
    table, prompt = run("context", "trip", "what can't I eat", "--budget", 2500).stdout.split("\n\n", 1)
    assert {"important_data", "summary", "recall", "tail"} <= {row.split()[0] for row in table.splitlines()}
    assert "allergic to peanuts" in prompt
    explain = as_json(run("context", "trip", "what can't I eat", "--budget", 2500, "--json"))["explain"]
    assert explain["brief"]["version"] >= 1


def test_context_names_a_few_of_what_it_left_out_for_each_reason(run: Run, trip: str) -> None:
    said = "\x1b[2JPeanuts are in everything.\n\n" + "More of this long story follows here. " * 9
    with Memory(trip, worker=False) as memory:
        turn = [{"role": "user", "content": said}, *({"role": "assistant", "content": said},) * 9]
        memory.add_many("trip", turn)
        memory.drain()
    asked = ("context", "trip", "where are peanuts", "--budget", 300)
    table = run(*asked).stdout.split("\n\n", 1)[0]
    reasons = Counter(one["reason"] for one in as_json(run(*asked, "--json"))["explain"]["left_out"])
    assert max(reasons.values()) > 3
    for reason, count in reasons.items():
        assert f"left out: {reason}\n" in table
        assert count <= 3 or f"       and {count - 3} more; --json names them" in table
    assert re.search(r"^ {7}trip \d+: ␛\[2JPeanuts are in everything\. More .{50,80}…$", table, re.MULTILINE)


def test_text_prints_the_prompt_alone_with_every_character(run: Run, trip: str) -> None:
    with Memory(trip, worker=False) as memory:
        made = memory.context("trip", "what\x1b can't I eat", budget=300)
    assert run("context", "trip", "what\x1b can't I eat", "--budget", 300, "--text").stdout == made.text + "\n"


def test_context_as_json_has_messages_and_reasons(run: Run, trip: str) -> None:
    made = as_json(run("context", "trip", "peanuts", "--model", "gpt-4", "--at", "2026-03-05", "--json"))
    last = made["messages"][-1]  # joined with what the person said last, so that roles alternate
    assert (last["role"], last["content"].splitlines()[-1]) == ("user", "peanuts")
    assert made["tokens"] <= made["explain"]["budget"]


# similar


def test_similar_shows_when_and_where_it_was_asked_and_the_answer(run: Run, trip: str) -> None:
    asked = "which trains go from Seville to Granada on Monday"
    shown = run("similar", "new", asked).stdout
    assert re.match(r"You asked something similar .+ ago in trains  \(0\.\d\d\)\n", shown)
    assert "→ One at 8:12" in shown
    (one,) = as_json(run("similar", "new", asked, "--json"))
    assert (one["message_id"], one["conversation"]) == ("q1", "trains")
    assert run("similar", "trains", asked).stderr.endswith("Nothing similar was asked in other conversations.\n")
    assert as_json(run("similar", "new", asked, "--limit", 0, "--json")) == []


# metrics


def test_metrics_show_hit_rate_and_times(run: Run, trip: str) -> None:
    assert run("metrics").stderr == "Nothing was asked yet.\n"
    run("recall", "peanuts")
    run("context", "trip", "peanuts")
    found = run("metrics").stdout
    assert re.search(r"^questions +2$", found, re.MULTILINE)
    assert re.search(r"^with a hit +100%$", found, re.MULTILINE)
    assert re.search(r"^total +\d+\.\d +\d+\.\d +\d+\.\d$", found, re.MULTILINE)
    assert as_json(run("metrics", "--json"))["queries"] == 2
    assert as_json(run("metrics", "--since", "2100-01-01", "--json"))["queries"] == 0


# tune, bench


@pytest.fixture
def labels(tmp_path: Path) -> str:
    rows = [
        {"query": "allergic peanuts", "relevant": ["t1", "t2"], "conversation": "trip"},
        {"query": "guesthouse courtyard", "relevant": ["t3", "gone"]},
        {"query": "trains on Sunday", "relevant": ["q1"]},
    ]
    file = tmp_path / "labels.ndjson"
    file.write_text("\n".join(map(json.dumps, rows)))
    return str(file)


def test_tune_shows_the_grid_and_a_verdict(run: Run, trip: str, labels: str) -> None:
    result = run("tune", labels)
    assert re.search(r"^questions +3$", result.stdout, re.MULTILINE)
    assert "in use before" in result.stdout
    assert "1 label named no stored message" in result.stderr
    assert as_json(run("tune", labels, "--step", "0.5", "--json"))["points"] == 7
    assert as_json(run("tune", "-", "--json", input=Path(labels).read_bytes()))["unknown"] == 1


def test_tune_applies_only_better_weights(run: Run, trip: str, tmp_path: Path) -> None:
    (tmp_path / "l").write_text('{"query": "One at", "relevant": ["q2"]}\n{"query": "orange", "relevant": ["t3"]}')
    run("settings", "rag_rerank_alpha=0", "rag_rerank_beta=0", "rag_rerank_gamma=0")
    tuned = as_json(run("tune", "l", "--apply", "--json"))
    assert tuned["applied"] == (tuned["after"] > tuned["before"])
    now = {row["name"]: row["value"] for row in as_json(run("settings", "--json"))}
    wanted = tuned["settings"] if tuned["applied"] else tuned["current"]
    assert {name: now[name] for name in wanted} == wanted
    assert "nothing was changed" in run("tune", "l", "--apply").stderr


def test_bench_prints_quality_beside_plainer_ways_and_times(run: Run, trip: str, labels: str) -> None:
    shown = run("bench", labels).stdout
    for method in ("recollect", "words alone", "vectors alone", "both by rank (RRF)", "fixed formula .6/.3/.1"):
        assert re.search(rf"^{re.escape(method)} +\d\.\d{{3}} +\d\.\d{{3}} +\d\.\d{{3}}$", shown, re.MULTILINE)
    assert re.search(r"^total +\d+\.\d +\d+\.\d$", shown, re.MULTILINE)
    assert as_json(run("bench", labels, "--json"))["kind"] == "labelled"


def test_bench_without_a_file_says_what_it_measures(run: Run, trip: str) -> None:
    result = run("bench")
    assert "does not show whether questions in other words are answered" in result.stderr
    assert "any@10" in result.stdout
    assert as_json(run("bench", "--sample", 1, "--json"))["queries"] == 1


@pytest.mark.parametrize("command", ["tune", "bench"])
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "no_labels"),
        ("{", "invalid_labels"),
        ('{"query": "a"}', "invalid_labels"),
        ('{"query": "a", "relevant": ["never"]}', "labels_unknown"),
        (None, "file_not_found"),
    ],
)
def test_a_wrong_file_of_labels_counts_as_wrong_use(
    run: Run, trip: str, tmp_path: Path, command: str, text: str | None, code: str
) -> None:
    if text is not None:
        (tmp_path / "l").write_text(text)
    assert f"[{code}]" in run(command, "l", code=2).stderr


def test_a_wrong_step_and_a_wrong_sample_are_refused(run: Run, trip: str, labels: str) -> None:
    assert "[invalid_step]" in run("tune", labels, "--step", "0.3", code=2).stderr
    assert "[invalid_sample]" in run("bench", "--sample", 0, code=2).stderr


def test_without_the_embedder_tune_refuses(run: Run, embedder_away: None, labels: str) -> None:
    result = run("tune", labels, "--json", code=1)
    assert json.loads(result.stderr.splitlines()[-1])["error"]["retryable"] is True


# Progress and lengths


class FakeStats:
    """A memory that returns these stats, one after the other, and then is closed."""

    def __init__(self, *counts: dict[str, int]) -> None:
        self._counts = list(counts)

    def stats(self) -> dict[str, int]:
        if not self._counts:
            raise StoreUnavailable("store_closed", "closed")
        return self._counts.pop(0)


def test_a_bar_follows_the_slowest_count_and_ends_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[int, int]] = []

    @contextmanager
    def record(_: str) -> Iterator[Callable[[int, int], None]]:
        yield lambda done, total: shown.append((done, total))

    monkeypatch.setattr(catch_up, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(catch_up, "count_bar", record)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    memory: Any = FakeStats({"messages": 9, "counted": 4}, {"messages": 9, "counted": 9, "embedded": 5})
    with catch_up.show_progress(memory, "Working"):
        while memory._counts:
            pass
    assert shown == [(4, 9), (5, 9)]


def test_many_waiting_messages_are_left_to_a_worker_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    memory: Any = FakeStats({"messages": 5000, "embedded": 10})
    catch_up.catch_up_new_messages(memory)
    assert "4,990 messages can be found by words only" in capsys.readouterr().err


def test_a_text_is_cut_on_a_terminal_and_whole_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [one.plain for one in render_excerpt("a\n\n b " * 50, 2)] == [" ".join(["a b"] * 50)]
    real = display.Console
    monkeypatch.setattr(display, "Console", lambda **_: real(force_terminal=True, width=27))
    lines = [one.plain for one in render_excerpt("word " * 50, 2)]
    assert len(lines) == 2
    assert lines[1].endswith("…")
    assert max(map(len, lines)) <= 20
    assert [one.plain for one in render_excerpt("word", 2)] == ["word"]


def test_a_bar_is_as_long_as_its_number() -> None:
    assert (render_bar(1, 1, width=4), render_bar(0.5, 1, width=4), render_bar(1, 32, width=4)) == ("████", "██", "▏")
    assert (render_bar(0, 1), render_bar(-1, 1), render_bar(1, 0)) == ("", "", "")
