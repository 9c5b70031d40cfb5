"""The commands that look after a database, called in this process."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect import Memory
from recollect.cli.options import hide_password
from recollect.testing import FakeEmbedder

Run = Callable[..., Any]


def as_json(result: Any) -> Any:
    return json.loads(result.stdout)


def change(db: str, statement: str) -> None:
    """Change the database as another program would, without the memory."""
    connection = apsw.Connection(db)
    connection.execute(statement)
    connection.close()


# doctor


def test_the_doctor_finds_nothing_in_a_sound_database(run: Run, trip: str) -> None:
    report = as_json(run("doctor", "--json"))
    assert {finding["state"] for finding in report["findings"]} == {"ok"}
    assert (report["settings"], report["database"]["origin"]) == ([], "--db")
    assert "Every setting has its default." in run("doctor").stdout


def test_warnings_of_the_doctor_exit_with_5_and_name_the_fix(run: Run, trip: str) -> None:
    Path(trip).chmod(0o644)
    assert f"chmod 600 {trip}" in run("doctor", code=5).stdout


@pytest.mark.parametrize("command", ["doctor", "stats", "conversations"])
@pytest.mark.parametrize("statement", ["", "PRAGMA user_version = 0; PRAGMA journal_mode = WAL"])
def test_an_empty_file_is_no_database_and_stays_as_it_is(run: Run, db: str, command: str, statement: str) -> None:
    Path(db).touch()
    if statement:
        change(db, statement)
    before = Path(db).read_bytes()
    shown = run(command, code=3)
    assert "database_empty" in shown.stderr
    assert shown.stdout == ""
    assert Path(db).read_bytes() == before
    assert [path for path in Path(db).parent.iterdir() if path.stat().st_size] == ([Path(db)] if before else [])


def test_a_postgresql_schema_without_tables_is_no_database_and_stays_empty(run: Run, empty_pg: str) -> None:
    assert "database_empty" in run("doctor", code=3, at=empty_pg).stderr
    with psycopg.connect(empty_pg) as connection:
        tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema"
        assert connection.execute(tables).fetchone() == (0,)


def test_the_doctor_leaves_a_write_ahead_log_that_another_process_uses(run: Run, trip: str) -> None:
    with Memory(trip, worker=False) as memory:
        memory.add("trip", "user", "one more")
        run("doctor", "--json")
        memory.add("trip", "user", "and another")
    with Memory(trip, worker=False) as memory:
        assert len(memory.history("trip")) == 62


def test_the_doctor_names_what_settings_file_and_environment_say_without_effect(
    run: Run, trip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recollect.toml").write_text('server_origins = "https://evil.example"\nmax_topics = 5\n')
    monkeypatch.setenv("RECOLLECT_SERVER_ORIGIN", "https://my.example")
    shown = run("doctor", "--json", code=5)
    findings = {finding["name"]: finding for finding in as_json(shown)["findings"]}
    assert "server_origins" in findings["settings file"]["detail"]
    assert "RECOLLECT_SETTINGS=recollect.toml" in findings["settings file"]["fix"]
    assert "RECOLLECT_SERVER_ORIGINS" in findings["environment"]["fix"]
    warnings = [json.loads(line)["warning"] for line in shown.stderr.splitlines()]
    assert [warning["name"] for warning in warnings] == ["settings file", "environment"]


@pytest.mark.parametrize("command", [("settings",), ("stats",), ("keys",), ("worker", "--once")])
def test_every_command_says_what_settings_file_and_environment_say_without_effect(
    run: Run, trip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    (tmp_path / "recollect.toml").write_text('server_origins = "https://evil.example"\nserver_hosts = "evil.example"\n')
    monkeypatch.setenv("RECOLLECT_MODEL_ULR", "x")
    warnings = [line for line in run(*command).stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 2
    assert "server_hosts, server_origins" in warnings[0]
    assert "RECOLLECT_MODEL_ULR (did you mean RECOLLECT_MODEL_URL?)" in warnings[1]
    assert "evil.example" not in "".join(warnings)


# keys


def test_keys_are_asked_for_until_the_operator_says_otherwise(run: Run, trip: str) -> None:
    made = as_json(run("keys", "create", "sara", "--json"))
    assert "keys_in_use" in run("keys", "allow-keyless", "--yes", code=1).stderr
    run("keys", "revoke", made["id"])
    assert "not_confirmed" in run("keys", "allow-keyless", code=2).stderr
    (finding,) = [one for one in as_json(run("doctor", "--json", code=5))["findings"] if one["name"] == "keys"]
    assert (finding["state"], "allow-keyless" in finding["fix"]) == ("warning", True)
    run("keys", "allow-keyless", "--yes")
    assert not [one for one in as_json(run("doctor", "--json"))["findings"] if one["name"] == "keys"]
    assert as_json(run("audit", "--json"))[0]["action"] == "keyless_allowed"


def test_errors_of_the_doctor_exit_with_1(run: Run, trip: str) -> None:
    run("worker", "--once")
    change(trip, "DELETE FROM entries WHERE seq = 7")
    assert "recollect rebuild --everyone" in run("doctor", code=1).stdout
    run("rebuild", "--everyone")
    run("doctor")


def test_the_doctor_counts_one_as_one_and_names_a_code_once(
    run: Run, trip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "1 conversation waits for derived work" in run("doctor").stdout
    monkeypatch.setenv("RECOLLECT_EMBEDDER_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("RECOLLECT_EMBEDDER_NAME", "nobody")
    monkeypatch.setenv("RECOLLECT_PROVIDER_RETRIES", "0")
    (finding,) = [each for each in as_json(run("doctor", "--json", code=5))["findings"] if each["name"] == "embedder"]
    assert finding["detail"].count("[") == 1


def test_the_doctor_shows_changed_settings_with_their_origin(
    run: Run, trip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_API_KEY", "sk-secret")
    monkeypatch.setenv("RECOLLECT_EMBEDDER_API_KEY", "sk-secret-too")
    (tmp_path / "recollect.toml").write_text("rag_token_budget = 700\n")
    run("settings", "rag_hybrid=false")
    found = {row["name"]: (row["value"], row["origin"]) for row in as_json(run("doctor", "--json"))["settings"]}
    assert found == {
        "rag_hybrid": (False, "stored"),
        "rag_token_budget": (700, "file"),
        "api_key": ("(hidden)", "environment"),
        "embedder_api_key": ("(hidden)", "environment"),
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
    assert hide_password(location) == shown


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
    monkeypatch.setenv("RECOLLECT_WORKER_LEASE_SECONDS", "0.2")  # the command waits this long for a lease
    export = tmp_path / "e.ndjson"
    run("export", export)
    change(trip, "INSERT INTO leases SELECT 'index:' || key, 'other', 1 << 60 FROM conversations")
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


def test_restore_needs_a_yes_and_an_existing_file(run: Run, trip: str, tmp_path: Path) -> None:
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
    assert re.search(r"^stored before +60$", shown, re.MULTILINE)
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


def test_a_dry_run_counts_what_an_erase_would_take(run: Run, trip: str) -> None:
    for args, counts in (
        (["--conversation", "trip"], (1, 60)),
        (["--message", "m7"], (0, 1)),
        (["--conversation", "trip", "--day", "2026-03-01"], (0, 60)),
        (["--day", "2026-03-02"], (0, 0)),
        (["--everything"], (1, 60)),
    ):
        shown = as_json(run("erase", *args, "--dry-run", "--json"))
        assert (shown["counts"]["conversations"], shown["counts"]["messages"]) == counts
    assert "messages that would be erased" in run("erase", "--everything", "--dry-run").stdout
    assert as_json(run("stats", "--json"))["messages"] == 60


DAYS = ("2026-03-01", "2026-03-02")
LOGS = st.lists(st.lists(st.sampled_from(DAYS), min_size=1, max_size=4), min_size=1, max_size=3)


@pytest.mark.slow
@given(logs=LOGS, kind=st.sampled_from(["message", "day", "topic", "conversation", "person"]), data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_dry_run_counts_as_the_receipt_does(
    run: Run, tmp_path_factory: pytest.TempPathFactory, logs: list[list[str]], kind: str, data: st.DataObject
) -> None:
    db = str(tmp_path_factory.mktemp("erase") / "chat.db")
    with Memory(db, worker=False, embedder=FakeEmbedder()) as memory:
        for c, days in enumerate(logs):
            for n, day in enumerate(days):
                memory.add(f"c{c}", "user", f"Tea number {n} of log {c}.", id=f"m{c}-{n}", at=f"{day}T12:00:00Z")
        memory.drain()
        topics = [topic.id for c in range(len(logs)) for topic in memory.topics(f"c{c}")]
    chosen = data.draw(st.integers(0, len(logs) - 1))
    args = {
        "message": ["--message", f"m{chosen}-0"],
        "day": ["--day", data.draw(st.sampled_from(DAYS)), *data.draw(st.sampled_from([[], ["--conversation", "c0"]]))],
        "topic": ["--topic", data.draw(st.sampled_from(topics))],
        "conversation": ["--conversation", f"c{chosen}"],
        "person": ["--everything"],
    }[kind]
    announced = as_json(run("erase", *args, "--dry-run", "--json", at=db))["counts"]
    counts = as_json(run("erase", *args, "--yes", "--json", at=db))["counts"]
    assert announced.keys() == {"conversations", "messages"}
    assert announced == {name: counts[name] for name in announced}


def test_a_dry_run_refuses_an_id_that_two_conversations_have_as_the_erase_does(run: Run, trip: str) -> None:
    run("add", "other", "user", "hello", "--id", "m7")
    for way in ("--dry-run", "--yes"):
        assert "ambiguous_message" in run("erase", "--message", "m7", way, code=2).stderr


def test_erase_prints_its_receipt(run: Run, trip: str) -> None:
    shown = run("erase", "--conversation", "trip", "--message", "m7", "--yes").stdout
    assert re.search(r"^erased messages +1$", shown, re.MULTILINE)
    assert re.search(r"^remains found in them +0$", shown, re.MULTILINE)
    receipt = as_json(run("erase", "--everything", "--yes", "--json"))
    assert (receipt["counts"]["messages"], receipt["pending"]) == (59, False)
    assert as_json(run("stats", "--json"))["messages"] == 0


def test_erase_names_each_copy_elsewhere_in_lines_of_its_own(run: Run, trip: str) -> None:
    for number in range(2):
        run("backup", f"{trip}.{number}.backup")
    shown = run("erase", "--everything", "--yes").stdout
    assert "␊" not in shown
    assert "copies elsewhere" in shown and ".0.backup" in shown and ".1.backup" in shown
    assert not any(".0.backup" in line and ".1.backup" in line for line in shown.splitlines())


@pytest.mark.parametrize("dry", [["--dry-run"], ["--yes"]])
def test_erasing_a_missing_conversation_or_message_exits_with_3(run: Run, trip: str, dry: list[str]) -> None:
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
def test_erase_needs_exactly_one_scope(run: Run, trip: str, args: list[str]) -> None:
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
