"""One topic: what it is, its messages, and what people do with it by hand; and what they think of a message."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Final

import typer
from rich.text import Text

from recollect.cli.chat_backend import Memories
from recollect.cli.display import (
    bar,
    clean,
    counted,
    flat,
    hanging,
    line,
    note,
    out,
    show,
    show_json,
    show_messages,
    show_pairs,
    show_table,
    shown_time,
)
from recollect.cli.options import Call
from recollect.cli.topics import day, half_life, priority_bar, short, sparkline
from recollect.core import arguments, times
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.models import Conversation
from recollect.core.topics import FAINT, Topic
from recollect.sync import Memory

LEAST: Final = 6  # characters of an id that are enough, if no other topic begins with them
NAMED: Final = 5  # topics that are named where an id is not clear
CURVE: Final = 40  # columns
ROWS: Final = 21  # of the curve as a table
LONGEST_PLACE: Final = 15  # digits
_VALUES: Final = {"up": 1.0, "down": -1.0, "none": 0.0}
_TOGETHER: Final = "Only --title, --tag, --pin and --importance go together; a --title also names what is --split off."


@dataclass(frozen=True, slots=True)
class Found:
    """A topic by its id, or by that of a topic which was merged into it."""

    id: str
    topic: Topic
    about: Conversation


def find_topic(memory: Memory, wanted: str) -> Found:
    """Among all the person's, by an id or by how it begins."""
    if len(wanted) < LEAST:
        raise InvalidInput("short_id", f"Give at least {LEAST} characters of the topic's id.")
    conversations = memory.conversations()
    with suppress(NotFound):  # the whole id
        topic = memory.topic(wanted)
        return Found(wanted, topic, next(one for one in conversations if one.name == topic.conversation))
    found: list[Found] = []
    for about in conversations:
        for topic in memory.topics(about.name):
            own = [one for one in (topic.id, *topic.merged) if one.startswith(wanted)]
            found += [Found(one, topic, about) for one in own]
    if not found:
        raise NotFound("topic_not_found", f"There is no topic {wanted[:80]!r}.")
    if len(found) > 1:
        named = ", ".join(f"{one.id} ({flat(one.topic.title)})" for one in found[:NAMED])
        more = "" if len(found) <= NAMED else f" and {len(found) - NAMED} more"
        raise InvalidInput("ambiguous_topic", f"{wanted!r} may be {named}{more}.")
    return found[0]


def topic(
    call: Call,
    id: Annotated[str, typer.Argument(metavar="ID", help=f"The topic's id, or {LEAST} and more characters of it.")],
    history: Annotated[bool, typer.Option("--history", help="Its messages, archived ones too.")] = False,
    prompt: Annotated[bool, typer.Option("--context", help="What a model is given of it.")] = False,
    decay: Annotated[bool, typer.Option("--decay", help="How its priority falls, day by day.")] = False,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Give it this title.")] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="This tag, in place of those it has.")] = None,
    untag: Annotated[bool, typer.Option("--untag", help="Take its tags away.")] = False,
    pin: Annotated[bool | None, typer.Option("--pin/--unpin", help="Keep it from being archived, or not.")] = None,
    importance: Annotated[float | None, typer.Option(min=0, max=1, help="If it is less, it fades sooner.")] = None,
    archive: Annotated[bool, typer.Option("--archive", help="Let it rest now, until it is spoken of.")] = False,
    restore: Annotated[bool, typer.Option("--restore", help="Bring it back, as if it were spoken of now.")] = False,
    merge: Annotated[str | None, typer.Option(metavar="ID", help="Make that topic part of this one.")] = None,
    unmerge: Annotated[bool, typer.Option("--unmerge", help="Part it from the topic it was merged into.")] = False,
    split: Annotated[
        list[str] | None, typer.Option(metavar="MESSAGE", help="Make this message, by id or place, a topic of its own.")
    ] = None,
) -> None:
    """Show a topic, or change it and show it.

    --tag and --split can be said several times. Nothing here deletes a message; that is `recollect erase --topic`.
    """
    acts = [history, prompt, decay, archive, restore, merge is not None, unmerge, bool(split)]
    changes = [title is not None, bool(tag), untag, pin is not None, importance is not None]
    if sum(acts) > 1 or (any(acts) and any(changes) and not (split and sum(changes) == 1 and title is not None)):
        raise InvalidInput("invalid_output", _TOGETHER)
    if tag and untag:
        raise InvalidInput("invalid_tag", "Say either --tag or --untag.")
    with call.open(must_exist=True) as memory:
        found = find_topic(memory, id)
        zone = times.load_zone(found.about.zone)
        view = _show_history if history else _show_context if prompt else _show_decay if decay else None
        if view is not None:
            view(memory, found, zone, json=call.json)
            return
        shown = found.topic
        if any(changes) and not split:
            shown = _changed(memory, found.id, title, [] if untag else tag or None, pin, importance) or shown
        elif archive or restore:
            shown = memory.archive_topic(found.id) if archive else memory.restore_topic(found.id)
            if shown.state == "cold" and shown.active_messages:
                note("`recollect worker --once` packs its messages.")
        elif merge is not None:
            other = find_topic(memory, merge)
            shown = memory.merge_topics(found.id, other.id)
            note(f"`recollect topic {short(other.topic.id)} --unmerge` takes it back.")
        elif unmerge:
            shown = memory.unmerge_topic(found.id)
        elif split:
            shown = memory.split_topic(found.id, _places(memory, found, split), title=title)
        most = memory.settings().max_topics
    if call.json:
        show_json(shown)
    else:
        _show_topic(shown, zone, most)


def _changed(
    memory: Memory, id: str, title: str | None, tags: list[str] | None, pinned: bool | None, importance: float | None
) -> Topic | None:
    """All that is asked for is looked at before anything is changed."""
    if title is not None:
        arguments.title(title)
    if tags is not None:
        arguments.tags(tags)
    shown = None
    if title is not None:
        shown = memory.rename_topic(id, title)
    if tags is not None:
        shown = memory.tag_topic(id, tags)
    if pinned is not None:
        shown = memory.pin_topic(id, pinned=pinned)
    if importance is not None:
        shown = memory.weigh_topic(id, importance)
    return shown


def _places(memory: Memory, found: Found, split: Sequence[str]) -> list[str]:
    """Ids of messages; one that is no id may be a place in the log."""
    members = memory.topic_history(found.about.name, topic=found.id)
    known, by_place = {one.id for one in members}, {str(one.seq): one.id for one in members}
    return [one if one in known else by_place.get(one, one) for one in split]


def _show_history(memory: Memory, found: Found, zone: tzinfo, *, json: bool) -> None:
    messages = memory.topic_history(found.about.name, topic=found.id)
    if json:
        show_json(messages)
        return
    told = f"{counted(len(messages), 'message')}, {found.topic.archived_messages:,} of them archived"
    note(f"{line(found.topic.title)} · {told} · times in {found.about.zone}")
    show_messages(messages, zone)
    if damaged := sum(one.damaged for one in messages):
        note(f"warning: {counted(damaged, 'message')} lost the text to a damage; `recollect doctor` says more.")


def _show_context(memory: Memory, found: Found, _: tzinfo, *, json: bool) -> None:
    messages = memory.topic_context(found.about.name, topic=found.id)
    if json:
        show_json(messages)
    else:
        out("\n".join(clean(f"{one['role']}: {one['content']}") for one in messages))


def _show_decay(memory: Memory, found: Found, zone: tzinfo, *, json: bool) -> None:
    curve = memory.topic_decay(found.id, points=ROWS)
    if json:
        show_json(curve)
        return
    now = datetime.now(UTC)
    rows = []
    for place, (moment, value) in enumerate(curve):
        until = curve[place + 1][0] if place + 1 < len(curve) else datetime.max.replace(tzinfo=UTC)
        marks = ["now"] * (moment <= now < until) + ["archives"] * (moment <= found.topic.fades_at < until)
        rows.append((shown_time(moment, zone), f"{value:.2f}", Text(bar(value, 1), "green"), ", ".join(marks)))
    show_table(("time", "priority", "", "what"), rows, numbers=("priority",))


# A topic whole


def _show_topic(topic: Topic, zone: tzinfo, most: int) -> None:
    now = datetime.now(UTC)
    show(*hanging("", (flat(topic.title), "bold")))
    show(Text(f"{topic.id} · {topic.state} · {line(topic.conversation)}", "dim"))
    out("")
    if topic.summary is not None:
        show(*hanging("", flat(topic.summary)))
        out("")
    first, last = (shown_time(moment, zone) for moment in (topic.created_at, topic.last_active_at))
    pairs: list[tuple[str, object]] = [
        ("tags", ", ".join(topic.tags) or None),
        ("messages", f"{topic.messages:,}: {topic.active_messages:,} at hand, {topic.archived_messages:,} archived"),
        ("spoken of", f"from {first} to {last}"),
        ("importance", f"{topic.importance:.2f}"),
        ("priority", Text.assemble(f"{topic.priority:.2f}  ", priority_bar(topic))),
        ("memory", f"{topic.memory_type}; half-life {half_life(topic)} after {_times(topic.access_count)}"),
        ("archives", _when(topic, zone, now, most)),
    ]
    if topic.merged:
        pairs.append(("merged into it", ", ".join(map(short, topic.merged))))
    curve = sparkline(topic, now, CURVE)
    show_pairs([*pairs, ("decay", curve), ("", Text(_scale(topic, zone, now), "dim"))])


def _times(accesses: int) -> str:
    return "1 access" if accesses == 1 else f"{accesses:,} accesses"


def _when(topic: Topic, zone: tzinfo, now: datetime, most: int) -> str:
    if topic.state == "cold":
        return "at rest; back when it is spoken of, or by --restore"
    if topic.pinned:
        return "never: it is pinned"
    when = "any time" if topic.fades_at <= now else f"on {day(topic.fades_at, zone, now)}"
    return f"{when}, if nobody speaks of it and there are more than {counted(most, 'topic')}"


def _scale(topic: Topic, zone: tzinfo, now: datetime) -> str:
    """When the curve begins and, below the place where it does, when it has fallen to where topics leave."""
    first, last = (day(moment, zone, now) for moment in (topic.last_active_at, topic.fades_at))
    return f"{first:<{round(CURVE / 1.25)}}{last}, {FAINT:g}"


# What people think of a message


def feedback(
    call: Call,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="Its id; with --conversation also its place.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="up (+1), down (-1), none (0) or what lies between.")],
    kind: Annotated[str, typer.Option(help="thumb, used, edited or deleted.")] = "thumb",
    conversation: Annotated[str | None, typer.Option(metavar="NAME", help="The conversation it is in.")] = None,
) -> None:
    """Say what you think of a message: its topic becomes more or less important.

    The newest word on a message counts; none takes it back.
    """
    number = _value(value)
    with call.open(must_exist=True) as memory:
        try:
            memory.feedback(message, number, kind=kind, conversation=conversation)
        except NotFound:
            at_place = None if conversation is None else find_place(memory, conversation, message)
            if at_place is None:
                raise
            message = at_place
            memory.feedback(message, number, kind=kind, conversation=conversation)
    if call.json:
        show_json({"message": message, "kind": kind, "value": number})
    else:
        note(f"Kept: {kind} {number:+g} for {line(message)}." if number else f"Taken back for {line(message)}.")


def _value(text: str) -> float:
    try:
        return _VALUES[text] if text in _VALUES else float(text)
    except ValueError:
        raise InvalidInput("invalid_feedback", "The value is up, down, none, or a number from -1 to 1.") from None


def find_place(memory: Memories, conversation: str, place: str) -> str | None:
    """The id of the message at a place in the log."""
    if not place.isdecimal() or len(place) > LONGEST_PLACE:
        return None
    said = memory.history(conversation, before=int(place) + 1, limit=1)
    return said[0].id if said and said[0].seq == int(place) else None
