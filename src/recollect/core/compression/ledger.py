"""The ledger: what must not be lost of a conversation, entry by entry.

An entry is never dropped and never changed, except that a newer value of the same slot ends its validity.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
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
    slots: defaultdict[tuple[str, str, str], _Slot] = defaultdict(_Slot)
    over = set()
    for place, entry in enumerate(merged):
        if entry.holds:
            slots[slot_of(entry)].put(entry, place)
        else:
            over.add(replace(entry, valid_to=None))
    for entry in new:
        slot = slots[slot_of(entry)]
        if slot.has(entry) or entry in over:
            continue
        ended = [place for place in slot.rivals(entry) if _ends(entry, merged[place])]
        later = [merged[place].at for place in ended if merged[place].at > entry.at]
        if later and not entry.ends:  # told late: it was over by then
            merged.append(replace(entry, valid_to=min(later)))
            over.add(entry)
            continue
        for place in ended:
            slot.drop(merged[place])
            over.add(merged[place])
            merged[place] = replace(merged[place], valid_to=max(entry.at, merged[place].at))
        slot.put(entry, len(merged))
        merged.append(entry)
    return merged


class _Slot:
    """The entries of a slot that hold, by what they say. Links and names of a long talk are many in one slot."""

    def __init__(self) -> None:
        self._places: dict[tuple[bool, str], int] = {}

    def has(self, entry: Entry) -> bool:
        return _said(entry) in self._places

    def put(self, entry: Entry, place: int) -> None:
        self._places[_said(entry)] = place

    def drop(self, entry: Entry) -> None:
        self._places.pop(_said(entry), None)

    def rivals(self, entry: Entry) -> list[int]:
        """Places of those that the entry may end: most can end nothing but an ending."""
        return [place for (ends, _), place in self._places.items() if entry.single or entry.ends or ends]


def _said(entry: Entry) -> tuple[bool, str]:
    """What makes two entries of a slot the same. Something may happen again: the text of an event has its date."""
    return entry.ends, same(entry.text if entry.slot == "event" else entry.value)


def slot_of(entry: Entry) -> tuple[str, str, str]:
    """What two entries must share for one to take the other's place."""
    return entry.kind, normal(entry.subject), normal(entry.slot)


def _ends(new: Entry, old: Entry) -> bool:
    if new.ends:
        return not old.ends and (not new.value or _alike(new.value, old.value))
    return (new.single and (old.single or old.ends)) or (old.ends and _alike(old.value, new.value))


def _alike(one: str, other: str) -> bool:
    """Whether two values are the same, or one says the other and more."""
    a, b = set(normal(one).split()), set(normal(other).split())
    return bool(a and b) and (a <= b or b <= a)


def same(value: str) -> str:
    """What two values share that are the same: signs count ("C", "C++"), case and blanks do not."""
    return " ".join(unicodedata.normalize("NFKC", value).casefold().split()).strip(".,;:!?؟،؛ ")


@lru_cache(maxsize=1 << 14)
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
    found: dict[str, list[str]] = {}
    for entry in entries:
        if entry.kind == kind and not entry.ends:
            slot = entry.slot if entry.subject in ("user", "") else f"{entry.subject}: {entry.slot}"
            found.setdefault(slot, []).append(entry.value)
    return {slot: values if len(values) > 1 else values[0] for slot, values in found.items()}
