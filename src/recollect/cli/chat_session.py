"""The state of a terminal chat (conversation, options, last question). Sends questions and prints answers."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from recollect.chat.run import ChatEvent, ChatRequest, MemoryMode
from recollect.cli.answer_view import AnswerPrinter, print_dim, render_ending, render_figures
from recollect.cli.chat_backend import AnswerStream, ChatBackend
from recollect.cli.display import print_line, print_note, spinner, to_json_text
from recollect.core.errors import InvalidInput
from recollect.core.models import JsonObject

MAX_UNSTORED_MESSAGES: Final = 1000  # kept and sent with each question when nothing is stored


@dataclass(frozen=True, slots=True)
class LastQuestion:
    """The last question of a chat."""

    text: str
    seq: int | None = None  # its number in the conversation, if it is stored
    tokens: int = 0  # of its prompt


@dataclass(slots=True)
class ChatSession:
    """The state of one chat in the terminal."""

    backend: ChatBackend
    conversation: str
    model: str | None = None
    system: str | None = None
    budget: int | None = None
    memory: MemoryMode = "on"
    is_interactive: bool = False  # a person types; else the lines come from a pipe
    json: bool = False
    skip_confirmation: bool = False  # erase without asking
    last: LastQuestion | None = None
    unstored: list[JsonObject] = field(default_factory=list)  # pairs of question and answer, when nothing is stored
    is_degraded: bool = False  # an answer was degraded or failed
    answer_count: int = 0  # answers so far

    def enter(self, conversation: str) -> None:
        """Go to another conversation. Forget the unstored messages of this one."""
        self.conversation, self.last = conversation, None
        self.unstored.clear()

    def say(self, content: str) -> None:
        """Send a message and print the answer."""
        request = ChatRequest(self.conversation, content, history=tuple(self.unstored), **self._request_options())
        self._ask(content, request)

    def retry(self) -> None:
        """Ask the last question again and print the answer."""
        if self.memory == "on":
            self._ask("", ChatRequest(self.conversation, retry=True, **self._request_options()))
        elif self.last is None:
            raise InvalidInput("nothing_to_retry", "There is no question here that could be answered again.")
        else:
            self.drop_turn(self.last.text)
            self.say(self.last.text)

    def drop_turn(self, question: str | None = None) -> bool:
        """Forget the newest unstored turn, and return whether there was one.

        With `question`, forget it only if the turn began with this question.
        """
        if not self.unstored or question not in (None, self.unstored[-2]["content"]):
            return False
        del self.unstored[-2:]
        return True

    def show(self, name: str, data: object, draw: Callable[[], None]) -> None:
        """Print the result of a slash command: as an event of this name with --json, else by `draw`."""
        if self.json:
            print_line(to_json_text({"event": name, "data": data}))
        else:
            draw()

    def _request_options(self) -> dict[str, Any]:
        return {"model": self.model, "system_prompt": self.system, "budget": self.budget, "memory": self.memory}

    def _ask(self, content: str, request: ChatRequest) -> None:
        self.last = LastQuestion(content)
        if self.answer_count and not self.json and not self.is_interactive:
            print_line("")  # between two answers
        self.answer_count += 1
        stream = self.backend.ask(request)
        with stop_on_ctrl_c(stream):
            answer = _receive(stream, self._print_event if self.json else self._ignore, prints=not self.json)
        self._remember(content, answer)
        if not self.json:
            self._print_end(answer)
        if stream.is_stopping and not self.is_interactive:
            raise KeyboardInterrupt  # in a pipe, Ctrl-C also ends the program

    @staticmethod
    def _print_event(event: ChatEvent) -> None:
        print_line(to_json_text({"event": event.name, "data": event.data}))
        sys.stdout.flush()

    @staticmethod
    def _ignore(_: ChatEvent) -> None: ...

    def _remember(self, content: str, answer: _Answer) -> None:
        """Keep what the next question and the slash commands need of this one."""
        sources, done = answer.sources, answer.done
        stored = sources["message"] if sources is not None else None
        tokens = sources["context"]["tokens"] if sources is not None else 0
        text, seq = (stored["content"], stored["seq"]) if stored else (content, None)
        self.last = LastQuestion(text, seq, tokens)
        if sources is not None and sources["context"]["degraded"]:
            self.is_degraded = True
        if done["error"] is not None:
            self.is_degraded = True
        if self.memory != "on" and answer.text.strip():
            self.unstored += [{"role": "user", "content": content}, {"role": "assistant", "content": answer.text}]
            del self.unstored[:-MAX_UNSTORED_MESSAGES]

    def _print_end(self, answer: _Answer) -> None:
        ending = render_ending(answer.done, memory=self.memory, has_text=bool(answer.text))
        if ending is not None:
            print_note(ending)
        print_dim(render_figures(answer.sources, answer.done, memory=self.memory))
        if self.is_interactive:
            print_line("")


@dataclass(slots=True)
class _Answer:
    text: str = ""
    sources: JsonObject | None = None
    done: JsonObject = field(default_factory=dict)


def _receive(stream: AnswerStream, on_event: Callable[[ChatEvent], None], *, prints: bool) -> _Answer:
    """Read the stream to its end and return the answer. With `prints`, print its words as they arrive."""
    answer, printer = _Answer(), AnswerPrinter()
    with ExitStack() as waiting:
        if prints and sys.stdout.isatty():
            waiting.enter_context(spinner("…"))
        for event in stream:
            on_event(event)
            if event.name == "sources":
                answer.sources = event.data
            elif event.name == "done":
                answer.done = event.data
            elif event.name == "delta":
                waiting.close()
                answer.text += str(event.data["content"])
                if prints:
                    printer.write(str(event.data["content"]))
    if prints:
        printer.end()
    return answer


@contextmanager
def stop_on_ctrl_c(stream: AnswerStream) -> Iterator[None]:
    """Let Ctrl-C stop the answer, not the program, while the block runs. Only the main thread can catch signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, lambda *_: stream.interrupt())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
