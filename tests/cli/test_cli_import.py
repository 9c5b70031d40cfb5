"""What `recollect import` says of a file: what it took, what it left out and why, and what can be found already."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect import Memory
from recollect.cli.catch_up import ProgressNotes, render_duration
from support.fault_server import Fault, FaultServer

Run = Callable[..., Any]
PROGRAM = [sys.executable, "-W", "error", "-m", "recollect"]


def node(key: str, parent: str | None, role: str, kind: str = "text", text: str = "", **message: Any) -> Any:
    content = {"content_type": kind, "parts": [text]} if kind == "text" else {"content_type": kind, "content": text}
    body = {"id": key, "author": {"role": role}, "content": content, "recipient": "all", **message}
    return {"id": key, "parent": parent, "children": [], "message": body}


CHATGPT = [
    {
        "id": "one", "title": "Tea", "current_node": "a",
        "mapping": {each["id"]: each for each in (
            node("s", None, "system", text="Be brief.", metadata={"is_visually_hidden_from_conversation": True}),
            node("q", "s", "user", text="Which tea keeps?"),
            node("r", "q", "assistant", "reasoning_recap", "Thought for 4 seconds"),
            node("c", "r", "assistant", text="search('tea')", recipient="web"),
            node("t", "c", "tool", text="2 years"),
            node("a", "t", "assistant", text="Black tea."),
        )},
    },
    {"id": "two", "title": "Empty", "mapping": {}, "current_node": None},
]  # fmt: skip


def write_export(folder: Path) -> Path:
    (folder / "export").mkdir()
    (folder / "export/conversations.json").write_text(json.dumps(CHATGPT))
    (folder / "export/memories.json").write_text('[{"conversations_memory": "Likes tea"}]')
    return folder / "export"


@pytest.mark.usefixtures("quick_vectors")
@pytest.mark.parametrize("form", ["folder", "zip", "file"])
def test_what_nobody_said_is_left_out_and_named_and_is_no_error(form: str, run: Run, db: str, tmp_path: Path) -> None:
    source = write_export(tmp_path)
    if form == "file":
        source /= "conversations.json"
    if form == "zip":
        with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
            for file in source.iterdir():
                archive.write(file, file.name)
        source = tmp_path / "export.zip"
    told = run("import", source)
    expected = [
        "not imported: hidden instructions", "not imported: thoughts of a model",
        "not imported: tool calls and tool results: 2", "not imported: empty conversations",
        *(["not imported: memories.json (what Claude noted about you)"] if form != "file" else []),
    ]  # fmt: skip
    assert [line for line in told.stderr.splitlines() if line.startswith(("not", "skip"))] == expected
    with Memory(db, worker=False) as memory:
        assert [message.content for message in memory.history("chatgpt-one")] == ["Which tea keeps?", "Black tea."]
    again = json.loads(run("import", source, "--json").stdout)
    assert (again["added"], again["known"], again["skipped_count"]) == (0, 2, 0)
    assert again["left_out"]["tool calls and tool results"] == 2
    assert again["searchable"] == {"by_words": 2, "by_meaning": 2}


def test_python_reports_the_same(tmp_path: Path) -> None:
    with Memory(":memory:", worker=False) as memory:
        report = memory.import_file(write_export(tmp_path))
    assert (report.format, report.added, report.skipped) == ("chatgpt", 2, ())
    assert report.left_out == {
        "hidden instructions": 1, "thoughts of a model": 1, "tool calls and tool results": 2, "empty conversations": 1,
        "memories.json (what Claude noted about you)": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("program.py", b'import json\n\nCHAT = [\n    {"messages": [{"role": "user"}]},\n]\n', "it is not JSON"),
        ("empty.json", b"", "program is empty"),
        ("tool.bin", b"\x7fELF\0\0", "it is a binary file"),
        ("memories.json", b'[{"conversations_memory": "Likes tea"}]', "Import conversations.json of the same export"),
    ],
)
def test_a_file_that_is_no_export_is_refused_in_words(
    name: str, data: bytes, words: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    told = run("import", name, code=2)
    assert words.replace("program is", f"{name} is") in told.stderr and "[unknown_format]" in told.stderr
    assert told.stderr.count("\n") <= 2


def test_a_folder_without_an_export_is_refused_in_words(run: Run, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.py").write_text("print('hello')")
    assert "src is a folder without a conversations.json" in run("import", "src", code=2).stderr
    assert "There is no file nowhere" in run("import", "nowhere", code=2).stderr
    assert "/dev/null is not a file" in run("import", "/dev/null", code=2).stderr


# Many messages


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Return a file with more messages than a command embeds in passing."""
    messages = [{"role": "user", "content": f"The ticket {number} is for Granada."} for number in range(100)]
    (tmp_path / "many.jsonl").write_text(json.dumps({"id": "m", "messages": messages}))
    return tmp_path / "many.jsonl"


@pytest.mark.usefixtures("quick_vectors")
def test_before_their_vectors_are_made_messages_are_found_by_words_and_the_command_says_so(
    run: Run, many: Path
) -> None:
    told = run("import", many, "--no-work")
    assert "100 messages can be found by words now, none of them by meaning yet." in told.stderr
    assert "worker --once" in told.stderr
    assert json.loads(run("recall", "ticket 57", "--json").stdout)["hits"][0]["text"] == "The ticket 57 is for Granada."


@pytest.fixture
def embedder_env() -> Iterator[tuple[FaultServer, dict[str, str]]]:
    with FaultServer(dimensions=8) as server:
        names = {"URL": server.url, "NAME": "fake", "DIMENSIONS": "8"}
        yield server, os.environ | {f"RECOLLECT_EMBEDDER_{name}": value for name, value in names.items()}


@pytest.mark.kill
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_import_that_is_stopped_goes_on_with_the_same_command(
    number: signal.Signals,
    many: Path,
    embedder_env: tuple[FaultServer, dict[str, str]],
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, env = embedder_env
    server.always = Fault.HANG
    process = subprocess.Popen(
        [*PROGRAM, "import", many.name], cwd=many.parent, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stderr is not None
    told = b""
    while b"Ctrl-C stops it" not in told:
        told += process.stderr.readline()
    process.send_signal(number)
    _, rest = process.communicate(timeout=300)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert b"Stopped. 100 messages can be found by words now, none of them by meaning yet." in rest
    server.always = None
    for name in env.keys() - os.environ.keys():
        monkeypatch.setenv(name, env[name])
    again = run("import", many.name, "--json", at="")
    assert (json.loads(again.stdout)["added"], json.loads(again.stdout)["known"]) == (0, 100)
    assert again.stderr.endswith("All 100 messages can be found by words and by meaning.\n")


def test_progress_without_a_terminal_is_a_note_with_an_estimate_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    notes = ProgressNotes("Found by meaning", lambda: now)
    for now, done in ((0, 1000), (10, 2000), (20, 3000), (30, 4000), (40, 5000), (1000, 49_500)):  # noqa: B007
        notes.update(done, 50_000)
    assert capsys.readouterr().err.splitlines() == [
        "Found by meaning: 3,000 of 50,000, about 8 minutes left",
        "Found by meaning: 5,000 of 50,000, about 8 minutes left",
    ]
    assert [render_duration(seconds) for seconds in (0.2, 40, 100, 7000)] == [
        "1 second", "40 seconds", "2 minutes", "2 hours",
    ]  # fmt: skip
