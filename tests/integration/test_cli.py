"""The commands, called in this process: what each does, prints and answers with its exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
import typer
from typer.testing import CliRunner

from recollect import Conflict, Denied, InvalidInput, Memory, NotFound, StoreUnavailable
from recollect.cli import app
from recollect.cli.display import clean
from recollect.cli.options import command, without_password

RUNNER = CliRunner()
Run = Callable[..., Any]


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "chat.db")


@pytest.fixture
def run(db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command on the test's database, in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def run_it(*args: object, input: str | bytes | None = None, code: int = 0, at: str = db) -> Any:
        result = RUNNER.invoke(app, [*map(str, args), *(("--db", at) if at else ())], input=input)
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return run_it


def as_json(result: Any) -> Any:
    return json.loads(result.stdout)


def change(db: str, statement: str) -> None:
    """As another program would, behind the memory's back."""
    connection = apsw.Connection(db)
    connection.execute(statement)
    connection.close()


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
    ("given", "kept"),
    [
        (b"one\ntwo\n", "one\ntwo"),
        (b"one\r\n", "one"),
        (b"one\n\n", "one\n"),
        ("مرحبا".encode(), "مرحبا"),
        (b"", ""),
    ],
)
def test_add_reads_stdin_without_its_last_line_break(run: Run, given: bytes, kept: str) -> None:
    assert as_json(run("add", "trip", "user", "-", "--json", input=given))["content"] == kept


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
def test_what_cannot_be_stored_counts_as_wrong_use(run: Run, args: tuple[str, ...], code: str) -> None:
    result = run("add", *args, code=2)
    assert result.stdout == ""
    assert re.fullmatch(rf"error: .* \[{code}\]", result.stderr.splitlines()[-1])


def test_more_than_a_message_may_hold_is_refused_from_stdin(run: Run) -> None:
    assert "content_too_large" in run("add", "trip", "user", "-", input=b"x" * (1024 * 1024 + 1), code=2).stderr
    run("add", "trip", "user", "-", input=b"x" * (1024 * 1024) + b"\r\n")


# history


@pytest.fixture
def trip(db: str) -> str:
    """A database with 60 messages in one conversation, three minutes before midnight in Riyadh."""
    with Memory(db, worker=False) as memory:
        said = [{"role": "user", "content": f"message {n}", "id": f"m{n}"} for n in range(1, 61)]
        moment = datetime(2026, 3, 1, 20, 57, tzinfo=UTC)
        memory.add_many("trip", [one | {"at": moment} for one in said])
        memory.update_conversation("trip", title="Andalusia", tags=["travel"], zone="Asia/Riyadh")
    return db


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


def test_a_message_has_no_power_over_the_terminal(run: Run) -> None:
    run("add", "t\x1b[2J", "user", "\x1b[31mred\x07 \x9b1m [bold]x[/bold] :smile:", "--name", "\x1b]0;title\x07")
    shown = run("history", "t\x1b[2J").stdout + run("conversations").stdout
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)
    assert "␛[31mred␇ \ufffd1m [bold]x[/bold] :smile:" in shown


def test_clean_text_keeps_line_breaks_tabs_and_every_script() -> None:
    assert clean("a\r\nb\tc\rمرحبا\x7f") == "a\nb\tc␍مرحبا␡"


def test_an_unknown_conversation_is_not_found(run: Run, trip: str) -> None:
    assert run("history", "trp", code=3).stderr == "error: There is no conversation 'trp'. [conversation_not_found]\n"


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


def test_stats_counts_messages_and_says_what_waits(run: Run, trip: str) -> None:
    shown = run("stats").stdout
    assert re.search(r"^messages +60$", shown, re.MULTILINE)
    assert re.search(r"^conversations that wait for derived work +1$", shown, re.MULTILINE)
    assert as_json(run("stats", "--json"))["roles"] == {"user": 60}


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


# doctor


def test_a_sound_database_makes_the_doctor_content(run: Run, trip: str) -> None:
    report = as_json(run("doctor", "--json"))
    assert {finding["state"] for finding in report["findings"]} == {"ok"}
    assert (report["settings"], report["database"]["origin"]) == ([], "--db")
    assert "Every setting has its default." in run("doctor").stdout


def test_warnings_of_the_doctor_exit_with_5_and_name_the_fix(run: Run, trip: str) -> None:
    Path(trip).chmod(0o644)
    assert f"chmod 600 {trip}" in run("doctor", code=5).stdout


def test_errors_of_the_doctor_exit_with_1(run: Run, trip: str) -> None:
    run("worker", "--once")
    change(trip, "DELETE FROM entries WHERE seq = 7")
    assert "recollect rebuild --everyone" in run("doctor", code=1).stdout
    run("rebuild", "--everyone")
    run("doctor")


def test_the_doctor_shows_changed_settings_with_their_origin(
    run: Run, trip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_API_KEY", "sk-secret")
    (tmp_path / "recollect.toml").write_text("rag_token_budget = 700\n")
    run("settings", "rag_hybrid=false")
    found = {row["name"]: (row["value"], row["origin"]) for row in as_json(run("doctor", "--json"))["settings"]}
    assert found == {
        "rag_hybrid": (False, "stored"),
        "rag_token_budget": (700, "file"),
        "api_key": ("(hidden)", "environment"),
    }
    for args in (["doctor"], ["settings"], ["settings", "--json"]):
        assert "sk-secret" not in run(*args).stdout


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("chat.db", "chat.db"),
        ("postgresql://u:p@ss/w@host/db", "postgresql://u:…@host/db"),
        ("postgresql://?user=u&password=secret&host=h", "postgresql://?user=u&password=…&host=h"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
    ],
)
def test_a_password_is_never_shown(location: str, shown: str) -> None:
    assert without_password(location) == shown


# settings


def test_a_setting_can_be_changed_shown_and_taken_back(run: Run) -> None:
    assert len(as_json(run("settings", "--json"))) > 20
    (row,) = as_json(run("settings", "rag_token_budget=1500", "--json"))
    assert (row["value"], row["origin"]) == (1500, "stored")
    assert run("settings", "rag_token_budget").stdout.splitlines()[1].split()[:3] == [
        "rag_token_budget", "1500", "stored",
    ]  # fmt: skip
    (row,) = as_json(run("settings", "--unset", "rag_token_budget", "--json"))
    assert (row["value"], row["origin"]) == (1000, "default")


@pytest.mark.parametrize("change", ["nonsense=1", "nonsense", "rag_token_budget=many", "api_key=x"])
def test_a_wrong_setting_is_refused(run: Run, change: str) -> None:
    run("settings", change, code=2)


# worker, rebuild


def test_worker_once_does_what_is_missing_and_says_what(run: Run, trip: str) -> None:
    assert as_json(run("worker", "--once", "--json"))["counts"]["tokens"] == 60
    assert "nothing was missing" in run("worker", "--once").stdout


def test_rebuild_makes_derived_rows_anew(run: Run, trip: str) -> None:
    run("worker", "--once")
    for args in ([], ["--conversation", "trip"], ["--everyone"]):
        counts = as_json(run("rebuild", "--json", *args))["counts"]
        assert (counts["words"], counts["tokens"]) == (60, 60)
    run("rebuild", "--conversation", "nope", code=3)
    run("rebuild", "--conversation", "trip", "--everyone", code=2)


def test_work_that_another_process_holds_exits_with_5(
    run: Run, trip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_WORKER_LEASE_SECONDS", "0.2")  # how long it is waited for
    export = tmp_path / "e.ndjson"
    run("export", export)
    change(trip, "INSERT INTO leases SELECT 'worked:' || key, 'other', 1 << 60 FROM conversations")
    for args in (["worker", "--once"], ["rebuild"], ["import", export]):
        assert "warning: some work is left" in run(*args, code=5).stderr
    run("import", export, "--no-work")


# backup, restore


def test_a_backup_can_be_restored_and_what_was_there_is_saved_first(run: Run, trip: str, tmp_path: Path) -> None:
    backup = tmp_path / "b.backup"
    assert as_json(run("backup", backup, "--json"))["bytes"] == backup.stat().st_size
    run("add", "trip", "user", "later")
    result = run("restore", backup, "--yes", "--json")
    assert as_json(run("stats", "--json"))["messages"] == 60
    (saved,) = tmp_path.glob("chat.db.before-restore-*Z.backup")
    assert as_json(result)["saved"] == str(saved)
    assert str(saved) in result.stderr
    assert as_json(run("stats", "--json", at=str(saved)))["messages"] == 61
    erased = run("erase", "--everything", "--yes")
    assert saved.name in erased.stdout  # a receipt names the copy


def test_a_backup_never_overwrites(run: Run, trip: str, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    assert "backup_exists" in run("backup", tmp_path / "b", code=1).stderr
    assert (tmp_path / "b").read_text() == "mine"
    run("backup", tmp_path / "nowhere" / "b", code=2)


def test_restoring_to_a_new_database_saves_nothing(run: Run, trip: str, tmp_path: Path) -> None:
    run("backup", "b")
    run("restore", "b", "--yes", at=str(tmp_path / "new.db"))
    assert as_json(run("stats", "--json", at=str(tmp_path / "new.db")))["messages"] == 60
    assert not list(tmp_path.glob("*before-restore*"))


def test_restore_wants_a_yes_and_a_file_that_is_there(run: Run, trip: str, tmp_path: Path) -> None:
    run("backup", "b")
    assert "not_confirmed" in run("restore", "b", code=2).stderr
    run("restore", "nope", "--yes", code=2)
    (tmp_path / "other").write_text("not a database " * 100)
    assert "error: " in run("restore", "other", "--yes", code=1).stderr
    assert as_json(run("stats", "--json"))["messages"] == 60


# export, import


def test_an_export_imports_elsewhere_and_a_second_time_adds_nothing(run: Run, trip: str, tmp_path: Path) -> None:
    assert as_json(run("export", "e.ndjson", "--json"))["messages"] == 60
    other = str(tmp_path / "other.db")
    first = as_json(run("import", "e.ndjson", "--json", at=other))
    assert (first["conversations"], first["messages"], first["added"], first["known"]) == (1, 60, 60, 0)
    shown = run("import", "e.ndjson", at=other).stdout
    assert re.search(r"^new +0$", shown, re.MULTILINE)
    assert re.search(r"^known before +60$", shown, re.MULTILINE)
    assert as_json(run("stats", "--json", at=other))["counted"] == 60  # derived work is done


def test_an_export_replaces_only_an_earlier_export(run: Run, trip: str, tmp_path: Path) -> None:
    run("export", "e.ndjson")
    run("export", "e.ndjson")
    before = Path(trip).read_bytes()
    assert "file_exists" in run("export", trip, code=1).stderr
    assert Path(trip).read_bytes() == before
    run("export", tmp_path / "nowhere" / "e", code=2)


def test_a_dry_run_counts_and_leaves_nothing_behind(run: Run, trip: str, tmp_path: Path) -> None:
    run("export", "e.ndjson")
    other = tmp_path / "other.db"
    assert re.search(r"^would be new +60$", run("import", "e.ndjson", "--dry-run", at=str(other)).stdout, re.MULTILINE)
    assert not other.exists()
    assert as_json(run("import", "e.ndjson", "--dry-run", "--json"))["known"] == 60


def test_import_reads_stdin(run: Run) -> None:
    line = json.dumps({"messages": [{"role": "user", "content": "Hello"}]})
    assert as_json(run("import", "-", "--json", input=line))["added"] == 1


def test_what_an_import_skips_is_named_on_stderr(run: Run, tmp_path: Path) -> None:
    good = json.dumps({"messages": [{"role": "user", "content": "Hello"}]})
    (tmp_path / "mixed.jsonl").write_text("\n".join([good, *["{broken"] * 7]))
    result = run("import", "mixed.jsonl", code=5)
    assert re.search(r"^skipped +7$", result.stdout, re.MULTILINE)
    assert result.stderr.count("skipped: ") == 6  # five reasons, and that there are others
    assert len(as_json(run("import", "mixed.jsonl", "--json", code=5))["skipped"]) == 7


def test_a_file_of_no_known_format_is_wrong_use(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("hello")
    assert "unknown_format" in run("import", "x.txt", code=2).stderr
    assert "unknown_format" in run("import", "x.txt", "--format", "nope", code=2).stderr
    assert "file_not_found" in run("import", "nope", code=2).stderr


# erase


def test_erase_shows_first_what_would_go(run: Run, trip: str) -> None:
    for args, counts in (
        (["--conversation", "trip"], (1, 60)),
        (["--message", "m7"], (1, 1)),
        (["--conversation", "trip", "--day", "2026-03-01"], (1, 60)),
        (["--day", "2026-03-02"], (0, 0)),
        (["--everything"], (1, 60)),
    ):
        shown = as_json(run("erase", *args, "--dry-run", "--json"))
        assert (shown["counts"]["conversations"], shown["counts"]["messages"]) == counts
    assert "messages that would go" in run("erase", "--everything", "--dry-run").stdout
    assert as_json(run("stats", "--json"))["messages"] == 60


def test_erase_prints_its_receipt(run: Run, trip: str) -> None:
    shown = run("erase", "--conversation", "trip", "--message", "m7", "--yes").stdout
    assert re.search(r"^erased messages +1$", shown, re.MULTILINE)
    assert re.search(r"^pieces found in them +0$", shown, re.MULTILINE)
    receipt = as_json(run("erase", "--everything", "--yes", "--json"))
    assert (receipt["counts"]["messages"], receipt["pending"]) == (59, False)
    assert as_json(run("stats", "--json"))["messages"] == 0


@pytest.mark.parametrize("dry", [["--dry-run"], ["--yes"]])
def test_erasing_what_is_not_there_is_not_found(run: Run, trip: str, dry: list[str]) -> None:
    run("erase", "--conversation", "nope", *dry, code=3)
    run("erase", "--message", "nope", *dry, code=3)


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--everything", "--conversation", "trip"],
        ["--message", "m1", "--day", "2026-03-01"],
        ["--day", "yesterday"],
    ],
)
def test_erase_wants_exactly_one_thing(run: Run, trip: str, args: list[str]) -> None:
    run("erase", *args, "--yes", code=2)
    assert as_json(run("stats", "--json"))["messages"] == 60


def test_erase_without_a_yes_and_a_terminal_changes_nothing(run: Run, trip: str) -> None:
    assert "--yes" in run("erase", "--everything", code=2).stderr
    assert as_json(run("stats", "--json"))["messages"] == 60


def test_an_erase_that_another_process_holds_up_exits_with_5(run: Run, trip: str) -> None:
    reader = apsw.Connection(trip)
    try:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchone()
        result = run("erase", "--everything", "--yes", "--json", code=5)
    finally:
        reader.close()
    assert as_json(result)["pending"] is True
    assert as_json(run("worker", "--once", "--json"))["counts"]["erasures"] == 1


# demo


def test_the_demo_shows_itself_and_a_second_time_adds_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_DB", str(tmp_path / "mine.db"))
    shown = run("demo", at="")
    assert "peanuts" in shown.stdout
    steps = re.findall(r"^  \S+ (\w+) .*--db recollect-demo.db$", shown.stderr, re.MULTILINE)
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
    assert as_json(run("import", "e.ndjson", "--json", at=location))["known"] == 1
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
    failing.command()(command(fail))
    result = RUNNER.invoke(failing, [])
    assert (result.exit_code, result.stdout) == (code, "")
    assert len(result.stderr.splitlines()) == (0 if code == 130 else 1)


def test_with_json_an_error_is_json_on_stderr(run: Run, trip: str) -> None:
    result = run("history", "nope", "--json", code=3)
    assert result.stdout == ""
    error = json.loads(result.stderr)["error"]
    assert (error["code"], error["retryable"]) == ("conversation_not_found", False)


def test_a_database_that_cannot_be_opened_is_told_in_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database " * 100)
    assert run("stats", at=str(tmp_path / "text"), code=1).stderr.count("\n") == 1
    assert "invalid_location" in run("stats", at="mysql://x", code=2).stderr
