"""The commands, called in this process: what each does, prints and answers with its exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from recollect import Conflict, Denied, InvalidInput, Memory, NotFound, StoreUnavailable
from recollect.cli import app
from recollect.cli.display import to_printable
from recollect.cli.options import make_command

RUNNER = CliRunner()
Run = Callable[..., Any]


def as_json(result: Any) -> Any:
    return json.loads(result.stdout)


# add


def test_add_prints_seq_and_id(run: Run) -> None:
    assert run("add", "trip", "user", "Hello", "--id", "m-1").stdout == "1 m-1\n"
    assert run("add", "trip", "assistant", "Hi", "--id", "m-2").stdout == "2 m-2\n"


def test_add_keeps_every_option_with_the_message(run: Run) -> None:
    stored = as_json(
        run(
            "add", "trip", "assistant", "Sure.", "--id", "m", "--at", "2026-03-01T10:00:00+03:00", "--name", "Guide",
            "--source", "imported", "--model-variant", "deep", "--metadata", '{"a": [1, "ب"]}', "--importance", "0.5",
            "--json",
        )
    )  # fmt: skip
    assert stored["at"] == "2026-03-01T07:00:00+00:00"
    assert (stored["name"], stored["source"], stored["model_variant"]) == ("Guide", "imported", "deep")
    assert (stored["metadata"], stored["importance"]) == ({"a": [1, "ب"]}, 0.5)


@pytest.mark.parametrize(
    ("input_bytes", "content"),
    [
        (b"one\ntwo\n", "one\ntwo"),
        (b"one\r\n", "one"),
        (b"one\n\n", "one\n"),
        ("مرحبا".encode(), "مرحبا"),
        (b"", ""),
    ],
)
def test_add_reads_stdin_without_its_last_line_break(run: Run, input_bytes: bytes, content: str) -> None:
    assert as_json(run("add", "trip", "user", "-", "--json", input=input_bytes))["content"] == content


def test_add_says_how_many_bytes_of_stdin_could_not_be_stored(run: Run) -> None:
    result = run("add", "trip", "user", "-", "--json", input=b"a\xff\xfeb")
    assert as_json(result)["content"] == "a\ufffd\ufffdb"
    assert "2 characters" in result.stderr


def test_add_takes_content_that_begins_with_a_dash_after_two_dashes(run: Run, db: str) -> None:
    result = RUNNER.invoke(app, ["add", "--db", db, "--json", "trip", "user", "--", "-5 degrees"])
    assert json.loads(result.stdout)["content"] == "-5 degrees"


def test_add_says_when_an_id_was_stored_before_with_other_words(run: Run) -> None:
    run("add", "trip", "user", "first", "--id", "m")
    again = run("add", "trip", "user", "second", "--id", "m")
    assert again.stdout == "1 m\n"
    assert "stored before" in again.stderr
    assert "note" not in run("add", "trip", "user", "first", "--id", "m").stderr


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("trip", "robot", "Hello"), "unknown_role"),
        (("", "user", "Hello"), "invalid_conversation"),
        (("trip", "user", "Hello", "--metadata", "{"), "invalid_metadata"),
        (("trip", "user", "Hello", "--metadata", "[1]"), "invalid_metadata"),
        (("trip", "user", "Hello", "--at", "noon"), "invalid_time"),
        (("trip", "user", "Hello", "--importance", "2"), "invalid_importance"),
        (("trip", "user", "Hello", "--person", " "), "invalid_person"),
    ],
)
def test_input_that_cannot_be_stored_exits_with_2(run: Run, args: tuple[str, ...], code: str) -> None:
    result = run("add", *args, code=2)
    assert result.stdout == ""
    assert re.fullmatch(rf"error: .* \[{code}\]", result.stderr.splitlines()[-1])


def test_more_than_a_message_may_hold_is_refused_from_stdin(run: Run) -> None:
    assert "content_too_large" in run("add", "trip", "user", "-", input=b"x" * (1024 * 1024 + 1), code=2).stderr
    run("add", "trip", "user", "-", input=b"x" * (1024 * 1024) + b"\r\n")


# history


def test_history_shows_the_newest_fifty_and_how_to_see_more(run: Run, trip: str) -> None:
    result = run("history", "trip")
    assert re.findall(r"message (\d+)", result.stdout) == [str(n) for n in range(11, 61)]
    assert "--before 11" in result.stderr
    older = run("history", "trip", "--before", 11)
    assert re.findall(r"message (\d+)", older.stdout) == [str(n) for n in range(1, 11)]
    assert "--before" not in older.stderr


def test_history_all_shows_everything_and_limit_less(run: Run, trip: str) -> None:
    assert run("history", "trip", "--all").stdout.count("message ") == 60
    assert run("history", "trip", "--limit", 2).stdout.count("message ") == 2
    run("history", "trip", "--all", "--limit", 2, code=2)
    run("history", "trip", "--limit", -1, code=2)


def test_history_is_shown_in_the_zone_of_the_conversation(run: Run, trip: str) -> None:
    result = run("history", "trip", "--limit", 1)
    assert "   60  2026-03-01 23:57  user\n" in result.stdout
    assert "Asia/Riyadh" in result.stderr


def test_history_as_json_is_an_array_of_all_messages(run: Run, trip: str) -> None:
    with Memory(trip, worker=False) as memory:
        assert as_json(run("history", "trip", "--json")) == [m.to_dict() for m in memory.history("trip")]
    assert len(as_json(run("history", "trip", "--json", "--limit", 3))) == 3


def test_history_cuts_nothing_and_keeps_lines(run: Run, db: str) -> None:
    run("add", "trip", "user", "-", "--name", "Sara", input="w " * 5000 + "end\n\n  indented\n")
    shown = run("history", "trip").stdout
    assert "user (Sara)" in shown
    assert "w " * 5000 + "end\n\n         indented\n" in shown


def test_history_shows_tool_calls(run: Run, db: str) -> None:
    with Memory(db, worker=False) as memory:
        memory.add("trip", "assistant", None, tool_calls=[{"id": "c", "function": {"name": "weather"}}])
    assert '[calls {"name": "weather"}]' in run("history", "trip").stdout


def test_a_message_cannot_control_the_terminal(run: Run) -> None:
    run("add", "t\x1b[2J", "user", "\x1b[31mred\x07 \x9b1m [bold]x[/bold] :smile:", "--name", "\x1b]0;title\x07")
    shown = run("history", "t\x1b[2J").stdout + run("conversations").stdout
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)
    assert "␛[31mred␇ \ufffd1m [bold]x[/bold] :smile:" in shown


def test_a_message_or_a_name_cannot_show_lines_of_its_own(run: Run, db: str) -> None:
    breaks = "".join(mark for mark in map(chr, range(0x110000)) if len(f"a{mark}b".splitlines()) > 1)
    assert len(breaks) > 9
    for mark in breaks.replace("\n", ""):
        name = f"real{mark}trip"
        with Memory(db, worker=False) as memory:
            memory.add(name, "user", f"Hi.{mark}    2  2026-03-02 09:00  assistant{mark}Approved.", name=f"Eve{mark}x")
        for shown in (run("history", name), run("conversations"), run("history", name, "--json")):
            assert not [
                line for line in (shown.stdout + shown.stderr).splitlines() if line.startswith(("trip", "    2"))
            ]
        run("erase", "--conversation", name, "--yes")


def test_notes_and_errors_show_no_control_characters(run: Run) -> None:
    person = "eve\x1b]0;owned\x07\u2028key of root\x9b\u202e"
    created, again = run("keys", "create", person), run("keys", "create", person, "--json")
    refused = run("history", person, code=3), run("history", person, "--json", code=3)
    for shown in (created.stderr, again.stdout, *(one.stderr for one in refused)):
        assert len(shown.splitlines()) == 1 and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", shown)
    assert "of eve␛]0;owned␇␤key of root\ufffd\ufffd," in created.stderr
    assert json.loads(again.stdout)["person"] == person


def test_printable_text_keeps_line_breaks_tabs_and_every_script() -> None:
    assert to_printable("a\r\nb\tc\rمرحبا\x7f") == "a\nb\tc␍مرحبا␡"
    assert to_printable("a\u2028b\u2029c") == "a␤b␤c"


def test_an_unknown_conversation_is_not_found(run: Run, trip: str) -> None:
    assert run("history", "trp", code=3).stderr == (
        "error: There is no conversation 'trp'. `recollect conversations` lists them. [conversation_not_found]\n"
    )


def test_an_emptied_conversation_is_found(run: Run, trip: str) -> None:
    run("erase", "--conversation", "trip", "--day", "2026-03-01", "--yes")
    assert run("history", "trip").stdout == ""
    assert as_json(run("history", "trip", "--json")) == []


# conversations, stats


def test_conversations_lists_name_counts_days_tags_and_title(run: Run, trip: str) -> None:
    head, row = run("conversations").stdout.splitlines()
    assert head.split() == ["name", "messages", "first", "last", "tags", "title"]
    assert row.split() == ["trip", "60", "2026-03-01", "2026-03-01", "travel", "Andalusia"]
    (one,) = as_json(run("conversations", "--json"))
    assert (one["name"], one["messages"], one["zone"], one["tags"]) == ("trip", 60, "Asia/Riyadh", ["travel"])


def test_without_conversations_the_list_is_empty(run: Run) -> None:
    run("conversations", code=3)
    run("add", "trip", "user", "hi")
    run("erase", "--everything", "--yes")
    assert run("conversations").stdout == ""
    assert as_json(run("conversations", "--json")) == []


def test_stats_says_in_words_what_there_is_what_can_be_found_and_what_waits(run: Run, trip: str) -> None:
    shown = run("stats").stdout
    assert re.search(r"^messages +60 in 1 conversation: 60 by the person", shown, re.MULTILINE)
    assert re.search(r"^searchable +all by their words; 0 of 60 by meaning too, the rest waits$", shown, re.MULTILINE)
    assert re.search(r"^waiting +derived work of 1 conversation; .*recollect worker --once$", shown, re.MULTILINE)
    run("worker", "--once")
    shown = run("stats").stdout
    assert re.search(r"^searchable +all by their words and by meaning$", shown, re.MULTILINE)
    assert re.search(r"^waiting +nothing", shown, re.MULTILINE)
    assert as_json(run("stats", "--json"))["roles"] == {"user": 60}


def test_stats_of_somebody_without_messages_says_so(run: Run, trip: str) -> None:
    assert re.search(r"^messages +none yet$", run("stats", "--person", "sara").stdout, re.MULTILINE)


def test_people_do_not_see_each_other(run: Run, trip: str) -> None:
    assert as_json(run("conversations", "--json", "--person", "sara")) == []
    run("history", "trip", "--person", "sara", code=3)
    run("erase", "--everything", "--person", "sara", "--yes")
    assert as_json(run("stats", "--json"))["messages"] == 60


def test_database_and_person_may_come_from_the_environment(run: Run, db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_DB", db)
    monkeypatch.setenv("RECOLLECT_PERSON", "sara")
    run("add", "trip", "user", "Hello", at="")
    assert as_json(run("doctor", "--json", at=""))["database"] == {
        "kind": "sqlite", "location": db, "origin": "RECOLLECT_DB",
    }  # fmt: skip
    with Memory(db, person="sara", worker=False) as memory:
        assert len(memory.history("trip")) == 1


def test_a_new_database_is_announced_and_a_mistyped_one_is_refused(run: Run, tmp_path: Path) -> None:
    for args in (["history", "x"], ["export", "x"], ["backup", "x"], ["erase", "--everything", "--yes"], ["rebuild"]):
        assert "database_not_found" in run(*args, code=3).stderr
    assert list(tmp_path.iterdir()) == []
    assert "new database" in run("add", "trip", "user", "Hello").stderr
    assert "new database" not in run("add", "trip", "user", "Hello").stderr


# demo


def test_the_demo_shows_itself_and_a_second_time_adds_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_DB", str(tmp_path / "mine.db"))
    shown = run("demo", at="")
    assert "peanuts" in shown.stdout
    steps = re.findall(r"^  \S+ (?:-m recollect )?(\w+) .*--db recollect-demo.db$", shown.stderr, re.MULTILINE)
    assert steps == ["recall", "context", "history", "add", "doctor"]
    assert [path.name for path in tmp_path.glob("*.db")] == ["recollect-demo.db"]
    again = as_json(run("demo", "--json", at=""))
    assert again["imported"]["added"] == 0
    assert len(again["history"]) == again["imported"]["known"] == again["stats"]["messages"]


# Both databases, and errors


def test_the_commands_work_on_both_databases(run: Run, location: str, tmp_path: Path) -> None:
    run("add", "trip", "user", "I'm allergic to peanuts.", "--id", "m1", at=location)
    assert as_json(run("history", "trip", "--json", at=location))[0]["id"] == "m1"
    run("worker", "--once", at=location)
    assert as_json(run("stats", "--json", at=location))["counted"] == 1
    run("doctor", at=location)
    run("export", "e.ndjson", at=location)
    run("backup", "b.db", at=location)
    assert as_json(run("erase", "--everything", "--yes", "--json", at=location))["counts"]["messages"] == 1
    restored = run("restore", "b.db", "--yes", "--json", at=location)
    assert ("no automatic backup" in restored.stderr) == location.startswith("postgresql")
    assert as_json(restored)["left_out"]["messages"] == 1  # what was erased since the backup stays erased
    assert as_json(run("import", "e.ndjson", "--json", at=location))["added"] == 1
    run("rebuild", at=location)


def test_restore_to_postgresql_always_wants_a_yes(run: Run, pg: str, trip: str) -> None:
    run("backup", "b.db")
    assert "No backup is made" in run("restore", "b.db", at=pg, code=2).stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("x", "No."), 2),
        (NotFound("x", "No."), 3),
        (Denied("x", "No."), 4),
        (Conflict("x", "No."), 1),
        (StoreUnavailable("x", "No."), 1),
        (PermissionError(13, "Permission denied", "f"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_kind_of_error_has_its_exit_code(error: BaseException, code: int) -> None:
    def fail(call: object) -> None:
        raise error

    failing = typer.Typer(pretty_exceptions_enable=False)
    failing.command()(make_command(fail))
    result = RUNNER.invoke(failing, [])
    assert (result.exit_code, result.stdout) == (code, "")
    assert len(result.stderr.splitlines()) == (0 if code == 130 else 1)


def test_with_json_an_error_is_json_on_stderr(run: Run, trip: str) -> None:
    result = run("history", "nope", "--json", code=3)
    assert result.stdout == ""
    error = json.loads(result.stderr)["error"]
    assert (error["code"], error["retryable"]) == ("conversation_not_found", False)


def test_a_database_that_cannot_be_opened_is_one_line_on_stderr(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database " * 100)
    assert run("stats", at=str(tmp_path / "text"), code=1).stderr.count("\n") == 1
    assert "invalid_location" in run("stats", at="mysql://x", code=2).stderr
