"""A chat in the terminal: in a pipe, on a pseudo-terminal, on a database and at a server."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from typer.testing import CliRunner

from recollect import AsyncMemory, Memory
from recollect.admin.access import Access
from recollect.chat.chats import Chats
from recollect.chat.run import ChatRequest
from recollect.cli import answer_view, app
from recollect.server.app import ServerOptions, make_app
from support.fault_server import FaultServer, Reply

pytestmark = pytest.mark.usefixtures("quick_vectors")
RUNNER = CliRunner()
Say = Callable[..., Any]
CANARY = "zanzibar-7731"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Model:
    """A chat model behind a URL that answers word by word. `hold` stops it after three words until it is set."""

    def __init__(self) -> None:
        self.words = ["Fine", " ", "by", " ", "me."]
        self.status = 200
        self.requests: list[Any] = []
        self.hold: threading.Event | None = None
        self.held = threading.Event()  # set when it has stopped
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def do_GET(self) -> None:
                self._send(200, json.dumps({"data": [{"id": "parrot"}, {"id": "owl"}]}).encode(), "application/json")

            def do_POST(self) -> None:
                model.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                if model.status != 200:
                    self._send(model.status, b'{"error": {"code": "overloaded"}}', "application/json")
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                with suppress(OSError):  # the client has gone
                    self._stream()

            def _stream(self) -> None:
                for index, word in enumerate(model.words):
                    if index == 3 and model.hold is not None:
                        model.held.set()
                        model.hold.wait(300)
                    chunk = {
                        "model": model.requests[-1]["model"],
                        "choices": [{"index": 0, "delta": {"content": word}}],
                    }
                    self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")

            def _send(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def contents(self, index: int = -1) -> list[str]:
        """Return the contents of the messages in a request; of the last one by default."""
        return [str(message["content"]) for message in self.requests[index]["messages"]]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    made = Model()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    monkeypatch.setenv("RECOLLECT_MODEL_URL", made.url)
    monkeypatch.setenv("RECOLLECT_MODEL_NAME", "parrot")
    yield made
    if made.hold is not None:
        made.hold.set()
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture
def say(db: str) -> Say:
    """Return a function that pipes lines into `recollect chat`, on the test's database unless a server is named."""

    def send(*lines: str, to: str = "trip", options: tuple[str, ...] = (), code: int = 0) -> Any:
        database = () if "--server" in options else ("--db", db)
        result = RUNNER.invoke(app, ["chat", to, *database, *options], input="".join(f"{one}\n" for one in lines))
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return send


def stored(db: str, conversation: str = "trip") -> list[tuple[str, str]]:
    with Memory(db, worker=False) as memory:
        return [(one.role, one.content) for one in memory.history(conversation)]


def bytes_of(db: str) -> bytes:
    return b"".join(file.read_bytes() for file in Path(db).parent.glob(Path(db).name + "*"))


# In a pipe


def test_a_piped_chat_stores_both_messages_and_prints_quotes(db: str, say: Say) -> None:
    first = say("I am allergic to peanuts.")
    assert first.stderr.startswith(
        f"new database: {db}\nNo model is set, so answers only note and quote what you say: set "
    )
    assert first.stdout == "Noted: “I am allergic to peanuts.”\n"
    second = say("Am I allergic to something?")
    assert "you said: “I am allergic to peanuts.”" in second.stdout
    assert re.search(r"^used 1 memory · context \d+ ms · model recollect$", second.stderr, re.M)
    assert [role for role, _ in stored(db)] == ["user", "assistant"] * 2
    assert stored(db)[0] == ("user", "I am allergic to peanuts.")
    assert stored(db)[3][1] == second.stdout.rstrip("\n")


def test_what_one_line_says_the_next_line_finds(say: Say) -> None:
    told = say("The gate code is 4411.", "", "Which gate code?", options=("--model", "recollect"))
    assert "you said: “The gate code is 4411.”" in told.stdout
    assert "No model is set, so answers only" not in told.stderr


def test_every_event_is_a_line_of_json(model: Model, say: Say) -> None:
    events = [json.loads(line) for line in say("Hello?", "/history 1", options=("--json",)).stdout.splitlines()]
    assert [event["event"] for event in events] == ["sources", *["delta"] * 5, "done", "history"]
    assert "".join(event["data"]["content"] for event in events[1:6]) == "Fine by me."
    assert events[-2]["data"]["message"]["content"] == events[-1]["data"][0]["content"] == "Fine by me."


def test_model_system_and_budget_are_passed_on(model: Model, say: Say) -> None:
    options = ("--model", "owl", "--system", "Hoot.", "--budget", "400")
    told = say("Hello?", "/model parrot", "Again?", "/model", options=options)
    assert [request["model"] for request in model.requests] == ["owl", "parrot"]
    assert model.contents()[0] == "Hoot."
    assert "model owl" in told.stderr
    assert "parrot answers. You can choose: recollect, parrot, owl." in told.stderr
    assert "budget" in say("Hello?", options=("--budget", "3"), code=5).stderr


def test_a_failing_model_is_reported_the_message_is_stored_and_the_chat_goes_on(
    db: str, model: Model, say: Say
) -> None:
    model.status = 500
    told = say("One?", "Two?", code=5)
    assert told.stderr.count("· your message is stored · /retry asks again") == 2
    assert "(overloaded)" in told.stderr or "500" in told.stderr
    assert stored(db) == [("user", "One?"), ("user", "Two?")]
    model.status = 200
    assert say("/retry").stdout == "Fine by me.\n"
    assert stored(db)[-1] == ("assistant", "Fine by me.")


def test_an_answer_without_vectors_is_marked_degraded_and_exits_with_5(
    db: str, say: Say, embedder: FaultServer
) -> None:
    say("I am allergic to peanuts.", "Really.")
    embedder.always = Reply(500)
    try:
        assert "· degraded: embedder" in say("Am I allergic?", code=5).stderr
    finally:
        embedder.always = None


def test_wrong_options_are_refused(say: Say) -> None:
    assert "--memory is on, read or off" in say("x", options=("--memory", "maybe"), code=2).stderr
    assert "[invalid_conversation]" in say("x", to=" ", code=2).stderr


# Commands


def test_commands_show_what_memory_knows(say: Say) -> None:
    told = say(
        "I am allergic to peanuts.", "Am I allergic?", "/context", "/context Which nuts?", "/brief", "/topics",
        "/recall peanuts", "/history 2", "/help", "/new home", "/context", code=2,
    )  # fmt: skip
    assert told.stdout.count("what is asked now") == 2
    assert re.search(r"together +\d+ .*of 3,000; 2,\d\d\d free", told.stdout)
    assert "There is no brief of the 4 messages yet." in told.stderr
    assert re.search(r"^(active|warm) .*I am allergic to peanuts\.$", told.stdout, re.M)
    assert re.search(r"^ +1  \d\.\d+ .*user  trip\n +I am allergic to peanuts\.", told.stdout, re.M)
    assert re.search(r"^ +3 .*user\n +Am I allergic\?", told.stdout, re.M)
    assert re.search(r"^/retry +answer the last question again$", told.stdout, re.M)
    assert "home · new" in told.stderr
    assert told.stderr.endswith("error: Nothing was asked yet. Type /context QUESTION. [nothing_asked]\n")


def test_context_shows_the_prompt_that_was_made_not_one_with_the_answer_in_it(model: Model, say: Say) -> None:
    told = say("Hello there?", "/context", options=("--json",)).stdout.splitlines()
    sources, context = json.loads(told[0])["data"], json.loads(told[-1])["data"]
    assert context["tokens"] == sources["context"]["tokens"]
    assert [one["content"] for one in context["messages"]] == model.contents()


def test_an_unknown_command_is_an_error_and_two_slashes_send_one(db: str, say: Say) -> None:
    told = say("//etc is a folder.", "/nonsense", "never said", code=2)
    assert told.stderr.endswith("error: There is no command /nonsense. /help lists the commands. [unknown_command]\n")
    assert [content for role, content in stored(db) if role == "user"] == ["/etc is a folder."]
    assert len(stored(db)) == 2


def test_quit_leaves(db: str, say: Say) -> None:
    say("One.", "/quit", "Two.")
    assert [content for role, content in stored(db) if role == "user"] == ["One."]


def test_forget_erases_the_last_turn_down_to_the_bytes(db: str, say: Say) -> None:
    say("Keep this.", f"My secret is {CANARY}.")
    assert CANARY.encode() in bytes_of(db)
    assert "Add --yes, since there is no terminal to ask on." in say("/forget", code=2).stderr
    told = say("/forget", options=("--yes",))
    assert re.fullmatch(
        r"Erased 2 messages · \d files? searched afterwards, 0 pieces of the text found · receipts \S+, \S+\n",
        told.stdout,
    )
    assert CANARY.encode() not in bytes_of(db)
    assert stored(db)[0] == ("user", "Keep this.")
    assert len(stored(db)) == 2


def test_forget_takes_a_number_or_an_id(db: str, say: Say) -> None:
    with Memory(db, worker=False) as memory:
        memory.add_many("trip", [{"role": "user", "content": f"Number {n}.", "id": f"m{n}"} for n in (1, 2, 3)])
    assert say("/forget 2", "/forget m3", options=("--yes",)).stdout.count("Erased 1 message ·") == 2
    assert stored(db) == [("user", "Number 1.")]
    assert "[message_not_found]" in say("/forget nothing", options=("--yes",), code=3).stderr


def test_forget_looks_for_the_message_before_it_asks(db: str, say: Say) -> None:
    """Without --yes and a terminal, asking is an error of its own: it must not come first."""
    say("Keep this.")
    for name in ("99", "nothing", "9" * 30):
        told = say(f"/forget {name}", code=3)
        assert f"There is no message {name} in trip. /history shows" in told.stderr
    assert "Add --yes" in say("/forget 1", code=2).stderr
    assert len(stored(db)) == 2


# The built-in assistant


def test_what_is_told_is_noted_and_what_is_asked_is_quoted_in_the_same_language(say: Say) -> None:
    told = say("عندي حساسية من الفول السوداني.", "هل عندي حساسية؟", "I live in Lyon.", "Where do I live?", to="talk")
    noted, quoted, english, asked = told.stdout.split("\n\n")
    assert noted == "دوّنت: «عندي حساسية من الفول السوداني.»"
    assert quoted.startswith("هذا ما أتذكره:\n- ")
    assert "(الآن)، قلت: «عندي حساسية من الفول السوداني.»" in quoted
    assert english == "Noted: “I live in Lyon.”"
    assert asked.startswith("This is what I remember:\n- ")
    assert asked.endswith("(just now), you said: “I live in Lyon.”\n")


def test_the_missing_model_is_mentioned_once_in_a_session_and_never_stored(db: str, say: Say) -> None:
    told = say("I live in Lyon.", "Where do I live?", "Hello", "Thanks!")
    assert (told.stdout + told.stderr).count("No model is set") == 1
    assert all("model" not in content.lower() for _, content in stored(db))


def test_questions_are_not_quoted_back_as_memories_and_not_counted(say: Say) -> None:
    told = say("Where do I live?", "where do i live", "I live in Lyon.", "Where do I live now?", "What is my name?")
    first, second, _, third, last = told.stdout.split("\n\n")
    assert first == second == "I remember nothing about that yet."
    assert third.count("said: ") == 1 and "“I live in Lyon.”" in third
    assert "“Where do I" not in told.stdout and "“where do i" not in told.stdout
    figures = re.findall(r"^used (.*?) · context", told.stderr, re.M)
    assert figures[:4] == ["no memories", "no memories", "no memories", "1 memory"]
    assert figures[4] == ("no memories" if "nothing" in last else "1 memory")


def test_what_is_not_stored_is_not_noted(say: Say) -> None:
    told = say("I live in Lyon.", options=("--memory", "read"))
    assert told.stdout == "Nothing of this conversation is stored, so I will not remember that.\n"
    assert "memory is off" in say("I live in Lyon.", options=("--memory", "off")).stdout


def test_model_without_a_url_says_so(say: Say) -> None:
    told = say("/model", "/model recollect")
    assert told.stderr.count("recollect, the built-in assistant, answers: no model's URL is set.") == 2
    assert "RECOLLECT_MODEL_URL" in told.stderr
    refused = say("/model gpt-5", code=2).stderr
    assert "gpt-5 cannot answer: no model's URL is set." in refused and "[no_model_set]" in refused


# Where nothing is stored


def test_a_temporary_chat_writes_nothing_to_disk_and_keeps_its_thread(db: str, model: Model, say: Say) -> None:
    say("An older one.")
    told = say(
        f"I am called {CANARY}.", "Who am I?", "/retry", "/forget", "And now?", "/history", "/context",
        options=("--memory", "off"),
    )  # fmt: skip
    assert told.stderr.count("memory off · ") == 4
    assert model.contents(-3)[1:] == [f"I am called {CANARY}.", "Fine by me.", "Who am I?"]
    assert model.contents(-2) == model.contents(-3)
    assert model.contents(-1)[1:] == [f"I am called {CANARY}.", "Fine by me.", "And now?"]
    assert "The last turn is forgotten. It was never stored." in told.stderr
    assert f"user, not stored: I am called {CANARY}." in told.stderr
    assert "Memory is off" in told.stderr
    assert CANARY.encode() not in bytes_of(db)
    assert len(stored(db)) == 2


def test_a_chat_that_only_reads_uses_memory_and_stores_nothing(db: str, model: Model, say: Say) -> None:
    say("I am allergic to peanuts.")
    say(f"Hello {CANARY}.", "Am I allergic?", options=("--memory", "read"))
    assert "allergic to peanuts" in "\n".join(model.contents())
    assert f"Hello {CANARY}." in model.contents()
    assert CANARY.encode() not in bytes_of(db)
    assert len(stored(db)) == 2


# Printing


def test_no_answer_can_control_the_terminal(db: str, model: Model, say: Say) -> None:
    model.words = ["\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "\u202e", "\r", "\n", "ok\r"]
    told = say("Hello \x1b[31m?", "/history", "/context \x1b[2J", "/new \x1b[2J", "/model \x1b[2J")
    assert not CONTROL.search(told.stdout + told.stderr)
    assert told.stdout.startswith("␛]0;owned␇␛[2J�31m�\nok␍\n")
    events = say("Hello?", options=("--json",)).stdout
    assert not CONTROL.search(events)
    assert "".join(
        event["data"]["content"] for event in map(json.loads, events.splitlines()) if event["event"] == "delta"
    ) == "".join(model.words)


def test_words_are_broken_between_lines_only_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    text = "  The quick brown fox jumps over\n\tthe lazy dog.\n" + "花" * 25 + " end"

    def shown() -> str:
        flow = answer_view.AnswerPrinter()
        for letter in text:
            flow.write(letter)
        flow.end()
        return capsys.readouterr().out

    assert shown() == text + "\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(answer_view, "make_console", lambda: answer_view.Console(width=20, force_terminal=True))
    lines = shown().splitlines()
    assert lines[:4] == ["  The quick brown", "fox jumps over", "        the lazy", "dog."]
    assert "".join(lines[4:]).replace(" ", "") == "花" * 25 + "end"


# At a server


@contextmanager
def serving(db: str) -> Iterator[str]:
    """Run a real server in a thread. Yield its address."""
    config = uvicorn.Config(make_app(ServerOptions(db)), port=0, log_config=None, access_log=False, lifespan="on")
    server, socket = uvicorn.Server(config), config.bind_socket()
    thread = threading.Thread(target=server.run, args=([socket],), daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(300)
        socket.close()


def wait_until(condition: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_caught_up(db: str) -> bool:
    with Memory(db, worker=False) as memory:
        found = memory.stats()
    return bool(found["messages"] == found["embedded"])


def test_a_server_is_talked_to_in_the_same_way(db: str, model: Model, say: Say) -> None:
    with serving(db) as url:
        at = ("--server", url, "--yes")
        assert say("I am allergic to peanuts.", options=at).stdout == "Fine by me.\n"
        wait_until(lambda: is_caught_up(db))
        told = say(
            "Am I allergic?", "/context", "/recall peanuts", "/history 2", "/topics", "/brief", "/model", options=at
        )
        assert told.stdout.startswith("Fine by me.\n")
        assert "parrot answers. You can choose: recollect, parrot, owl." in told.stderr
        assert re.search(r"together +\d+ .*of 3,000", told.stdout)
        assert re.search(r"^ +1  \d\.\d+ .*user  trip\n +I am allergic to peanuts\.", told.stdout, re.M)
        assert re.search(r"^ +3 .*user\n +Am I allergic\?", told.stdout, re.M)
        assert "There is no brief of the 4 messages yet." in told.stderr
        wait_until(lambda: is_caught_up(db))
        told = say("/retry", "/new home", f"My secret is {CANARY}.", "/forget", "/history", options=at)
        assert re.search(r"^Erased 2 messages · receipts \S+, \S+$", told.stdout, re.M)
        assert told.stderr.endswith("Nothing was said here yet.\n")
        assert "memory off · " in say("Who am I?", options=(*at[:2], "--memory", "off")).stderr
        assert model.contents()[1:] == ["Who am I?"]
        model.status = 500
        assert "· your message is stored" in say("And now?", options=at, code=5).stderr
    assert CANARY.encode() not in bytes_of(db)
    assert [role for role, _ in stored(db)] == ["user", "assistant", "user", "assistant", "assistant", "user"]


def test_a_server_with_keys_wants_one(db: str, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    async def make() -> str:
        async with AsyncMemory(db, worker=False) as memory:
            return (await Access(memory).create_key("sara")).token or ""

    token = asyncio.run(make())
    with serving(db) as url:
        assert say("Hi", options=("--server", url), code=4).stderr.startswith("error: Show a key")
        assert "[" in say("Hi", options=("--server", url, "--key", "rk_wrong"), code=4).stderr
        assert "[invalid_key]" in say("Hi", options=("--server", url, "--key", "a\nb"), code=2).stderr
        monkeypatch.setenv("RECOLLECT_KEY", token)
        assert say("Hi", options=("--server", url)).stdout.startswith("Hello! ")
        assert "[invalid_conversation]" in say("Hi", to="..", options=("--server", url), code=2).stderr
        assert "at most 1048576" in say("x" * 1_100_000, options=("--server", url), code=2).stderr


def test_an_address_that_is_no_recollect_server_is_an_error_of_one_line(say: Say, model: Model) -> None:
    for url, named, code in (
        ("http://127.0.0.1:9", "cannot be reached", 1),
        (model.url.removesuffix("/v1") + "/api", "does not answer as Recollect does", 1),
        ("nonsense", "--server is an address", 2),
        ("http://me:secret@127.0.0.1", "--server is an address", 2),
    ):
        told = say("Hi", options=("--server", url), code=code)
        assert named in told.stderr
        assert "secret" not in told.stderr
        assert told.stderr.count("\n") == 1
    both = RUNNER.invoke(app, ["chat", "--db", "a.db", "--server", "http://127.0.0.1:9"], input="")
    assert (both.exit_code, both.stderr) == (2, "error: Use either --db or --server. [invalid_place]\n")


def test_talking_to_a_server_loads_nothing_of_the_engine(db: str) -> None:
    program = """if True:
        import sys
        from recollect.cli.remote_memory import RemoteMemory
        from recollect.cli.chat_session import ChatSession
        memory = RemoteMemory(sys.argv[1])
        ChatSession(memory, "trip").say("Hello?")
        memory.recall("hello"), memory.topics("trip"), memory.context("trip", "hello"), memory.settings()
        heavy = ("numpy", "onnxruntime", "tiktoken", "psycopg", "fastapi", "recollect.recall.recaller")
        assert not [name for name in heavy if name in sys.modules]
    """
    with serving(db) as url:
        ended = subprocess.run([sys.executable, "-W", "error", "-c", program, url], capture_output=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert b"Hello! Tell me" in ended.stdout


# On a terminal


class Terminal:
    """A person at a pseudo-terminal of 60 columns."""

    def __init__(self, folder: Path, *args: str) -> None:
        self.ours, theirs = pty.openpty()
        env = os.environ | {"COLUMNS": "60", "TERM": "xterm", "HOME": str(folder)}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "recollect", "chat", *args], cwd=folder, env=env,
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        os.close(theirs)
        self.shown = ""

    def wait_for(self, text: str) -> str:
        """Wait for the text. Return what was printed since the last call, up to it."""
        while text not in self.shown:
            readable, _, _ = select.select([self.ours], [], [], 30)
            assert readable, f"{text!r} did not come; shown: {self.shown!r}"
            block = os.read(self.ours, 65536).decode("utf-8", "replace")
            assert block
            self.shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", block).replace("\r\n", "\n")
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def interrupt(self) -> None:
        """Send SIGINT until the process ends. Between two keys it does not handle signals for a moment."""
        for _ in range(12):
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
                return

    def close(self) -> int:
        try:
            return self.process.wait(300)
        finally:
            self.process.kill()
            os.close(self.ours)


@pytest.mark.parametrize("backend", ["database", "server"])
def test_ctrl_c_stops_an_answer_and_the_chat_goes_on(tmp_path: Path, model: Model, backend: str) -> None:
    db = str(tmp_path / "chat.db")
    model.hold, model.words = threading.Event(), ["one ", "two ", "three ", "four"]
    with serving(db) if backend == "server" else contextmanager(lambda: iter([None]))() as url:
        where = ("--server", str(url)) if url else ("--db", db)
        terminal = Terminal(tmp_path, "trip", *where, "--yes")
        assert "trip · new · model parrot · /help, Ctrl-D leaves" in terminal.wait_for("\n> ")
        terminal.type("Count!\n")
        assert model.held.wait(300)
        terminal.wait_for("one two")
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for("stopped · the answer is stored as far as it came")
        model.hold.set()
        model.hold = None
        terminal.wait_for("> ")
        terminal.type("/nonsense\n")
        terminal.wait_for("[unknown_command]\n> ")
        terminal.type("Go on.\n")
        terminal.wait_for("one two three four\nused ")
        terminal.wait_for("> ")
        if backend == "database":
            terminal.type("/forget\n")
            terminal.wait_for("Erased 2 messages")
            terminal.wait_for("> ")
            terminal.type("\x04")
        else:
            terminal.type("half a quest")
            terminal.wait_for("half a quest")
            terminal.interrupt()
        assert terminal.close() == 0
    assert stored(db)[:2] == [("user", "Count!"), ("assistant", "one two three ")]
    assert not [one for one in tmp_path.iterdir() if not one.name.startswith("chat.db")]  # no history file


def test_an_answer_that_is_stopped_before_it_begins_comes_to_an_end(db: str) -> None:
    async def talk() -> list[str]:
        async with AsyncMemory(db, worker=False) as memory:
            chats = Chats(memory)
            run = await chats.start(memory, ChatRequest("trip", "Hello?"))
            run.stop()
            events = [event async for event in run.events()]
            assert chats.count_running("local") == 0
            assert events[-1].data["stopped"]
            return [event.name for event in events]

    assert asyncio.run(asyncio.wait_for(talk(), 10)) == ["done"]
