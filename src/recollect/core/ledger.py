"""The ledger: what must not be lost of a conversation, entry by entry.

An entry is never dropped and never changed, except that a newer value of the same slot ends its validity.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from recollect.core.models import JsonObject, Record

PREFERENCE: Final = "preference"
DECISION: Final = "decision"
FACT: Final = "fact"
URL: Final = "url"
STRUCTURE: Final = "structure"
ENTITY: Final = "entity"
QUESTION: Final = "question"  # open: data that is missing, something still to be settled
INTENT: Final = "intent"
KINDS: Final = (PREFERENCE, DECISION, FACT, URL, STRUCTURE, ENTITY, QUESTION, INTENT)


@dataclass(frozen=True, slots=True)
class Entry(Record):
    """One thing to be remembered.

    `subject` is whose it is (the speaker's name, or the role), `slot` what it is about ("home", "allergy", "theme"),
    `text` tells it in full ("lives in Berlin"), `value` is its heart ("Berlin"). Of a `single` slot only one value
    holds at a time. An entry that `ends` says that the value holds no more.
    """

    kind: str
    subject: str
    slot: str
    value: str
    text: str
    sources: tuple[str, ...]  # ids of messages
    seq: int  # of the first source
    at: datetime  # from when it holds
    single: bool = False
    ends: bool = False
    trust: str = "typed"  # the source of its message: typed, assistant, imported, tool
    valid_to: datetime | None = None

    @property
    def holds(self) -> bool:
        return self.valid_to is None


def merge(old: Sequence[Entry], new: Iterable[Entry]) -> list[Entry]:
    """The old entries, in their order, and after them those of the new that say something else.

    Of the old ones only `valid_to` can differ afterwards.
    """
    merged = list(old)
    current: dict[tuple[str, str, str], list[int]] = {}
    for place, entry in enumerate(merged):
        if entry.holds:
            current.setdefault(_slot(entry), []).append(place)
    for entry in new:
        rivals = current.setdefault(_slot(entry), [])
        if any(_same(merged[place], entry) for place in rivals):
            continue
        ended = [place for place in rivals if _ends(entry, merged[place])]
        later = [merged[place].at for place in ended if merged[place].at > entry.at]
        if later and not entry.ends:  # told late: it was over by then
            merged.append(replace(entry, valid_to=min(later)))
            continue
        for place in ended:
            merged[place] = replace(merged[place], valid_to=max(entry.at, merged[place].at))
            rivals.remove(place)
        rivals.append(len(merged))
        merged.append(entry)
    return merged


def _slot(entry: Entry) -> tuple[str, str, str]:
    """What two entries must share for one to take the other's place."""
    return entry.kind, normal(entry.subject), normal(entry.slot)


def _same(one: Entry, other: Entry) -> bool:
    return one.ends == other.ends and normal(one.value) == normal(other.value)


def _ends(new: Entry, old: Entry) -> bool:
    if new.ends:
        return not old.ends and (not new.value or _alike(new.value, old.value))
    return (new.single and (old.single or old.ends)) or (old.ends and _alike(old.value, new.value))


def _alike(one: str, other: str) -> bool:
    """Whether two values are the same, or one says the other and more."""
    a, b = set(normal(one).split()), set(normal(other).split())
    return bool(a and b) and (a <= b or b <= a)


def normal(text: str) -> str:
    """For comparing: without case, marks and signs."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(c if c.isalnum() else " " for c in folded if not unicodedata.combining(c)).split())


def as_data(entries: Sequence[Entry]) -> JsonObject:
    """What holds, in the shape of document B's important data."""
    held = [entry for entry in entries if entry.holds]
    data: JsonObject = {
        "user_preferences": _grouped(held, PREFERENCE),
        "key_decisions": [told(entry) for entry in held if entry.kind == DECISION],
        "important_facts": [told(entry) for entry in held if entry.kind == FACT],
        "source_urls": [entry.value for entry in held if entry.kind == URL],
        "document_structure": {
            slot: values if isinstance(values, list) else [values] for slot, values in _grouped(held, STRUCTURE).items()
        },
        "entities": list(dict.fromkeys(entry.value for entry in held if entry.kind == ENTITY)),
        "custom_fields": {},
    }
    goals = [told(entry) for entry in held if entry.kind == INTENT]
    questions = [told(entry) for entry in held if entry.kind == QUESTION]
    if goals:
        data["custom_fields"]["goals"] = goals
    if questions:
        data["custom_fields"]["open_questions"] = questions
    return data


def told(entry: Entry) -> str:
    """The entry in words, with its subject where that is not simply the user."""
    if entry.subject in ("user", "") or normal(entry.subject) in normal(entry.text):
        return entry.text
    return f"{entry.subject}: {entry.text}"


def _grouped(entries: Iterable[Entry], kind: str) -> dict[str, str | list[str]]:
    """Values by slot; a list where a slot has several."""
    found: dict[str, str | list[str]] = {}
    for entry in entries:
        if entry.kind != kind:
            continue
        slot = entry.slot if entry.subject in ("user", "") else f"{entry.subject}: {entry.slot}"
        before = found.get(slot)
        if before is None:
            found[slot] = entry.value
        else:
            found[slot] = [*([before] if isinstance(before, str) else before), entry.value]
    return found
