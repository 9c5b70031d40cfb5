"""Topics: what a conversation speaks of and how it fades; topics that speak of something, and those that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Final

import typer
from rich.text import Text

from recollect.cli.catch_up import LITTLE, SHORTLY, catch_up_shortly
from recollect.cli.display import (
    bar,
    console,
    counted,
    flat,
    line,
    note,
    show,
    show_json,
    show_table,
    spinner,
)
from recollect.cli.log import FOR_PEOPLE, find_conversation
from recollect.cli.options import Call, Exit
from recollect.core import times
from recollect.core.errors import InvalidInput
from recollect.core.models import Conversation
from recollect.core.topics import Related, Topic, TopicHit, decay_curve
from recollect.sync import Memory

SHORT: Final = 8  # characters of an id that are shown on a terminal
BAR: Final = 8  # columns of a priority,
CURVE: Final = 10  # and of how it falls
BESIDE: Final = 36  # columns that a title needs to stand in the row
CLEAR: Final = timedelta(days=300)  # so far off a day is clear without its year
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_NOW: Final = "┃"
_STATES: Final = {"active": "bold green", "cold": "dim"}


def topics(
    call: Call,
    conversation: Annotated[
        str | None, typer.Argument(metavar="CONVERSATION", help="Its name; only --search does without.")
    ] = None,
    search: Annotated[str | None, typer.Option(metavar="TEXT", help="Topics that speak of this, best first.")] = None,
    related: Annotated[bool, typer.Option("--related", help="Pairs that may be one topic, to merge them.")] = False,
    limit: Annotated[
        int | None, typer.Option(help=f"At most so many; {FOR_PEOPLE} by default, with --json all; 5 found.")
    ] = None,
) -> None:
    """List what a conversation speaks of: the active topic first, then by priority.

    A priority falls as long as nobody speaks of the topic. One that has faded is archived, never deleted. Days are
    those of the conversation's zone.
    """
    if search is not None and related:
        raise InvalidInput("invalid_output", "Say either --search or --related.")
    if limit is not None and limit < 0:
        raise InvalidInput("invalid_limit", "--limit is a whole number from 0 on.")
    with call.open(must_exist=True) as memory:
        if search is not None:
            _show_found(memory, search, conversation, 5 if limit is None else limit, json=call.json)
            return
        if conversation is None:
            told = "Name a conversation (`recollect conversations` lists them), or look in all with --search."
            raise InvalidInput("no_conversation", told)
        about = find_conversation(memory, conversation)
        found, failed = find_placed(memory, about)
        if related:
            _show_related(memory.related_topics(conversation)[:limit], json=call.json)
        elif call.json:
            show_json(found[:limit])
        else:
            show_topics(found, about, FOR_PEOPLE if limit is None else limit, memory.settings().max_topics)
    waiting = about.messages - sum(one.messages for one in found)
    if waiting > 0:
        belong = "belongs" if waiting == 1 else "belong"
        note(
            f"note: {counted(waiting, 'message')} {belong} to no topic yet, until `recollect worker --once` is through."
        )
    for name, reason in failed.items():
        note(f"warning: {name} failed [{reason}]; the next worker tries again.")
    if failed and not found:
        raise typer.Exit(Exit.DEGRADED)


def find_placed(memory: Memory, about: Conversation) -> tuple[list[Topic], dict[str, str]]:
    """The topics with what was added a moment ago. What has piled up is left to a worker."""
    found = memory.topics(about.name)
    if not 0 < about.messages - sum(one.messages for one in found) <= LITTLE:
        return found, {}
    with spinner("Looking"):
        done = memory.drain(timeout=SHORTLY, briefs=False)
    return memory.topics(about.name), dict(done.failed)


# The list


def show_topics(found: Sequence[Topic], about: Conversation, limit: int, most: int) -> None:
    """A row for each, with its priority and how it falls."""
    if not found:
        note("No topics yet.")
        return
    zone, now = times.load_zone(about.zone), datetime.now(UTC)
    note(f"{counted(len(found), 'topic')} of {counted(about.messages, 'message')}, at hand + archived.")
    note(f"What has faded is archived when there are more than {counted(most, 'topic')}, never deleted.")
    columns = ("state", "topic", "messages", "priority", "archives", "memory", "decay")
    shown = found[:limit]
    _show_rows(columns, [_row(one, zone, now) for one in shown], [_titled(one) for one in shown])
    if len(found) > limit:
        note(f"Further topics: --limit {len(found)}.")


def _row(topic: Topic, zone: tzinfo, now: datetime) -> list[Text]:
    return [
        Text(topic.state, _STATES.get(topic.state, "")),
        Text(short(topic.id)),
        Text(f"{topic.active_messages:,} + {topic.archived_messages:,}"),
        Text.assemble(priority_bar(topic), f" {topic.priority:.2f}"),
        Text(_leaves(topic, zone, now)),
        Text(f"{topic.memory_type} {half_life(topic)}"),
        sparkline(topic, now, CURVE),
    ]


def short(id: str) -> str:
    """An id as it is shown: in a pipe whole."""
    return id[:SHORT] if console().is_terminal else id


def priority_bar(topic: Topic) -> Text:
    """What is left of its importance."""
    filled = bar(min(topic.priority, 1), 1, width=BAR)
    whole = max(round(topic.importance * BAR), len(filled))
    return Text.assemble((filled, "green"), ("·" * (whole - len(filled)), "dim"), " " * (BAR - whole))


def half_life(topic: Topic) -> str:
    days = topic.half_life_days
    return f"{days:g} d" if days >= 1 else f"{days * 24:.3g} h"


def _leaves(topic: Topic, zone: tzinfo, now: datetime) -> str:
    """When it goes into the archive, if nobody speaks of it."""
    if topic.state == "cold":
        return "at rest"
    if topic.pinned:
        return "pinned"
    return "any time" if topic.fades_at <= now and topic.state != "active" else day(topic.fades_at, zone, now)


def day(moment: datetime, zone: tzinfo, now: datetime) -> str:
    local = moment.astimezone(zone)
    return f"{local.day} {local:%b}" if abs(moment - now) < CLEAR else f"{local:%Y-%m-%d}"


def sparkline(topic: Topic, now: datetime, width: int) -> Text:
    """How its priority falls from when it was last spoken of until after it has faded, with a mark where it is now."""
    curve = decay_curve(topic, points=width)
    start, stop = curve[0][0], curve[-1][0]
    place = max(0, min(width, round(width * ((now - start) / (stop - start)))))
    drawn = "".join(_LEVELS[min(int(value * 8), 7)] for _, value in curve)
    return Text.assemble((drawn[:place], "dim"), (_NOW, "bold"), (drawn[place:], "green"))


def _titled(topic: Topic) -> Text:
    tags = f"  · {', '.join(map(line, topic.tags))}" if topic.tags else ""
    return Text.assemble(flat(topic.title), (tags, "cyan"))


def _show_rows(columns: Sequence[str], rows: Sequence[Sequence[Text]], titles: Sequence[Text]) -> None:
    """A table whose titles stand in their rows if there is room, else below them; the last columns go if there is
    none."""
    target = console()
    widths = [max([len(name), *(row[at].cell_len for row in rows)]) for at, name in enumerate(columns)]
    while sum(widths) + 2 * (len(widths) - 1) > target.width and len(widths) > 2:
        widths.pop()
    used = sum(widths) + 2 * len(widths)
    beside = target.width - used >= BESIDE
    indent = used if beside else widths[0] + 2
    heading = _padded([*map(Text, columns)], widths).plain + ("title" if beside else "")
    shown = [Text(heading.rstrip(), "bold")]
    for row, title in zip(rows, titles, strict=True):
        wrapped = list(title.wrap(target, max(target.width - indent, 1))) if target.is_terminal else [title]
        lead = _padded(row, widths)
        shown += [lead + wrapped.pop(0)] if beside and wrapped else [lead]
        shown += [Text(" " * indent) + one for one in wrapped]
    show(*shown)


def _padded(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    row = Text()
    for cell, width in zip(cells, widths, strict=False):
        row = row + cell + Text(" " * (width - cell.cell_len + 2))
    return row


# Found and related


def _show_found(memory: Memory, text: str, conversation: str | None, limit: int, *, json: bool) -> None:
    catch_up_shortly(memory)
    if conversation is not None:
        find_conversation(memory, conversation)
    hits: list[TopicHit] = memory.search_topics(text, conversation=conversation, limit=limit)
    if json:
        show_json(hits)
    elif not hits:
        note("No topic speaks of it.")
    else:
        columns = ("score", "state", "topic", "conversation")
        rows = [
            (f"{hit.score:.3f}", hit.topic.state, short(hit.topic.id), line(hit.topic.conversation)) for hit in hits
        ]
        _show_rows(columns, [[*map(Text, row)] for row in rows], [_titled(hit.topic) for hit in hits])


def _show_related(pairs: Sequence[Related], *, json: bool) -> None:
    if json:
        show_json(pairs)
    elif not pairs:
        note("No two topics are alike.")
    else:
        rows = []
        for one in pairs:
            rows.append((f"{one.similarity:.2f}", short(one.into.id), one.into.title))
            rows.append(("", short(one.topic.id), one.topic.title))
        show_table(("alike", "topic", "title"), rows)
        best = pairs[0]
        note(f"Merge two: `recollect topic {short(best.into.id)} --merge {short(best.topic.id)}`.")
