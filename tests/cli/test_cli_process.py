"""The command line as a real process: pipes, terminals, signals, and the page that documents it."""

from __future__ import annotations

import json
import os
import pty
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from recollect import Memory
from recollect.cli import app

pytestmark = pytest.mark.kill

PROGRAM = [sys.executable, "-W", "error", "-m", "recollect"]
DOCS = Path(__file__).parents[2] / "docs"


def run(folder: Path, *args: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PROGRAM, *args], cwd=folder, capture_output=True, timeout=300, **options)


def start(folder: Path, *args: str, **streams: Any) -> subprocess.Popen[bytes]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0}
    # A background job of a shell ignores SIGINT, and its children would too.
    signals = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    return subprocess.Popen([*PROGRAM, *args], cwd=folder, **(pipes | signals | streams))


def make_trip(folder: Path, words: int) -> Path:
    """Store 2,000 messages in recollect.db of a folder. Return the file."""
    with Memory(folder / "recollect.db", worker=False) as memory:
        memory.add_many("trip", [{"role": "user", "content": f"{n} " + "word " * words} for n in range(2000)])
    return folder / "recollect.db"


@pytest.fixture(scope="module")
def long_trip_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database that no test changes, with more text than a pipe holds."""
    return make_trip(tmp_path_factory.mktemp("trip"), words=100)


@pytest.fixture
def long_trip(long_trip_file: Path, tmp_path: Path) -> Path:
    """Return a folder whose recollect.db has more text than a pipe holds."""
    shutil.copy(long_trip_file, tmp_path)
    return tmp_path


def test_data_goes_to_stdout_and_notes_to_stderr(tmp_path: Path) -> None:
    first = run(tmp_path, "add", "trip", "user", "-", "--json", input="مرحبا\n".encode())
    assert first.returncode == 0
    assert json.loads(first.stdout)["content"] == "مرحبا"
    assert "مرحبا".encode() in first.stdout
    assert first.stderr == b"new database: recollect.db\n"
    missing = run(tmp_path, "history", "nope")
    assert (missing.returncode, missing.stdout) == (3, b"")
    assert missing.stderr == (
        b"error: There is no conversation 'nope'. `recollect conversations` lists them. [conversation_not_found]\n"
    )


def test_text_is_utf8_whatever_the_locale(tmp_path: Path) -> None:
    env = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    run(tmp_path, "add", "trip", "user", "-", input="مرحبا".encode(), env=env)
    assert "مرحبا".encode() in run(tmp_path, "history", "trip", env=env).stdout


def test_wrong_use_exits_with_2(tmp_path: Path) -> None:
    for args in ((), ("nonsense",), ("history",), ("history", "trip", "--limit", "x"), ("add", "trip", "user")):
        assert run(tmp_path, *args).returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_printed(tmp_path: Path) -> None:
    assert re.fullmatch(rb"recollect \d+\.\d+.*\n", run(tmp_path, "--version").stdout)


@pytest.mark.parametrize("args", [("history", "trip", "--all"), ("history", "trip", "--json"), ("export", "-")])
def test_a_pipe_that_is_closed_early_ends_the_command_quietly(long_trip: Path, args: tuple[str, ...]) -> None:
    process = start(long_trip, *args)
    assert process.stdout is not None
    assert process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(300) == 0
    assert "Error" not in said
    assert "Traceback" not in said


def test_an_export_to_stdout_is_the_file_itself(long_trip: Path) -> None:
    piped = run(long_trip, "export", "-")
    run(long_trip, "export", "e.ndjson")
    assert piped.stdout == (long_trip / "e.ndjson").read_bytes()
    assert piped.stderr == b"2,000 messages\n"
    imported = run(long_trip, "import", "-", "--no-work", "--json", "--db", "other.db", input=piped.stdout)
    assert json.loads(imported.stdout)["added"] == 2000


def test_piped_text_has_no_colour_no_wrapping_and_no_trailing_blanks(long_trip: Path) -> None:
    history = run(long_trip, "history", "trip").stdout.decode()
    assert "\x1b" not in history
    assert max(map(len, history.splitlines())) > 500
    for name in ("conversations", "stats", "doctor", "settings"):
        shown = run(long_trip, name).stdout.decode()
        assert "\x1b" not in shown
        assert not re.search(r" $", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "SIGINT")], ids=["SIGTERM", "SIGINT"]
)
def test_the_worker_does_what_is_missing_and_ends_when_told(tmp_path: Path, number: int, name: str) -> None:
    db = make_trip(tmp_path, words=5)  # it counts the words of every message, and embeds some
    process = start(tmp_path, "worker", "--json")
    assert process.stderr is not None
    assert b"Working on recollect.db" in process.stderr.readline()
    with Memory(db, worker=False) as memory:
        deadline = time.monotonic() + 600
        while memory.stats()["counted"] < 2000 and time.monotonic() < deadline:
            time.sleep(0.05)
        counted = memory.stats()["counted"]
    process.send_signal(number)
    out, said = process.communicate(timeout=300)
    assert counted == 2000
    assert (process.returncode, json.loads(out), said) == (0, {"stopped": name}, b"")


def test_a_program_that_forgets_to_close_ends_quietly(tmp_path: Path) -> None:
    program = """if True:
        import time
        from recollect import Memory
        memory = Memory("recollect.db")
        memory.add_many("c", [{"role": "user", "content": f"cheese {n} " * 40} for n in range(300)])
        deadline = time.monotonic() + 40
        while not memory.stats()["embedded"] and time.monotonic() < deadline:
            time.sleep(0.05)  # until it is in the midst of embedding
        print("done")
    """
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, timeout=300
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"done\n", b"")


def test_ctrl_c_ends_a_command_quietly(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "endless")
    writer = os.open(tmp_path / "endless", os.O_RDWR)
    stdin = os.open(tmp_path / "endless", os.O_RDONLY)
    try:
        process = start(tmp_path, "add", "trip", "user", "-", stdin=stdin)
        os.write(writer, b"never ends")
        wait_until_reading(process, tmp_path)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=300)
    finally:
        os.close(writer)
        os.close(stdin)
    assert (process.returncode, out, said) == (130, b"", b"")


def wait_until_reading(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until the process has read its stdin and waits for more, so that the signal interrupts a read.

    Between two reads Python does not handle signals: one that comes then is handled only when the next read ends.
    """
    probe = os.open(folder / "endless", os.O_RDONLY | os.O_NONBLOCK)
    try:
        deadline, quiet = time.monotonic() + 30, 0
        while time.monotonic() < deadline and quiet < 20:
            assert process.poll() is None
            quiet = 0 if unread(probe) or not is_asleep(process) else quiet + 1
            time.sleep(0.01)
    finally:
        os.close(probe)


def is_asleep(process: subprocess.Popen[bytes]) -> bool:
    state = Path(f"/proc/{process.pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "S"


def unread(descriptor: int) -> int:
    import fcntl
    import struct
    import termios

    return int(struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))[0])


# On a terminal


def on_terminal(folder: Path, *args: str, answer: bytes = b"") -> tuple[int, str]:
    """Run a command on a terminal of 60 columns. Return its exit code and all that it printed."""
    ours, theirs = pty.openpty()
    env = os.environ | {"COLUMNS": "60", "TERM": "xterm"}
    process = start(folder, *args, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    if answer:
        os.write(ours, answer)
    shown = b""
    try:
        while block := os.read(ours, 65536):
            shown += block
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    return process.wait(300), shown.decode().replace("\r\n", "\n")


def uncoloured(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_on_a_terminal_text_is_wrapped_and_coloured_but_never_cut(long_trip: Path) -> None:
    code, shown = on_terminal(long_trip, "history", "trip", "--limit", "2")
    lines = uncoloured(shown).splitlines()[2:]  # below what stderr says
    assert code == 0
    assert uncoloured(shown) != shown
    assert max(map(len, lines)) <= 60
    assert "".join(lines).count("word") == 200


def test_a_question_is_asked_before_what_cannot_be_undone(long_trip: Path) -> None:
    code, shown = on_terminal(long_trip, "erase", "--everything", answer=b"n\n")
    assert code == 1
    assert "Erase 2,000 messages of 1 conversation of 'local', for good?" in shown
    assert "Nothing was changed." in shown
    run(long_trip, "backup", "b.db")
    code, shown = on_terminal(long_trip, "erase", "--everything", answer=b"y\n")
    assert code == 0
    assert re.search(r"erased messages +2,000", uncoloured(shown))
    code, shown = on_terminal(long_trip, "restore", "b.db", answer=b"y\n")
    assert code == 0
    assert "Replace everything in recollect.db by b.db?" in shown


def test_an_import_shows_its_progress_on_a_terminal(long_trip: Path) -> None:
    run(long_trip, "export", "e.ndjson")
    code, shown = on_terminal(long_trip, "import", "e.ndjson", "--no-work", "--db", "other.db")
    assert code == 0
    assert "Importing" in shown
    assert re.search(r"new +2,000", uncoloured(shown))


def test_an_export_shows_no_control_characters_on_a_terminal_and_keeps_its_bytes_in_a_pipe(tmp_path: Path) -> None:
    text = "c1 \x9b31m del \x7f rtl \u202e line \u2028 esc \x1b[2J"
    with Memory(str(tmp_path / "recollect.db"), worker=False) as memory:
        memory.add("trip", "user", text)
        memory.export(tmp_path / "e.ndjson")
    assert run(tmp_path, "export", "-").stdout == (tmp_path / "e.ndjson").read_bytes()
    code, shown = on_terminal(tmp_path, "export", "-")
    assert code == 0 and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", shown)
    lines = [json.loads(line) for line in shown.split("\n") if line.startswith("{")]
    assert lines[-1]["content"] == text


# The page


def commands() -> list[str]:
    return [str(one.name) for one in app.registered_commands]


def test_every_command_has_its_section_in_the_docs() -> None:
    page = (DOCS / "cli.md").read_text("utf-8")
    assert re.findall(r"^## recollect (\w+)$", page, re.MULTILINE) == re.findall(
        r"^<!-- help (\w+) -->$", page, re.MULTILINE
    )
    assert sorted(re.findall(r"^## recollect (\w+)$", page, re.MULTILINE)) == sorted(commands())


def test_the_help_in_the_docs_is_what_the_commands_print() -> None:
    page = (DOCS / "cli.md").read_text("utf-8")
    assert runpy.run_path(str(DOCS / "generate_cli.py"))["replace_help"](page) == page, "run `make docs`"


def test_help_in_a_pipe_is_what_the_docs_show(tmp_path: Path) -> None:
    shown = run(tmp_path, "history", "--help", env=os.environ | {"COLUMNS": "82"}).stdout.decode()
    assert shown in (DOCS / "cli.md").read_text("utf-8")


def test_every_command_takes_the_common_options_and_explains_itself() -> None:
    page = (DOCS / "cli.md").read_text("utf-8")
    for command in commands():
        (shown,) = re.findall(rf"<!-- help {command} -->\n(.*?)<!-- end -->", page, re.DOTALL)
        for option in ("--db", "--person", "--department", "--ministry", "--json"):
            assert f"  {option} " in shown
