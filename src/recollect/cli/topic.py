"""`recollect topic` and `recollect feedback`: shows and changes one topic, and takes a judgement of a message."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Final

import typer
from rich.text import Text

from recollect.cli.chat_backend import MemoryAccess
from recollect.cli.display import (
    print_items,
    print_json,
    print_line,
    print_messages,
    print_note,
    print_pairs,
    print_table,
    render_bar,
    render_count,
    render_hanging,
    render_time,
    to_line,
    to_paragraph,
    to_printable,
)
from recollect.cli.options import Call
from recollect.cli.topics import render_curve, render_day, render_half_life, render_priority, shorten_id
from recollect.core import times
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.models import Conversation
from recollect.core.topics import FADED_PRIORITY, Topic
from recollect.sync import Memory

MIN_ID_CHARS: Final = 6
MAX_NAMED_TOPICS: Final = 5  # in the error for an id that may be several
CURVE_COLUMNS: Final = 40
DECAY_ROWS: Final = 21
MAX_SEQ_DIGITS: Final = 15
_NAMED_VALUES: Final = {"up": 1.0, "down": -1.0, "none": 0.0}
_NOT_TOGETHER: Final = (
    "Only --title, --tag, --untag, --pin and --importance go together. --split goes with --title alone."
)

_SplitOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MESSAGE",
        help="Move this message, by its id or number, to a new topic. Repeat it for several messages.",
    ),
]

_TagOption = Annotated[
    list[str] | None,
    typer.Option(metavar="TAG", help="Replace its tags by this one. Repeat it for several tags."),
]

_ImportanceOption = Annotated[
    float | None, typer.Option(min=0, max=1, help="Set its importance. The less important, the sooner it fades.")
]


@dataclass(frozen=True, slots=True)
class TopicMatch:
    """A topic that was looked up. `id` is the id that matched: its own, or that of a topic merged into it."""

    id: str
    topic: Topic
    info: Conversation


def find_topic(memory: Memory, id_start: str) -> TopicMatch:
    """Find a topic of the person by its id or the first characters of it.

    Raise InvalidInput if there are fewer than MIN_ID_CHARS or several topics match, and NotFound if none does.
    """
    if len(id_start) < MIN_ID_CHARS:
        raise InvalidInput("short_id", f"Give at least {MIN_ID_CHARS} characters of the topic's id.")
    conversations = memory.conversations()
    with suppress(NotFound):  # raised unless it is a whole id
        topic = memory.topic(id_start)
        return TopicMatch(id_start, topic, next(each for each in conversations if each.name == topic.conversation))
    matches: list[TopicMatch] = []
    for info in conversations:
        for topic in memory.topics(info.name):
            ids = (topic.id, *topic.merged)
            matches += [TopicMatch(each, topic, info) for each in ids if each.startswith(id_start)]
    if not matches:
        raise NotFound(
            "topic_not_found", f"There is no topic {id_start[:80]!r}. `recollect topics CONVERSATION` lists them."
        )
    if len(matches) > 1:
        named = ", ".join(f"{match.id} ({to_paragraph(match.topic.title)})" for match in matches[:MAX_NAMED_TOPICS])
        more = "" if len(matches) <= MAX_NAMED_TOPICS else f" and {len(matches) - MAX_NAMED_TOPICS} more"
        raise InvalidInput("ambiguous_topic", f"{id_start!r} may be {named}{more}. Give more characters of the id.")
    return matches[0]


def topic(
    call: Call,
    id: Annotated[
        str, typer.Argument(metavar="ID", help=f"Id of the topic, or its first {MIN_ID_CHARS} or more characters.")
    ],
    history: Annotated[bool, typer.Option("--history", help="Show its messages, also archived ones.")] = False,
    prompt: Annotated[bool, typer.Option("--context", help="Show the messages that a model is given of it.")] = False,
    decay: Annotated[bool, typer.Option("--decay", help="Show how its priority falls with time.")] = False,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Set its title.")] = None,
    tag: _TagOption = None,
    untag: Annotated[bool, typer.Option("--untag", help="Remove all its tags.")] = False,
    pin: Annotated[bool | None, typer.Option("--pin/--unpin", help="A pinned topic never goes cold by itself.")] = None,
    importance: _ImportanceOption = None,
    archive: Annotated[
        bool, typer.Option("--archive", help="Archive it now. It comes back when it is mentioned.")
    ] = False,
    restore: Annotated[
        bool, typer.Option("--restore", help="Bring it back from the archive, as if it were mentioned now.")
    ] = False,
    merge: Annotated[str | None, typer.Option(metavar="ID", help="Merge the topic with this id into it.")] = None,
    unmerge: Annotated[
        bool, typer.Option("--unmerge", help="Separate it again from the topic it was merged into.")
    ] = False,
    split: _SplitOption = None,
) -> None:
    """Show a topic, or change it and show it.

    Nothing here deletes a message. `recollect erase --topic` does.
    """
    actions = [history, prompt, decay, archive, restore, merge is not None, unmerge, bool(split)]
    changes = [bool(tag), untag, pin is not None, importance is not None]
    names_split = bool(split) and title is not None
    _check_together(actions, [*changes, title is not None and not names_split])
    if tag and untag:
        raise InvalidInput("invalid_tag", "Use either --tag or --untag.")
    with call.open(must_exist=True) as memory:
        match = find_topic(memory, id)
        zone = times.load_zone(match.info.zone)
        view = _print_history if history else _print_context if prompt else _print_decay if decay else None
        if view is not None:
            view(memory, match, zone, json=call.json)
            return
        current = match.topic
        if (any(changes) or title is not None) and not split:
            tags = [] if untag else tag or None
            current = memory.change_topic(match.id, title=title, tags=tags, pinned=pin, importance=importance)
        elif archive or restore:
            current = _archive(memory, match.id) if archive else memory.restore_topic(match.id)
        elif merge is not None:
            current = _merge(memory, match.id, merge)
        elif unmerge:
            current = memory.unmerge_topic(match.id)
        elif split:
            current = memory.split_topic(match.id, _to_message_ids(memory, match, split), title=title)
        max_topics = memory.settings().max_topics
    if call.json:
        print_json(current)
    else:
        _print_topic(current, zone, max_topics)


def _check_together(actions: Sequence[bool], changes: Sequence[bool]) -> None:
    """Raise InvalidInput for two actions at once, or for an action together with changes."""
    if sum(actions) > 1 or (any(actions) and any(changes)):
        raise InvalidInput("invalid_output", _NOT_TOGETHER)


def _archive(memory: Memory, topic_id: str) -> Topic:
    archived = memory.archive_topic(topic_id)
    if archived.state == "cold" and archived.active_messages:
        print_note("A worker moves its messages to the archive: `recollect worker --once`.")
    return archived


def _merge(memory: Memory, into_id: str, id_start: str) -> Topic:
    other = find_topic(memory, id_start)
    merged = memory.merge_topics(into_id, other.id)
    print_note(f"To undo this: `recollect topic {shorten_id(other.topic.id)} --unmerge`.")
    return merged


def _to_message_ids(memory: Memory, match: TopicMatch, split: Sequence[str]) -> list[str]:
    """Return ids of messages. A text that is no id of the topic's messages may be the number of one."""
    messages = memory.topic_history(match.info.name, topic=match.id)
    ids, id_by_number = {message.id for message in messages}, {str(message.seq): message.id for message in messages}
    return [text if text in ids else id_by_number.get(text, text) for text in split]


def _print_history(memory: Memory, match: TopicMatch, zone: tzinfo, *, json: bool) -> None:
    messages = memory.topic_history(match.info.name, topic=match.id)
    if json:
        print_json(messages)
        return
    counts = f"{render_count(len(messages), 'message')}, {match.topic.archived_messages:,} of them archived"
    print_note(f"{to_line(match.topic.title)} · {counts} · times in {match.info.zone}")
    print_messages(messages, zone)
    if damaged := sum(message.damaged for message in messages):
        lost = render_count(damaged, "message")
        print_note(f"warning: the text of {lost} is lost, because the archive is damaged: see `recollect doctor`.")


def _print_context(memory: Memory, match: TopicMatch, _: tzinfo, *, json: bool) -> None:
    messages = memory.topic_context(match.info.name, topic=match.id)
    if json:
        print_json(messages)
    else:
        print_line("\n".join(to_printable(f"{message['role']}: {message['content']}") for message in messages))


def _print_decay(memory: Memory, match: TopicMatch, zone: tzinfo, *, json: bool) -> None:
    curve = memory.topic_decay(match.id, points=DECAY_ROWS)
    if json:
        print_json(curve)
        return
    now = datetime.now(UTC)
    rows = []
    for index, (moment, value) in enumerate(curve):
        until = curve[index + 1][0] if index + 1 < len(curve) else datetime.max.replace(tzinfo=UTC)
        marks = ["now"] * (moment <= now < until) + ["faded"] * (moment <= match.topic.fades_at < until)
        rows.append((render_time(moment, zone), f"{value:.2f}", Text(render_bar(value, 1), "green"), ", ".join(marks)))
    print_table(("time", "priority", "", "what"), rows, numbers=("priority",))


# One topic


def _print_topic(topic: Topic, zone: tzinfo, max_topics: int) -> None:
    now = datetime.now(UTC)
    print_items(*render_hanging("", (to_paragraph(topic.title), "bold")))
    print_items(Text(f"{topic.id} · {topic.state} · {to_line(topic.conversation)}", "dim"))
    print_line("")
    if topic.summary is not None:
        print_items(*render_hanging("", to_paragraph(topic.summary)))
        print_line("")
    first, last = (render_time(moment, zone) for moment in (topic.created_at, topic.last_active_at))
    counts = f"{topic.active_messages:,} not archived, {topic.archived_messages:,} archived"
    accesses = "1 access" if topic.access_count == 1 else f"{topic.access_count:,} accesses"
    pairs: list[tuple[str, object]] = [
        ("tags", ", ".join(topic.tags) or None),
        ("messages", f"{topic.messages:,}: {counts}"),
        ("mentioned", f"from {first} to {last}"),
        ("importance", f"{topic.importance:.2f}"),
        ("priority", Text.assemble(f"{topic.priority:.2f}  ", render_priority(topic))),
        ("memory", f"{topic.memory_type}; half-life {render_half_life(topic)} after {accesses}"),
        ("goes cold", _render_cold_time(topic, zone, now, max_topics)),
    ]
    if topic.merged:
        pairs.append(("merged into it", ", ".join(map(shorten_id, topic.merged))))
    curve = render_curve(topic, now, CURVE_COLUMNS)
    print_pairs([*pairs, ("decay", curve), ("", Text(_render_scale(topic, zone, now), "dim"))])


def _render_cold_time(topic: Topic, zone: tzinfo, now: datetime, max_topics: int) -> str:
    if topic.state == "cold":
        return "it is cold; it comes back when it is mentioned, or by --restore"
    if topic.pinned:
        return "never: it is pinned"
    when = "any time" if topic.fades_at <= now else f"on {render_day(topic.fades_at, zone, now)}"
    return f"{when}, if it is not mentioned and there are more than {render_count(max_topics, 'topic')}"


def _render_scale(topic: Topic, zone: tzinfo, now: datetime) -> str:
    """Return the line below a curve: the day on which it begins and, at its column, the day on which it has faded."""
    first, last = (render_day(moment, zone, now) for moment in (topic.last_active_at, topic.fades_at))
    return f"{first:<{round(CURVE_COLUMNS / 1.25)}}{last}, {FADED_PRIORITY:g}"


# Feedback on a message


def feedback(
    call: Call,
    message: Annotated[
        str, typer.Argument(metavar="MESSAGE", help="Id of the message; with --conversation also its number.")
    ],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="up (1), down (-1), none (0), or a number from -1 to 1.")
    ],
    kind: Annotated[
        str, typer.Option(help="Why: thumb (a rating), or the message was used, edited or deleted.")
    ] = "thumb",
    conversation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Conversation that the message is in.")
    ] = None,
) -> None:
    """Rate a message: its topic becomes more or less important.

    The newest feedback on a message counts. The value none takes it back.
    """
    number = _parse_value(value)
    with call.open(must_exist=True) as memory:
        try:
            memory.feedback(message, number, kind=kind, conversation=conversation)
        except NotFound:
            message_id = None if conversation is None else find_message_id(memory, conversation, message)
            if message_id is None:
                raise
            message = message_id
            memory.feedback(message, number, kind=kind, conversation=conversation)
    if call.json:
        print_json({"message": message, "kind": kind, "value": number})
    elif number:
        print_note(f"Stored: {kind} {number:+g} for {to_line(message)}.")
    else:
        print_note(f"The feedback on {to_line(message)} is taken back.")


def _parse_value(text: str) -> float:
    try:
        return _NAMED_VALUES[text] if text in _NAMED_VALUES else float(text)
    except ValueError:
        raise InvalidInput("invalid_feedback", "The value is up, down, none, or a number from -1 to 1.") from None


def find_message_id(memory: MemoryAccess, conversation: str, number: str) -> str | None:
    """Return the id of the message with this number in the conversation; None if there is none."""
    if not number.isdecimal() or len(number) > MAX_SEQ_DIGITS:
        return None
    messages = memory.history(conversation, before=int(number) + 1, limit=1)
    return messages[0].id if messages and messages[0].seq == int(number) else None
