"""The commands of a chat in the terminal: lines that begin with a slash, like /recall."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import typer

from recollect.cli.brief import explain_no_brief, print_brief
from recollect.cli.chat_backend import LocalMemory
from recollect.cli.chat_session import ChatSession
from recollect.cli.display import (
    print_line,
    print_messages,
    print_note,
    print_pairs,
    render_count,
    to_line,
    to_paragraph,
)
from recollect.cli.log import DEFAULT_ROWS
from recollect.cli.options import is_confirmed
from recollect.cli.recall import print_degraded, print_hits, print_parts, render_left_out
from recollect.cli.topic import find_message_id
from recollect.cli.topics import count_without_topic, load_topics, print_topics
from recollect.core import assistant, times
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.message import Message
from recollect.core.models import Receipt
from recollect.core.text import check_identity
from recollect.core.turns import split_into_turns

DEFAULT_HISTORY_MESSAGES: Final = 10
MAX_HITS: Final = 5
LAST_TURN_MESSAGES: Final = 100  # the newest ones, among which the last turn begins
EXCERPT_CHARS: Final = 60
NO_MODEL_SET: Final = "no model's URL is set."
HOW_TO_SET_A_MODEL: Final = (
    "Set RECOLLECT_MODEL_URL and RECOLLECT_MODEL_NAME, here or where the server runs, and start anew."
)
HELP: Final = {
    "/context [QUESTION]": "show what the tokens of the last prompt were spent on, or of a prompt for QUESTION",
    "/brief": "show the summary of what came before the newest turns",
    "/topics": "list the topics of this conversation",
    "/recall QUESTION": "find messages that help with QUESTION",
    "/history [N]": f"show the newest N messages ({DEFAULT_HISTORY_MESSAGES} by default)",
    "/forget": "erase the last turn for good",
    "/forget MESSAGE": "erase one message for good, by its number in /history or its id",
    "/retry": "answer the last question again",
    "/model [NAME]": f"let another model answer, or list the models; {assistant.NAME} is built in",
    "/new NAME": "go to another conversation, or begin it",
    "/quit": "leave; Ctrl-D does too, and Ctrl-C at the prompt",
    "//…": "send a message that begins with a slash",
}


def run_command(session: ChatSession, line: str) -> bool:
    """Run the command in the line. Return whether the chat goes on."""
    name, _, argument = line[1:].partition(" ")
    if name in ("quit", "exit"):
        return False
    command = COMMANDS.get(name)
    if command is None:
        raise InvalidInput("unknown_command", f"There is no command /{name[:80]}. /help lists the commands.")
    command(session, argument.strip())
    return True


def _help(session: ChatSession, _: str) -> None:
    session.show("help", HELP, lambda: print_pairs(list(HELP.items())))


def _context(session: ChatSession, question: str) -> None:
    backend, last = session.backend, session.last
    if session.memory == "off":
        tokens = render_count(last.tokens if last is not None else 0, "token")
        print_note(f"Memory is off: a prompt holds only what was said in this chat. The last one took {tokens}.")
        return
    if not question and last is None:
        raise InvalidInput("nothing_asked", "Nothing was asked yet. Type /context QUESTION.")
    system = backend.settings().chat_system_prompt if session.system is None else session.system
    query, before = (question, None) if question or last is None else (last.text, last.seq)
    prompt = backend.context(
        session.conversation, query, system_prompt=system or None, budget=session.budget, before=before
    )
    session.show("context", prompt, lambda: print_parts(prompt, render_left_out(backend, session.conversation, prompt)))
    print_degraded(prompt.degraded)


def _brief(session: ChatSession, _: str) -> None:
    info, brief = session.backend.conversation(session.conversation), session.backend.brief(session.conversation)

    def draw() -> None:
        if brief is None:
            print_note(explain_no_brief(info, session.backend.settings()))
        else:
            print_brief(brief, info)

    session.show("brief", brief, draw)


def _topics(session: ChatSession, _: str) -> None:
    backend, info = session.backend, session.backend.conversation(session.conversation)
    if isinstance(backend, LocalMemory):
        topics, _failed, waiting = load_topics(backend, info)
    else:
        topics = backend.topics(info.name)
        waiting = count_without_topic(topics, info)
    max_topics = backend.settings().max_topics
    session.show("topics", topics, lambda: print_topics(topics, info, DEFAULT_ROWS, max_topics))
    if waiting > 0:
        print_note(f"Not in a topic: {render_count(waiting, 'message')}.")


def _recall(session: ChatSession, question: str) -> None:
    if not question:
        raise InvalidInput("nothing_asked", "Type what to look for: /recall QUESTION.")
    recalled = session.backend.recall(question, conversation=session.conversation, limit=MAX_HITS)
    names = {hit.conversation for hit in recalled}
    zones = {} if session.json else {name: _find_zone(session, name) for name in names}

    def draw() -> None:
        scope = render_count(recalled.metrics["scope"], "message")
        print_note(f"{render_count(len(recalled), 'hit')} among {scope}.")
        print_hits(recalled.hits, zones, why=False)

    session.show("recall", recalled, draw)
    print_degraded(recalled.degraded)


def _history(session: ChatSession, number: str) -> None:
    if number and not (number.isdecimal() and len(number) < 10 and int(number)):
        raise InvalidInput("invalid_limit", "Type how many messages to show: /history 20.")
    limit = int(number or DEFAULT_HISTORY_MESSAGES)
    messages = [] if session.memory == "off" else session.backend.history(session.conversation, limit=limit)

    def draw() -> None:
        if not messages and not session.unstored:
            print_note("Nothing was said here yet.")
        if messages:
            print_messages(messages, times.load_zone(_find_zone(session, session.conversation)))
        for message in session.unstored[-limit:]:
            print_note(f"{message['role']}, not stored: {to_paragraph(str(message['content']))}")

    session.show("history", [*messages, *session.unstored[-limit:]], draw)


def _find_zone(session: ChatSession, conversation: str) -> str:
    try:
        return session.backend.conversation(conversation).zone
    except NotFound:
        return "UTC"


# Erasing


def _forget(session: ChatSession, message: str) -> None:
    if message:
        message_id = find_message_id(session.backend, session.conversation, message) or message
        stored = session.backend.find_message(session.conversation, message_id)
        if stored is None:
            where = f"There is no message {to_line(message[:EXCERPT_CHARS])} in {to_line(session.conversation)}"
            raise NotFound("message_not_found", f"{where}. /history shows the messages and their numbers.")
        _erase(session, [stored.id], f"message {stored.seq} ({stored.role}, “{_excerpt(stored)}”)")
        return
    if session.memory != "on":
        dropped = session.drop_turn()
        print_note("The last turn is forgotten. It was never stored." if dropped else "There is nothing to forget.")
        return
    turns = split_into_turns(session.backend.history(session.conversation, limit=LAST_TURN_MESSAGES))
    if not turns:
        raise NotFound("nothing_to_forget", "Nothing was said here yet.")
    _erase(session, [each.id for each in turns[-1]], _describe_turn(turns[-1]))


def _describe_turn(turn: Sequence[Message]) -> str:
    return f"the last turn ({render_count(len(turn), 'message')}, “{_excerpt(turn[0])}”)"


def _excerpt(message: Message) -> str:
    text = to_paragraph(message.content)
    return text if len(text) <= EXCERPT_CHARS else text[:EXCERPT_CHARS] + "…"


def _erase(session: ChatSession, message_ids: Sequence[str], description: str) -> None:
    try:
        if not is_confirmed(f"Erase {description}, for good?", yes=session.skip_confirmation):
            return
    except typer.Abort:  # Ctrl-C and Ctrl-D mean no
        print_note("Nothing was changed.")
        return
    receipts = [session.backend.erase(conversation=session.conversation, message=each) for each in message_ids]
    session.last = None
    session.show("receipts", receipts, lambda: print_line(_render_receipts(receipts)))


def _render_receipts(receipts: Sequence[Receipt]) -> str:
    """Return all receipts as one line."""
    count = sum(receipt.counts.get("messages", 0) for receipt in receipts)
    files = {file for receipt in receipts for file in receipt.files}
    remaining = render_count(receipts[-1].remaining, "piece")
    parts = [f"Erased {render_count(count, 'message')}"]
    if files:  # a server does not tell what else its files hold
        parts.append(f"{render_count(len(files), 'file')} searched afterwards, {remaining} of the text found")
    parts.append(("receipt " if len(receipts) == 1 else "receipts ") + ", ".join(receipt.id for receipt in receipts))
    if copies := {copy for receipt in receipts for copy in receipt.kept_elsewhere}:
        parts.append("copies elsewhere: " + ", ".join(map(to_line, sorted(copies))))
    if any(receipt.pending for receipt in receipts):
        parts.append("pending: another process still reads old pages of the file; a worker finishes the erase")
    return " · ".join(parts)


# Models and conversations


def _retry(session: ChatSession, _: str) -> None:
    session.retry()


def _model(session: ChatSession, name: str) -> None:
    default = session.backend.model()
    if default is None and name not in ("", assistant.NAME):
        raise InvalidInput("no_model_set", f"{to_line(name)} cannot answer: {NO_MODEL_SET} {HOW_TO_SET_A_MODEL}")
    if default is None and not session.json:
        print_note(f"{assistant.NAME}, the built-in assistant, answers: {NO_MODEL_SET} {HOW_TO_SET_A_MODEL}")
        return
    if name:
        session.model = name
        print_note(f"From now on {to_line(name)} answers.")
        return
    current, names = session.model or default or assistant.NAME, session.backend.models()
    session.show(
        "models", {"model": current, "models": names},
        lambda: print_note(f"{to_line(current)} answers. You can choose: {', '.join(map(to_line, names))}."),
    )  # fmt: skip


def _new(session: ChatSession, name: str) -> None:
    if not name:
        raise InvalidInput("no_conversation", "Type which conversation: /new NAME.")
    session.enter(check_identity(name, "conversation"))
    print_note(describe_conversation(session))


def describe_conversation(session: ChatSession) -> str:
    """Return the name of the conversation, how many messages it has, and whether memory is used."""
    if session.memory == "off":
        return f"{to_line(session.conversation)} · temporary: nothing is stored, memory is not used"
    try:
        length = render_count(session.backend.conversation(session.conversation).messages, "message")
    except NotFound:
        length = "new"
    mode = " · memory is read, nothing is stored" if session.memory == "read" else ""
    return f"{to_line(session.conversation)} · {length}{mode}"


COMMANDS: Final[dict[str, Callable[[ChatSession, str], None]]] = {
    "help": _help, "context": _context, "brief": _brief, "topics": _topics, "recall": _recall, "history": _history,
    "forget": _forget, "retry": _retry, "model": _model, "new": _new,
}  # fmt: skip
