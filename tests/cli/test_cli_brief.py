"""`recollect brief` and `recollect compress`: a version, all versions, what changed, compressing; and presets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from recollect import Memory, Settings, count_tokens_for_messages
from recollect.cli import display
from recollect.cli.brief_changes import BriefChange, compare_versions
from recollect.core.compression.brief import Brief
from recollect.core.compression.narrative import Statement
from recollect.testing import FakeModel
from support.fault_server import FaultServer

Run = Callable[..., Any]
CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
SAID = (
    "I am Sara and I live in Paris.",
    "I am allergic to peanuts.",
    "We decided to take the night train to Granada.",
    "أنا لا آكل لحم الخنزير.",
    "See https://trains.example/night for the timetable.",
    "I live in Berlin.",
    "What does the museum cost?",
    "Is it open on Monday?",
    "Thanks.",
)


def turns(*said: str, first: int = 1) -> list[dict[str, Any]]:
    """Return user messages with an answer each, a day apart."""
    messages = []
    for number, text in enumerate(said, first):
        at = datetime(2026, 3, 1, 23, 30, tzinfo=UTC) + timedelta(days=number - 1)
        messages.append({"id": f"u{number}", "role": "user", "content": text, "at": at})
        messages.append({"id": f"a{number}", "role": "assistant", "content": "I see.", "at": at})
    return messages


@pytest.fixture(autouse=True)
def _compress_short_chats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compress what is said here, although a brief of so little does not pay."""
    monkeypatch.setenv("RECOLLECT_COMPRESS_MUST_PAY", "false")


@pytest.fixture
def briefed(db: str) -> str:
    """Return a database with nine turns in Riyadh; seven of them are in a brief of two versions."""
    with Memory(db, worker=False, settings="A") as memory:
        memory.add_many("trip", turns(*SAID[:5]))
        memory.update_conversation("trip", zone="Asia/Riyadh")
        memory.compress("trip")
        memory.add_many("trip", turns(*SAID[5:], first=6))
        memory.compress("trip")
    return db


@pytest.fixture
def unbriefed(db: str) -> str:
    """Return a database with nine turns and no brief."""
    with Memory(db, worker=False) as memory:
        memory.add_many("trip", turns(*SAID))
    return db


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    real = display.Console
    monkeypatch.setattr(display, "Console", lambda **_: real(force_terminal=True, width=40, highlight=False))


def as_json(result: Any) -> Any:
    return json.loads(result.stdout)


def uncoloured(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


# A version


def test_a_brief_shows_its_version_its_narrative_and_what_it_compressed(run: Run, briefed: str) -> None:
    with Memory(briefed, worker=False) as memory:
        found = memory.brief("trip")
    assert found is not None
    shown = run("brief", "trip").stdout
    head, _, narrative, *rest = shown.splitlines()
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d"
    assert re.fullmatch(rf"trip · version 2 · through message 14 of 18 · {when} · built-in summariser", head)
    assert narrative == found.narrative
    assert {"decisions", "facts", "links"} <= set(rest)
    assert "  allergic to peanuts" in rest
    assert re.search(r"^compressed +8 messages$", shown, re.MULTILINE)
    assert re.search(r"^timespan +2026-03-\d\d .+–2026-03-\d\d ", shown, re.MULTILINE)
    assert re.search(rf"^tokens saved +\d+%; the brief takes about {found.tokens:,}$", shown, re.MULTILINE)


def test_superseded_entries_follow_those_that_hold_with_their_last_day_in_the_zone(run: Run, briefed: str) -> None:
    shown = run("brief", "trip").stdout
    assert re.search(r"^  lives in Berlin$(?s:.*)^  lives in Paris, until 2026-03-07$", shown, re.MULTILINE)
    assert "until" not in run("brief", "trip", "--version", 1).stdout


def test_a_brief_as_json_is_what_the_method_returns(run: Run, briefed: str) -> None:
    with Memory(briefed, worker=False) as memory:
        newest, first = memory.brief("trip"), memory.brief("trip", version=1)
    assert newest is not None
    assert first is not None
    assert as_json(run("brief", "trip", "--json")) == newest.to_dict()
    assert as_json(run("brief", "trip", "--version", 1, "--json")) == first.to_dict()


def test_sources_are_the_numbers_of_messages_in_the_log(run: Run, briefed: str) -> None:
    shown = run("brief", "trip", "--sources").stdout
    assert "  allergic to peanuts #3\n" in shown
    assert "  lives in Berlin #11\n" in shown
    assert "  lives in Paris, until 2026-03-07 #1\n" in shown
    with Memory(briefed, worker=False) as memory:
        found = memory.brief("trip")
    assert found is not None
    for statement in found.statements:
        assert re.search(rf"^{re.escape(statement.text)}( #\d+)+$", shown, re.MULTILINE)
    assert "#" not in run("brief", "trip").stdout


def test_on_a_terminal_text_is_wrapped_and_superseded_entries_are_dim(
    run: Run, briefed: str, on_terminal: None
) -> None:
    shown = run("brief", "trip", "--sources").stdout
    assert "\x1b[2mlives in Paris, until 2026-03-07\x1b[0m" in shown
    body = uncoloured(shown).partition("\n\n")[2]
    assert max(map(len, body.split("\n\nfolded")[0].splitlines())) <= 40
    assert "أنا لا آكل لحم الخنزير" in body


def test_the_writer_of_a_brief_is_named_and_a_model_that_failed_too(run: Run, unbriefed: str) -> None:
    with Memory(unbriefed, worker=False, settings="A", model=FakeModel(replies=["no JSON", "nor this"])) as memory:
        made = memory.compress("trip")
    assert made is not None
    assert made.degraded
    assert f" · built-in summariser · the model failed: {made.degraded}\n" in run("brief", "trip").stdout


# None, and wrong use


def test_without_a_brief_nothing_is_printed_and_a_note_says_when_there_will_be_one(run: Run, unbriefed: str) -> None:
    result = run("brief", "trip")
    assert result.stdout == ""
    assert (
        "There is no brief of the 18 messages yet. A worker compresses older turns above 6,000 tokens." in result.stderr
    )
    assert "`recollect compress trip --force`" in result.stderr
    assert as_json(run("brief", "trip", "--json")) is None
    assert as_json(run("brief", "trip", "--diff", "--json")) is None
    assert as_json(run("brief", "trip", "--versions", "--json")) == []


@pytest.mark.parametrize(
    ("preset", "when"),
    [
        ("A", "from 5 messages on."),
        ("B", "above 3,000 tokens."),
        ("C", "By the settings older turns are never compressed."),
        ("recall", "after every 5 answers."),
    ],
)
def test_when_there_will_be_one_depends_on_the_settings(run: Run, unbriefed: str, preset: str, when: str) -> None:
    assert when in run("brief", "trip", "--preset", preset).stderr


@pytest.mark.parametrize(
    ("args", "code", "exit_code"),
    [
        (("brief", "trp"), "conversation_not_found", 3),
        (("compress", "trp"), "conversation_not_found", 3),
        (("brief", "trip", "--version", 9), "brief_not_found", 3),
        (("brief", "trip", "--diff", "--since", 2), "invalid_version", 2),
        (("brief", "trip", "--diff", "--since", -1), "invalid_version", 2),
        (("brief", "trip", "--version", 0), "invalid_version", 2),
        (("brief", "trip", "--since", 1), "invalid_output", 2),
        (("brief", "trip", "--versions", "--diff"), "invalid_output", 2),
        (("brief", "trip", "--versions", "--version", 1), "invalid_output", 2),
        (("brief", "trip", "--person", "omar"), "conversation_not_found", 3),
        (("compress", "trip", "--preset", "Z"), "unknown_preset", 2),
    ],
)
def test_what_is_not_there_or_contradicts_itself_is_refused(
    run: Run, briefed: str, args: tuple[object, ...], code: str, exit_code: int
) -> None:
    result = run(*args, code=exit_code)
    assert result.stdout == ""
    assert result.stderr.endswith(f"[{code}]\n")
    assert json.loads(run(*args, "--json", code=exit_code).stderr)["error"]["code"] == code


def test_without_a_database_there_is_no_brief_and_none_is_made(run: Run) -> None:
    for command in ("brief", "compress"):
        assert "[database_not_found]" in run(command, "trip", code=3).stderr


# Versions and changes


def test_versions_are_listed_with_how_many_messages_each_compressed(run: Run, briefed: str) -> None:
    rows = [row.split() for row in run("brief", "trip", "--versions").stdout.splitlines()[1:]]
    assert [row[:3] for row in rows] == [["1", "6", "6"], ["2", "8", "14"]]
    assert [row[-2:] for row in rows] == [["built-in", "summariser"]] * 2
    assert [one["messages"] for one in as_json(run("brief", "trip", "--versions", "--json"))] == [6, 14]


def test_a_diff_marks_what_is_new_and_what_was_superseded(run: Run, briefed: str) -> None:
    shown = run("brief", "trip", "--diff", "--sources").stdout
    assert shown.startswith("from version 1 to version 2\n")
    assert "  ~ lives in Paris, until 2026-03-07 #1\n" in shown
    assert "  + lives in Berlin #11\n" in shown
    assert "peanuts" not in "".join(row for row in shown.splitlines() if row.startswith("  ~"))
    assert "allergic" not in shown.partition("\nfacts\n")[2]


def test_the_first_version_and_since_0_are_compared_to_nothing(run: Run, briefed: str) -> None:
    first = run("brief", "trip", "--version", 1, "--diff").stdout
    assert first.startswith("from nothing to version 1\n")
    assert "  + lives in Paris\n" in first
    whole = as_json(run("brief", "trip", "--diff", "--since", 0, "--json"))
    assert (whole["from_version"], whole["to_version"], whole["statements_removed"]) == (0, 2, [])
    assert whole["entries_added"] == as_json(run("brief", "trip", "--json"))["entries"]


def test_a_diff_as_json_has_statements_and_entries(run: Run, briefed: str) -> None:
    change = as_json(run("brief", "trip", "--diff", "--json"))
    first, second = (as_json(run("brief", "trip", "--version", n, "--json")) for n in (1, 2))
    assert [one["value"] for one in change["entries_superseded"]] == ["Paris"]
    assert change["entries_added"] == second["entries"][len(first["entries"]) :]
    kept = [one for one in first["statements"] if one not in change["statements_removed"]]
    assert {one["text"] for one in [*kept, *change["statements_added"]]} == {
        one["text"] for one in second["statements"]
    }


def test_a_statement_that_is_dropped_for_length_is_marked_as_removed(run: Run, db: str, on_terminal: None) -> None:
    short = Settings(compress_messages_at=5, memory_summary_token_cap=50)
    with Memory(db, worker=False, settings=short) as memory:
        for place in range(0, 60, 6):
            memory.add_many("trip", turns(*(f"{said} {place}" for said in SAID[:6]), first=place + 1))
            memory.compress("trip")
    change = as_json(run("brief", "trip", "--diff", "--since", 1, "--json"))
    assert change["statements_removed"]
    shown = run("brief", "trip", "--diff", "--since", 1).stdout
    assert f"  - \x1b[31m{change['statements_removed'][0]['text'].split()[0]}" in shown
    assert f"  + \x1b[32m{change['statements_added'][0]['text'].split()[0]}" in shown


def test_a_diff_without_changes_says_so(run: Run, db: str) -> None:
    silence = [{"role": "user", "content": " "}] * 6
    with Memory(db, worker=False, settings="A") as memory:
        for said in (turns(*SAID[:3]), silence, silence):
            memory.add_many("trip", said)
            memory.compress("trip")
    shown = run("brief", "trip", "--diff")
    assert (shown.stdout, shown.stderr) == ("from version 2 to version 3\n", "No statement and no entry changed.\n")


@pytest.mark.parametrize("day", ["", "[2 Mar] ", "[2 Mar 2026] ", "[2 March] ", "[2 March 2026] ", "[17 December] "])
def test_a_day_label_that_one_version_alone_has_is_no_change(day: str) -> None:
    plain, labelled = _statement("Sara likes tea."), _statement(f"{day}Sara likes tea.")
    for change in (_change(plain, labelled), _change(labelled, plain)):
        assert (change.statements_added, change.statements_removed) == ((), ())


def test_brackets_that_are_no_day_label_are_a_change() -> None:
    change = _change(_statement("Sara likes tea."), _statement("[sic] Sara likes tea."))
    assert [one.text for one in change.statements_added] == ["[sic] Sara likes tea."]


def test_a_date_that_one_version_alone_adds_to_yesterday_is_no_change() -> None:
    plain = _statement("The user saw a doctor yesterday.")
    dated = _statement("[1 March 2026] The user saw a doctor yesterday (28 February 2026).")
    assert _change(plain, dated).statements_added == ()
    assert _change(plain, _statement("The user saw a doctor yesterday (27 February 2026).")).statements_added != ()


def test_a_second_day_does_not_mark_statements_of_the_first_as_changed(run: Run, db: str) -> None:
    said = ("I am Sara and I live in Paris.", "I went to the doctor yesterday.", "I am allergic to peanuts.")
    later = ("I need a new passport.", "My brother is called Omar.", "I bought a bicycle.", "Thanks.", "Well.")
    morning = datetime(2023, 3, 7, 9, tzinfo=UTC)
    with Memory(db, worker=False) as memory:
        for day, texts in enumerate((said, later)):
            at = morning + timedelta(days=day)
            memory.add_many("trip", [{"role": "user", "content": text, "at": at} for text in texts])
            memory.add_many("trip", [{"role": "user", "content": "Hm.", "at": at}] * 3 * (not day))
            memory.compress("trip", force=True)
    first, second = (as_json(run("brief", "trip", "--version", n, "--json"))["statements"] for n in (1, 2))
    assert first[0]["text"] == "The user is Sara and they live in Paris."
    assert second[0]["text"] == "[7 March 2023] The user is Sara and they live in Paris."
    assert "The user went to the doctor yesterday (6 March 2023)." in [one["text"] for one in second]
    change = as_json(run("brief", "trip", "--diff", "--json"))
    assert change["statements_removed"] == []
    assert not {one["text"] for one in change["statements_added"]} & {second[0]["text"], second[1]["text"]}


def _statement(text: str) -> Statement:
    return Statement(text, ("m",), datetime(2026, 3, 1, tzinfo=UTC), 1)


def _change(*statements: Statement) -> BriefChange:
    old, new = (
        Brief("trip", 1, "", {}, {}, 1, one.at, "m", {}, (one,), (), 1, 2, 0) for one in statements
    )  # fmt: skip
    return compare_versions(old, new, "UTC")


# Compressing


def test_compress_says_what_it_compressed(run: Run, unbriefed: str) -> None:
    shown = run("compress", "trip", "--preset", "A").stdout
    assert re.search(r"^compressed +14 messages of 7 turns$", shown, re.MULTILINE)
    assert re.search(r"^tokens +\S", shown, re.MULTILINE)
    assert re.search(r"^narrative +\d+ words$", shown, re.MULTILINE)
    assert re.search(r"^ledger +\d+ new, 1 superseded$", shown, re.MULTILINE)
    assert run("brief", "trip").stdout.startswith("trip · version 1 · through message 14 of 18")


def test_the_tokens_before_are_those_of_the_turns_and_of_the_brief_before(run: Run, unbriefed: str) -> None:
    old = 0
    for _ in range(2):
        with Memory(unbriefed, worker=False) as memory:
            memory.add_many("trip", [{"role": "assistant", "content": "Let me tell you more about trains. " * 20}])
            memory.add_many("trip", [{"role": "user", "content": "Go on."}] * 3)
            start = old and memory.history("trip")[-8].seq
        shown = run("compress", "trip", "--force").stdout
        made = as_json(run("brief", "trip", "--json"))
        with Memory(unbriefed, worker=False) as memory:
            compressed = [one.to_dict() for one in memory.history("trip") if start < one.seq <= made["through_seq"]]
        numbers = re.search(r"about ([\d,]+) → ([\d,]+)$", shown, re.MULTILINE)
        assert numbers is not None
        before, after = (int(one.replace(",", "")) for one in numbers.groups())
        assert before == pytest.approx(old + count_tokens_for_messages(compressed), rel=0.01)
        assert after == made["tokens"]
        old = made["tokens"]


def test_a_brief_that_is_no_shorter_says_so(run: Run, db: str) -> None:
    with Memory(db, worker=False) as memory:
        memory.add_many("trip", turns("I live in Paris.", "I am allergic to peanuts.", "Well.", "Hm.", "Yes."))
    assert re.search(r"^tokens +\d+, no fewer than before$", run("compress", "trip", "--force").stdout, re.MULTILINE)


def test_compress_says_why_nothing_is_due_and_what_force_does(run: Run, unbriefed: str) -> None:
    result = run("compress", "trip")
    assert result.stdout == ""
    assert "Nothing is due. Not in the brief yet: 18 messages. A worker compresses older turns above" in result.stderr
    assert "--force compresses all but the newest 3 turns now." in result.stderr
    assert as_json(run("compress", "trip", "--json")) is None
    run("compress", "trip", "--force")
    assert "Nothing can be compressed. Not in the brief yet: 6 messages." in run("compress", "trip", "--force").stderr


def test_compress_as_json_is_the_new_brief(run: Run, unbriefed: str) -> None:
    made = as_json(run("compress", "trip", "--force", "--json"))
    assert made == as_json(run("brief", "trip", "--json"))
    assert made["through_seq"] == 12


def test_compress_warns_of_a_model_that_does_not_answer(
    run: Run, unbriefed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer() as gone:
        monkeypatch.setenv("RECOLLECT_MODEL_URL", gone.url)
    monkeypatch.setenv("RECOLLECT_MODEL_NAME", "away")
    monkeypatch.setenv("RECOLLECT_PROVIDER_RETRIES", "0")
    result = run("compress", "trip", "--force")
    assert "warning: the model failed (" in result.stderr
    assert re.search(r"^by +built-in summariser$", result.stdout, re.MULTILINE)


# Text that must not control the terminal


def test_a_brief_cannot_control_the_terminal(run: Run, db: str) -> None:
    name = "t\x1b[2J\nx"
    said = [
        "I live in Par\x1b[31mis\x07 now.",
        "I am allergic to \x9b1m[bold]peanuts[/bold]\r and nuts.",
        "We decided to take the \x1b]0;title\x07 night train.",
        "See https://trains.example/\x1b[2J for more.",
        *(f"\x1b[{n}m What about day {n}?" for n in range(9)),
    ]
    with Memory(db, worker=False, settings="A") as memory:
        memory.add_many(name, turns(*said))
    shown = run("compress", name, "--preset", "A").stdout
    for args in ((), ("--sources",), ("--diff",), ("--diff", "--sources"), ("--versions",)):
        result = run("brief", name, *args)
        shown += result.stdout + result.stderr
    assert "t␛[2J␊x · version 1" in shown
    assert "[bold]" in shown
    assert not re.search(CONTROL, shown)


# Presets


def test_a_preset_can_come_from_the_environment(run: Run, unbriefed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_PRESET", "compact")
    assert "compressed" in run("compress", "trip").stdout
    monkeypatch.setenv("RECOLLECT_PRESET", "nonsense")
    error = run("compress", "trip", code=2).stderr
    assert "compact (A), sessions (B), topics (C), briefs (D), recall (E)" in error
    monkeypatch.setenv("RECOLLECT_PRESET", "")
    assert "Nothing is due" in run("compress", "trip").stderr


def test_a_worker_compresses_by_its_preset(run: Run, unbriefed: str) -> None:
    run("worker", "--once", "--preset", "compact")
    assert as_json(run("brief", "trip", "--json"))["through_seq"] == 14


def test_settings_show_what_a_preset_sets_and_that_it_counts_more(run: Run, unbriefed: str) -> None:
    rows = as_json(run("settings", "--preset", "A", "--json"))
    assert ("compress_messages_at", 5, "preset") in [(row["name"], row["value"], row["origin"]) for row in rows]
    changed = run("settings", "compress_messages_at=7", "rag_token_budget=900", "--preset", "A")
    assert (
        "note: compress_messages_at is stored, but later calls with --preset A use the preset's own value."
        in changed.stderr
    )
    assert "rag_token_budget" not in changed.stderr
    assert "note" not in run("settings", "compress_messages_at=8").stderr


def test_a_preset_that_does_not_exist_creates_no_database(run: Run, db: str) -> None:
    assert "[unknown_preset]" in run("add", "trip", "user", "Hello", "--preset", "F", code=2).stderr
    assert not Path(db).exists()
