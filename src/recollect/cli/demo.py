"""The demo: a conversation that comes with the package, in a database of its own."""

from __future__ import annotations

import shlex
from importlib import resources
from typing import Final

from recollect.cli.catch_up import catch_up
from recollect.cli.display import counted, note, out, show_json, show_messages
from recollect.cli.log import find_conversation, show_conversations, show_stats
from recollect.cli.options import DEFAULT_DATABASE, Call, this_program
from recollect.cli.recall import show_hits
from recollect.core import times

DEMO_DATABASE: Final = "recollect-demo.db"
_CONVERSATION: Final = "trip"
_QUESTION: Final = "Which food could make Sara ill?"


def demo(call: Call) -> None:
    """Look around in a conversation that comes along. Running it again adds nothing."""
    packaged = resources.files("recollect").joinpath("demo", "trip.ndjson")
    with resources.as_file(packaged) as file, call.open() as memory:
        imported = memory.import_file(file)
        catch_up(memory)
        about = find_conversation(memory, _CONVERSATION)
        found, said, totals = memory.conversations(), memory.history(_CONVERSATION), memory.stats()
        recalled = memory.recall(_QUESTION, conversation=_CONVERSATION, limit=2)
    next_steps = _next_steps(call)
    if call.json:
        parts = {"imported": imported, "conversations": found, "history": said, "stats": totals}
        parts |= {"recall": recalled, "next": next_steps}
        show_json(parts)
        return
    note(f"{counted(imported.added, 'message')} imported into {call.shown_db}, {imported.known} were there already.\n")
    show_conversations(found)
    out("")
    show_messages(said, times.load_zone(about.zone))
    out("")
    show_stats(totals)
    out(f"\n{_QUESTION}  (no model, no network: by meaning and words)")
    show_hits(recalled.hits, {_CONVERSATION: about.zone}, why=False)
    note("\nTry next:\n" + "\n".join(f"  {step}" for step in next_steps))


def _next_steps(call: Call) -> list[str]:
    where = "" if call.db == DEFAULT_DATABASE else f" --db {shlex.quote(call.shown_db)}"
    who = "" if call.person == "local" else f" --person {shlex.quote(call.person)}"
    program = this_program()
    return [
        f'{program} recall "When do they fly home?" --limit 3 --why{where}{who}',
        f'{program} context {_CONVERSATION} "Plan dinner for tonight." --budget 400{where}{who}',
        f"{program} history {_CONVERSATION} --limit 4{where}{who}",
        f'{program} add {_CONVERSATION} user "Please remind me of the dinner."{where}{who}',
        f"{program} doctor{where}{who}",
    ]
