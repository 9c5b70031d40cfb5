"""What a person can ask of a chat beside talking: a word behind a slash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import typer

from recollect.cli.brief import show_brief, why_none
from recollect.cli.chat_backend import Here
from recollect.cli.chat_session import Session
from recollect.cli.display import counted, flat, line, note, out, show_messages, show_pairs
from recollect.cli.log import FOR_PEOPLE
from recollect.cli.options import is_agreed
from recollect.cli.recall import find_left_out, show_degraded, show_hits, show_parts
from recollect.cli.topic import find_place
from recollect.cli.topics import find_placed, show_topics
from recollect.core import assistant, times
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.models import Message, Receipt
from recollect.core.text import identity
from recollect.core.turns import turns_of

SHOWN: Final = 10  # messages of a history, unless told otherwise
HITS: Final = 5
RECENT: Final = 100  # messages among which the last turn is looked for
EXCERPT: Final = 60  # characters of a message that may go
HELP: Final = {
    "/context [QUESTION]": "where the tokens of the last prompt go, or of one for a question",
    "/brief": "what came before the newest turns, in short",
    "/topics": "what this conversation speaks of",
    "/recall QUESTION": "what was said that bears on it",
    "/history [N]": f"the newest messages, {SHOWN} unless you say how many",
    "/forget": "erase the last turn, for good",
    "/forget MESSAGE": "erase one message, by its place in /history or its id",
    "/retry": "answer the last question once more",
    "/model [NAME]": f"ask another model; {assistant.NAME} is built in",
    "/new NAME": "go to another conversation",
    "/quit": "leave; so do Ctrl-D, and Ctrl-C at the prompt",
    "//…": "say something that begins with a slash",
}


def run(session: Session, typed: str) -> bool:
    """Do what is asked for. Says whether the chat goes on."""
    name, _, argument = typed[1:].partition(" ")
    if name in ("quit", "exit"):
        return False
    act = COMMANDS.get(name)
    if act is None:
        raise InvalidInput("unknown_command", f"There is no /{name[:80]}. /help lists what there is.")
    act(session, argument.strip())
    return True


def _help(session: Session, _: str) -> None:
    session.show("help", HELP, lambda: show_pairs(list(HELP.items())))


def _context(session: Session, question: str) -> None:
    talk, last = session.talk, session.last
    if session.memory == "off":
        tokens = counted(last.tokens if last is not None else 0, "token")
        note(f"Memory is off: a prompt is what was said here, and nothing else. The last one took {tokens}.")
        return
    if not question and last is None:
        raise InvalidInput("nothing_asked", "Nothing was asked yet. Say /context QUESTION.")
    system = talk.settings().chat_system_prompt if session.system is None else session.system
    asked, before = (question, None) if question or last is None else (last.text, last.seq)
    made = talk.context(session.conversation, asked, system_prompt=system or None, budget=session.budget, before=before)
    session.show("context", made, lambda: show_parts(made, find_left_out(talk, session.conversation, made)))
    show_degraded(made.degraded)


def _brief(session: Session, _: str) -> None:
    about, found = session.talk.conversation(session.conversation), session.talk.brief(session.conversation)

    def draw() -> None:
        if found is None:
            note(why_none(about, session.talk.settings()))
        else:
            show_brief(found, about)

    session.show("brief", found, draw)


def _topics(session: Session, _: str) -> None:
    talk, about = session.talk, session.talk.conversation(session.conversation)
    found = find_placed(talk, about)[0] if isinstance(talk, Here) else talk.topics(about.name)
    most = talk.settings().max_topics
    session.show("topics", found, lambda: show_topics(found, about, FOR_PEOPLE, most))
    waiting = about.messages - sum(one.messages for one in found)
    if waiting > 0:
        note(f"Not in a topic yet: {counted(waiting, 'message')}.")


def _recall(session: Session, question: str) -> None:
    if not question:
        raise InvalidInput("nothing_asked", "Say what to look for: /recall QUESTION.")
    found = session.talk.recall(question, conversation=session.conversation, limit=HITS)
    zones = {} if session.json else {name: _zone(session, name) for name in {hit.conversation for hit in found}}

    def draw() -> None:
        note(f"{counted(len(found), 'hit')} among {counted(found.metrics['scope'], 'message')}.")
        show_hits(found.hits, zones, why=False)

    session.show("recall", found, draw)
    show_degraded(found.degraded)


def _history(session: Session, number: str) -> None:
    if number and not (number.isdecimal() and len(number) < 10 and int(number)):
        raise InvalidInput("invalid_limit", "Say how many messages: /history 20.")
    limit = int(number or SHOWN)
    found = [] if session.memory == "off" else session.talk.history(session.conversation, limit=limit)

    def draw() -> None:
        if not found and not session.kept:
            note("Nothing was said here yet.")
        if found:
            show_messages(found, times.load_zone(_zone(session, session.conversation)))
        for one in session.kept[-limit:]:
            note(f"{one['role']}, not stored: {flat(str(one['content']))}")

    session.show("history", [*found, *session.kept[-limit:]], draw)


def _zone(session: Session, conversation: str) -> str:
    try:
        return session.talk.conversation(conversation).zone
    except NotFound:
        return "UTC"


# Erasing


def _forget(session: Session, wanted: str) -> None:
    if wanted:
        _erase(session, [find_place(session.talk, session.conversation, wanted) or wanted], f"message {line(wanted)}")
        return
    if session.memory != "on":
        note(
            "The last turn is forgotten. It was never stored." if session.drop_turn() else "There is nothing to forget."
        )
        return
    turns = turns_of(session.talk.history(session.conversation, limit=RECENT))
    if not turns:
        raise NotFound("nothing_to_forget", "Nothing was said here yet.")
    _erase(session, [one.id for one in turns[-1]], _described(turns[-1]))


def _described(turn: Sequence[Message]) -> str:
    text = flat(turn[0].content)
    cut = text if len(text) <= EXCERPT else text[:EXCERPT] + "…"
    return f"the last turn ({counted(len(turn), 'message')}, “{cut}”)"


def _erase(session: Session, ids: Sequence[str], what: str) -> None:
    try:
        if not is_agreed(f"Erase {what}, for good?", yes=session.yes):
            return
    except typer.Abort:  # Ctrl-C or Ctrl-D is no yes
        note("Nothing was changed.")
        return
    receipts = [session.talk.erase(conversation=session.conversation, message=one) for one in ids]
    session.last = None
    session.show("receipts", receipts, lambda: out(_receipts(receipts)))


def _receipts(receipts: Sequence[Receipt]) -> str:
    """All of them in a line."""
    count = sum(one.counts.get("messages", 0) for one in receipts)
    files = {file for one in receipts for file in one.files}
    told = [
        f"Erased {counted(count, 'message')}",
        f"{counted(len(files), 'file')} read afterwards, {counted(receipts[-1].remaining, 'piece')} found in them",
        ("receipt " if len(receipts) == 1 else "receipts ") + ", ".join(one.id for one in receipts),
    ]
    if elsewhere := {place for one in receipts for place in one.kept_elsewhere}:
        told.append("kept elsewhere: " + ", ".join(map(line, sorted(elsewhere))))
    if any(one.pending for one in receipts):
        told.append("pending: another process keeps old pages alive")
    return " · ".join(told)


# Going on


def _retry(session: Session, _: str) -> None:
    session.retry()


def _model(session: Session, name: str) -> None:
    if name:
        session.model = name
        note(f"The next answers are {line(name)}'s.")
        return
    named, listed = session.model or session.talk.model() or assistant.NAME, session.talk.models()
    session.show(
        "models", {"model": named, "models": listed},
        lambda: note(f"Model {line(named)}. There are: {', '.join(map(line, listed))}."),
    )  # fmt: skip


def _new(session: Session, name: str) -> None:
    if not name:
        raise InvalidInput("no_conversation", "Say which: /new NAME.")
    session.enter(identity(name, "conversation"))
    note(where(session))


def where(session: Session) -> str:
    """The conversation, and how much of it there is."""
    if session.memory == "off":
        return f"{line(session.conversation)} · temporary: nothing is stored, memory is not used"
    try:
        there = counted(session.talk.conversation(session.conversation).messages, "message")
    except NotFound:
        there = "new"
    reads = " · memory is read, nothing is stored" if session.memory == "read" else ""
    return f"{line(session.conversation)} · {there}{reads}"


COMMANDS: Final[dict[str, Callable[[Session, str], None]]] = {
    "help": _help, "context": _context, "brief": _brief, "topics": _topics, "recall": _recall, "history": _history,
    "forget": _forget, "retry": _retry, "model": _model, "new": _new,
}  # fmt: skip
