"""A chat in the terminal while it lasts: with whom, where, how; what is said, and how the answer is heard and shown."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from recollect.chat.chats import Ask, Event, Mode
from recollect.cli.answer_view import Flow, dim, ending, figures
from recollect.cli.chat_backend import Heard, Talk
from recollect.cli.display import as_json, note, out, spinner
from recollect.core.errors import InvalidInput
from recollect.core.models import JsonObject

MOST: Final = 1000  # messages that are passed along where nothing is stored


@dataclass(frozen=True, slots=True)
class Asked:
    """The last question: its words, its place if it is stored, and what its prompt took."""

    text: str
    seq: int | None = None
    tokens: int = 0


@dataclass(slots=True)
class Session:
    talk: Talk
    conversation: str
    model: str | None = None
    system: str | None = None
    budget: int | None = None
    memory: Mode = "on"
    is_person: bool = False  # somebody sits there
    json: bool = False
    yes: bool = False
    last: Asked | None = None
    kept: list[JsonObject] = field(default_factory=list)  # what was said, where nothing is stored
    is_degraded: bool = False  # an answer was, or failed
    answers: int = 0

    def enter(self, conversation: str) -> None:
        """Another conversation; what was kept of this one is forgotten."""
        self.conversation, self.last = conversation, None
        self.kept.clear()

    def say(self, content: str) -> None:
        """Say something and show the answer."""
        self._ask(content, Ask(self.conversation, content, history=tuple(self.kept), **self._wishes()))

    def retry(self) -> None:
        """The last question once more."""
        if self.memory == "on":
            self._ask("", Ask(self.conversation, retry=True, **self._wishes()))
        elif self.last is None:
            raise InvalidInput("nothing_to_retry", "There is no question here that could be answered again.")
        else:
            self.drop_turn(self.last.text)
            self.say(self.last.text)

    def drop_turn(self, question: str | None = None) -> bool:
        """The newest turn that is kept here, if it is this question's. Says whether there was one."""
        if not self.kept or question not in (None, self.kept[-2]["content"]):
            return False
        del self.kept[-2:]
        return True

    def show(self, name: str, data: object, draw: Callable[[], None]) -> None:
        """What a command found: as an event for programs, drawn for people."""
        if self.json:
            out(as_json({"event": name, "data": data}))
        else:
            draw()

    def _wishes(self) -> dict[str, Any]:
        return {"model": self.model, "system_prompt": self.system, "budget": self.budget, "memory": self.memory}

    def _ask(self, content: str, ask: Ask) -> None:
        self.last = Asked(content)
        if self.answers and not self.json and not self.is_person:
            out("")  # between two answers
        self.answers += 1
        heard = self.talk.ask(ask)
        with interrupting(heard):
            answer = _listen(heard, self._tell_event if self.json else self._silent, shows=not self.json)
        self._note(content, answer)
        if not self.json:
            self._show_end(answer)
        if heard.is_stopping and not self.is_person:
            raise KeyboardInterrupt

    @staticmethod
    def _tell_event(event: Event) -> None:
        out(as_json({"event": event.name, "data": event.data}))
        sys.stdout.flush()

    @staticmethod
    def _silent(_: Event) -> None: ...

    def _note(self, content: str, answer: _Answer) -> None:
        """What the next question and the commands need to know of this one."""
        sources, done = answer.sources, answer.done
        stored = sources["message"] if sources is not None else None
        tokens = sources["context"]["tokens"] if sources is not None else 0
        self.last = Asked(stored["content"], stored["seq"], tokens) if stored else Asked(content, None, tokens)
        if sources is not None and sources["context"]["degraded"]:
            self.is_degraded = True
        if done["error"] is not None:
            self.is_degraded = True
        if self.memory != "on" and answer.text.strip():
            self.kept += [{"role": "user", "content": content}, {"role": "assistant", "content": answer.text}]
            del self.kept[:-MOST]

    def _show_end(self, answer: _Answer) -> None:
        told = ending(answer.done, memory=self.memory, anything=bool(answer.text))
        if told is not None:
            note(told)
        dim(figures(answer.sources, answer.done, memory=self.memory))
        if self.is_person:
            out("")


@dataclass(slots=True)
class _Answer:
    text: str = ""
    sources: JsonObject | None = None
    done: JsonObject = field(default_factory=dict)


def _listen(heard: Heard, tell: Callable[[Event], None], *, shows: bool) -> _Answer:
    """To the end of an answer, whose words are shown as they come."""
    answer, flow = _Answer(), Flow()
    with ExitStack() as waiting:
        if shows and sys.stdout.isatty():
            waiting.enter_context(spinner("…"))
        for event in heard:
            tell(event)
            if event.name == "sources":
                answer.sources = event.data
            elif event.name == "done":
                answer.done = event.data
            elif event.name == "delta":
                waiting.close()
                answer.text += str(event.data["content"])
                if shows:
                    flow.write(str(event.data["content"]))
    if shows:
        flow.end()
    return answer


@contextmanager
def interrupting(heard: Heard) -> Iterator[None]:
    """Ctrl-C stops the answer, not the program. Only the main thread is told of signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: heard.interrupt())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
