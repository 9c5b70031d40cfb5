"""`recollect topics`: lists the topics of a conversation with their priorities, searches topics, finds similar ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Final

import typer
from rich.text import Text

from recollect.cli.catch_up import MAX_QUICK_MESSAGES, QUICK_WORK_SECONDS, catch_up_new_messages
from recollect.cli.display import (
    make_console,
    print_items,
    print_json,
    print_note,
    print_table,
    render_bar,
    render_count,
    spinner,
    to_line,
    to_paragraph,
)
from recollect.cli.log import DEFAULT_ROWS, find_conversation
from recollect.cli.options import Call, ExitCode
from recollect.core import times
from recollect.core.errors import InvalidInput
from recollect.core.models import Conversation
from recollect.core.topics import RelatedTopics, Topic, TopicHit, decay_curve
from recollect.sync import Memory

DEFAULT_SEARCH_HITS: Final = 5
SHORT_ID_CHARS: Final = 8  # on a terminal; in a pipe ids are whole
PRIORITY_COLUMNS: Final = 8
CURVE_COLUMNS: Final = 10
MIN_TITLE_COLUMNS: Final = 36  # with less room, titles are printed below their rows
YEARLESS_DISTANCE: Final = timedelta(days=300)  # a day that is nearer is clear without its year
_CURVE_LEVELS: Final = "▁▂▃▄▅▆▇█"
_NOW_MARK: Final = "┃"
_STATE_STYLES: Final = {"active": "bold green", "cold": "dim"}


def topics(
    call: Call,
    conversation: Annotated[
        str | None,
        typer.Argument(metavar="CONVERSATION", help="Name of the conversation; may be left out with --search."),
    ] = None,
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Find topics that are about this text, best first.")
    ] = None,
    related: Annotated[
        bool, typer.Option("--related", help="Show pairs of topics so similar that you may want to merge them.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help=f"Show at most N; by default {DEFAULT_ROWS}, with --json all, with --search {DEFAULT_SEARCH_HITS}.",
        ),
    ] = None,
) -> None:
    """List the topics of a conversation, the active one first.

    The others follow by priority. A topic's priority falls while it is not mentioned. When there are too many topics,
    those that have faded go cold: their messages move to the archive, and nothing is deleted. Days are in the
    conversation's time zone.
    """
    if search is not None and related:
        raise InvalidInput("invalid_output", "Use either --search or --related.")
    if limit is not None and limit < 0:
        raise InvalidInput("invalid_limit", "--limit is a whole number, 0 or more.")
    with call.open(must_exist=True) as memory:
        if search is not None:
            _print_search_hits(
                memory, search, conversation, DEFAULT_SEARCH_HITS if limit is None else limit, json=call.json
            )
            return
        if conversation is None:
            advice = "Name a conversation (`recollect conversations` lists them), or search in all with --search."
            raise InvalidInput("no_conversation", advice)
        info = find_conversation(memory, conversation)
        found, failed, waiting = load_topics(memory, info)
        if related:
            _print_related(memory.related_topics(conversation)[:limit], json=call.json)
        elif call.json:
            print_json(found[:limit])
        else:
            print_topics(found, info, DEFAULT_ROWS if limit is None else limit, memory.settings().max_topics)
    if waiting > 0:
        messages = f"{render_count(waiting, 'message')} {'is' if waiting == 1 else 'are'}"
        print_note(f"note: {messages} not in a topic yet. `recollect worker --once` assigns them.")
    for name, reason in failed.items():
        print_note(f"warning: {name} failed [{reason}]. The next worker tries again.")
    if failed and not found:
        raise typer.Exit(ExitCode.DEGRADED)


def load_topics(memory: Memory, info: Conversation) -> tuple[list[Topic], dict[str, str], int]:
    """Return the topics, what failed, and how many messages wait for a topic. First assign those added a moment ago.

    If more than MAX_QUICK_MESSAGES wait, they are left to a worker. System messages have no topic and wait for none.
    """
    found = memory.topics(info.name)
    waiting = count_without_topic(found, info)
    if not 0 < waiting <= MAX_QUICK_MESSAGES:
        return found, {}, waiting
    with spinner("Assigning new messages"):
        done = memory.drain(timeout=QUICK_WORK_SECONDS, briefs=False)
    found = memory.topics(info.name)
    return found, dict(done.failed), 0 if done.complete else count_without_topic(found, info)


def count_without_topic(topics: Sequence[Topic], info: Conversation) -> int:
    """Return how many messages of a conversation are in no topic."""
    return info.messages - sum(topic.messages for topic in topics)


# The list


def print_topics(topics: Sequence[Topic], info: Conversation, limit: int, max_topics: int) -> None:
    """Print a row for each topic, with its priority and how that falls. `max_topics` is the setting of this name."""
    if not topics:
        print_note("No topics yet.")
        return
    zone, now = times.load_zone(info.zone), datetime.now(UTC)
    counts = f"{render_count(len(topics), 'topic')} of {render_count(info.messages, 'message')}"
    print_note(f"{counts} (the column shows: not archived + archived).")
    rule = f"Above {render_count(max_topics, 'topic')}, those that have faded go cold"
    print_note(f"{rule}: their messages are archived, never deleted.")
    columns = ("state", "topic", "messages", "priority", "cold from", "memory", "decay")
    shown = topics[:limit]
    _print_rows(columns, [_render_row(topic, zone, now) for topic in shown], [_render_title(topic) for topic in shown])
    if len(topics) > limit:
        print_note(f"To see all topics add --limit {len(topics)}.")


def _render_row(topic: Topic, zone: tzinfo, now: datetime) -> list[Text]:
    return [
        Text(topic.state, _STATE_STYLES.get(topic.state, "")),
        Text(shorten_id(topic.id)),
        Text(f"{topic.active_messages:,} + {topic.archived_messages:,}"),
        Text.assemble(render_priority(topic), f" {topic.priority:.2f}"),
        Text(_render_cold_day(topic, zone, now)),
        Text(f"{topic.memory_type} {render_half_life(topic)}"),
        render_curve(topic, now, CURVE_COLUMNS),
    ]


def shorten_id(id: str) -> str:
    """Return the first characters of an id; in a pipe the whole id."""
    return id[:SHORT_ID_CHARS] if make_console().is_terminal else id


def render_priority(topic: Topic) -> Text:
    """Return a bar as long as the topic's importance, filled as far as its priority."""
    filled = render_bar(min(topic.priority, 1), 1, width=PRIORITY_COLUMNS)
    length = max(round(topic.importance * PRIORITY_COLUMNS), len(filled))
    return Text.assemble((filled, "green"), ("·" * (length - len(filled)), "dim"), " " * (PRIORITY_COLUMNS - length))


def render_half_life(topic: Topic) -> str:
    """Return the half-life of the priority in days, or in hours if it is less than a day."""
    days = topic.half_life_days
    return f"{days:g} d" if days >= 1 else f"{days * 24:.3g} h"


def _render_cold_day(topic: Topic, zone: tzinfo, now: datetime) -> str:
    """Return the day from which the topic may go cold, if it is not mentioned."""
    if topic.state == "cold":
        return "cold now"
    if topic.pinned:
        return "pinned"
    return "any time" if topic.fades_at <= now and topic.state != "active" else render_day(topic.fades_at, zone, now)


def render_day(moment: datetime, zone: tzinfo, now: datetime) -> str:
    """Return the local day: "24 Nov", or "2027-11-24" if it is far from now."""
    local = moment.astimezone(zone)
    return f"{local.day} {local:%b}" if abs(moment - now) < YEARLESS_DISTANCE else f"{local:%Y-%m-%d}"


def render_curve(topic: Topic, now: datetime, width: int) -> Text:
    """Return the curve of the priority, from when the topic was last mentioned until after it has faded.

    A mark shows where the priority is now.
    """
    curve = decay_curve(topic, points=width)
    start, stop = curve[0][0], curve[-1][0]
    now_column = max(0, min(width, round(width * ((now - start) / (stop - start)))))
    drawn = "".join(_CURVE_LEVELS[min(int(value * 8), 7)] for _, value in curve)
    return Text.assemble((drawn[:now_column], "dim"), (_NOW_MARK, "bold"), (drawn[now_column:], "green"))


def _render_title(topic: Topic) -> Text:
    tags = f"  · {', '.join(map(to_line, topic.tags))}" if topic.tags else ""
    return Text.assemble(to_paragraph(topic.title), (tags, "cyan"))


def _print_rows(columns: Sequence[str], rows: Sequence[Sequence[Text]], titles: Sequence[Text]) -> None:
    """Print a table with a title for each row: in the row if there is room, else below it.

    On a narrow terminal the last columns are left out.
    """
    console = make_console()
    widths = [max([len(name), *(row[index].cell_len for row in rows)]) for index, name in enumerate(columns)]
    while sum(widths) + 2 * (len(widths) - 1) > console.width and len(widths) > 2:
        widths.pop()
    used = sum(widths) + 2 * len(widths)
    is_beside = console.width - used >= MIN_TITLE_COLUMNS
    indent = used if is_beside else widths[0] + 2
    heading = _pad_cells([*map(Text, columns)], widths).plain + ("title" if is_beside else "")
    lines = [Text(heading.rstrip(), "bold")]
    for row, title in zip(rows, titles, strict=True):
        wrapped = list(title.wrap(console, max(console.width - indent, 1))) if console.is_terminal else [title]
        cells = _pad_cells(row, widths)
        lines += [cells + wrapped.pop(0)] if is_beside and wrapped else [cells]
        lines += [Text(" " * indent) + part for part in wrapped]
    print_items(*lines)


def _pad_cells(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    row = Text()
    for cell, width in zip(cells, widths, strict=False):
        row = row + cell + Text(" " * (width - cell.cell_len + 2))
    return row


# Search and similar topics


def _print_search_hits(memory: Memory, text: str, conversation: str | None, limit: int, *, json: bool) -> None:
    catch_up_new_messages(memory)
    if conversation is not None:
        find_conversation(memory, conversation)
    hits: list[TopicHit] = memory.search_topics(text, conversation=conversation, limit=limit)
    if json:
        print_json(hits)
    elif not hits:
        print_note("No topic is about this.")
    else:
        columns = ("score", "state", "topic", "conversation")
        rows = []
        for hit in hits:
            topic = hit.topic
            cells = (f"{hit.score:.3f}", topic.state, shorten_id(topic.id), to_line(topic.conversation))
            rows.append([*map(Text, cells)])
        _print_rows(columns, rows, [_render_title(hit.topic) for hit in hits])


def _print_related(pairs: Sequence[RelatedTopics], *, json: bool) -> None:
    if json:
        print_json(pairs)
    elif not pairs:
        print_note("No two topics are similar.")
    else:
        rows = []
        for pair in pairs:
            rows.append((f"{pair.similarity:.2f}", shorten_id(pair.into.id), pair.into.title))
            rows.append(("", shorten_id(pair.topic.id), pair.topic.title))
        print_table(("similarity", "topic", "title"), rows)
        into, topic = pairs[0].into, pairs[0].topic
        print_note(f"To merge the first pair: `recollect topic {shorten_id(into.id)} --merge {shorten_id(topic.id)}`.")
