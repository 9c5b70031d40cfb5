"""`recollect demo`: shows a conversation that comes with the package, in a database of its own."""

from __future__ import annotations

import shlex
from importlib import resources
from typing import Final

from recollect.cli.catch_up import catch_up
from recollect.cli.display import print_json, print_line, print_messages, print_note, render_count
from recollect.cli.log import find_conversation, print_conversations
from recollect.cli.options import DEFAULT_DATABASE, Call, find_own_shell_name
from recollect.cli.recall import print_hits
from recollect.cli.stats_view import print_stats
from recollect.core import times

DEMO_DATABASE: Final = "recollect-demo.db"
_CONVERSATION: Final = "trip"
_QUESTION: Final = "Which food could make Sara ill?"


def demo(call: Call) -> None:
    """Try Recollect with an example conversation.

    It is imported into a database of its own, shown, and searched. Running the demo again adds nothing.
    """
    packaged = resources.files("recollect").joinpath("demo", "trip.ndjson")
    with resources.as_file(packaged) as file, call.open() as memory:
        imported = memory.import_file(file, own=True)
        catch_up(memory)
        info = find_conversation(memory, _CONVERSATION)
        conversations, messages, counts = memory.conversations(), memory.history(_CONVERSATION), memory.stats()
        recalled = memory.recall(_QUESTION, conversation=_CONVERSATION, limit=2)
    next_steps = _next_steps(call)
    if call.json:
        parts = {"imported": imported, "conversations": conversations, "history": messages, "stats": counts}
        parts |= {"recall": recalled, "next": next_steps}
        print_json(parts)
        return
    added = f"{render_count(imported.added, 'message')} imported into {call.shown_db}"
    print_note(f"{added}, {imported.known} were stored before.\n")
    print_conversations(conversations)
    print_line("")
    print_messages(messages, times.load_zone(info.zone))
    print_line("")
    print_stats(counts)
    print_line(f"\n{_QUESTION}  (found by meaning and words, without a model or a network)")
    print_hits(recalled.hits, {_CONVERSATION: info.zone}, why=False)
    print_note("\nTry next:\n" + "\n".join(f"  {step}" for step in next_steps))


def _next_steps(call: Call) -> list[str]:
    database = "" if call.db == DEFAULT_DATABASE else f" --db {shlex.quote(call.shown_db)}"
    person = "" if call.person == "local" else f" --person {shlex.quote(call.person)}"
    program, options = find_own_shell_name(), database + person
    return [
        f'{program} recall "When do they fly home?" --limit 3 --why{options}',
        f'{program} context {_CONVERSATION} "Plan dinner for tonight." --budget 400{options}',
        f"{program} history {_CONVERSATION} --limit 4{options}",
        f'{program} add {_CONVERSATION} user "Please remind me of the dinner."{options}',
        f"{program} doctor{options}",
    ]
