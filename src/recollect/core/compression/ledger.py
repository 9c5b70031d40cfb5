"""The ledger: the facts, preferences, decisions and open points of a conversation that must not be lost.

Entries are only added. The one thing that changes in an entry is `valid_to`, when a newer value of its slot ends it.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Final

from recollect.core.compression import labels
from recollect.core.language.talk_language import talk_language
from recollect.core.language.utterances import Language
from recollect.core.models import JsonObject, Record

PREFERENCE: Final = "preference"
DECISION: Final = "decision"
FACT: Final = "fact"
URL: Final = "url"
STRUCTURE: Final = "structure"
ENTITY: Final = "entity"
QUESTION: Final = "question"  # an open point: missing data, or something still to be settled
INTENT: Final = "intent"
KINDS: Final = (PREFERENCE, DECISION, FACT, URL, STRUCTURE, ENTITY, QUESTION, INTENT)

_CACHED_TEXTS: Final = 1 << 14

SlotKey = tuple[str, str, str]  # kind, subject and slot


@dataclass(frozen=True, slots=True)
class Entry(Record):
    """One thing to be remembered.

    `subject` is the person it belongs to: the speaker's name, or the role. `slot` names the matter ("home", "allergy",
    "theme"). `text` is the whole statement ("lives in Berlin"), `value` its core ("Berlin"). If the slot is `single`,
    only one value holds at a time. An entry with `ends` says that its value no longer holds.
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
        """Return whether the entry is still valid."""
        return self.valid_to is None

    @property
    def is_important(self) -> bool:
        """Return whether the entry may count as important data. What only the assistant said may not, but for links.

        An assistant that was talked into "we decided to …" decides nothing. When a person agrees, `extract` adds an
        entry of that person.
        """
        return self.subject != "assistant" or self.kind == URL


def merge(old: Sequence[Entry], new: Iterable[Entry]) -> list[Entry]:
    """Return the old entries in their order, followed by the new entries that say something else.

    Of an old entry only `valid_to` can change. Merging the same new entries twice adds nothing.
    """
    merged = list(old)
    slots: defaultdict[SlotKey, _Slot] = defaultdict(_Slot)
    ended_entries = set()  # without their `valid_to`, so that the same entry is recognised when it comes again
    for index, entry in enumerate(merged):
        if entry.holds:
            slots[slot_key(entry)].put(entry, index)
        else:
            ended_entries.add(replace(entry, valid_to=None))
    for entry in new:
        slot = slots[slot_key(entry)]
        if slot.has(entry) or entry in ended_entries:
            continue
        superseded = [index for index in slot.rivals(entry) if _supersedes(entry, merged[index])]
        later_times = [merged[index].at for index in superseded if merged[index].at > entry.at]
        if later_times and not entry.ends:
            # The message is older than the value that holds now, so this value was over when that one began.
            merged.append(replace(entry, valid_to=min(later_times)))
            ended_entries.add(entry)
            continue
        for index in superseded:
            slot.drop(merged[index])
            ended_entries.add(merged[index])
            merged[index] = replace(merged[index], valid_to=max(entry.at, merged[index].at))
        slot.put(entry, len(merged))
        merged.append(entry)
    return merged


class _Slot:
    """The valid entries of one slot, by their values.

    A dictionary, because a long conversation has thousands of links and names in one slot.
    """

    def __init__(self) -> None:
        self._indexes: dict[tuple[bool, str], int] = {}  # into the merged list

    def has(self, entry: Entry) -> bool:
        return _value_key(entry) in self._indexes

    def put(self, entry: Entry, index: int) -> None:
        self._indexes[_value_key(entry)] = index

    def drop(self, entry: Entry) -> None:
        self._indexes.pop(_value_key(entry), None)

    def rivals(self, entry: Entry) -> list[int]:
        """Return the indexes of entries that this one may supersede.

        An entry that is neither single nor an ending can supersede only endings.
        """
        return [index for (ends, _), index in self._indexes.items() if entry.single or entry.ends or ends]


def _value_key(entry: Entry) -> tuple[bool, str]:
    """Return a key under which entries of one slot that say the same are equal.

    An event may happen again, so its text counts, which contains the date.
    """
    return entry.ends, normalise_value(entry.text if entry.slot == "event" else entry.value)


def slot_key(entry: Entry) -> SlotKey:
    """Return the key that two entries must share for one to supersede the other."""
    return entry.kind, normalise_words(entry.subject), normalise_words(entry.slot)


def _supersedes(new: Entry, old: Entry) -> bool:
    if new.ends:
        return not old.ends and (not new.value or _is_same_or_part(new.value, old.value))
    return (new.single and (old.single or old.ends)) or (old.ends and _is_same_or_part(old.value, new.value))


def _is_same_or_part(value: str, other: str) -> bool:
    """Return whether one value has all the words of the other. Empty values have nothing in common."""
    words, other_words = set(normalise_words(value).split()), set(normalise_words(other).split())
    return bool(words and other_words) and (words <= other_words or other_words <= words)


def normalise_value(value: str) -> str:
    """Return a key under which equal values compare equal. Keeps punctuation (C ≠ C++), ignores case and spaces.

    Punctuation at both ends is dropped.
    """
    return " ".join(unicodedata.normalize("NFKC", value).casefold().split()).strip(".,;:!?؟،؛ ")


@lru_cache(maxsize=_CACHED_TEXTS)
def normalise_words(text: str) -> str:
    """Return the words of a text for comparison: without case, accents and punctuation, with single spaces."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(c if c.isalnum() else " " for c in letters if not unicodedata.combining(c)).split())


def forget() -> None:
    """Clear the cache of normalised texts. It may hold the words of erased messages."""
    normalise_words.cache_clear()


def to_important_data(entries: Sequence[Entry]) -> JsonObject:
    """Return the valid entries of important data as the JSON object of a brief: `ledger`, always with seven keys.

    The names of slots are in the language of the entries.
    """
    valid = [entry for entry in entries if entry.holds and entry.is_important]
    language = talk_language([entry.text for entry in valid if entry.kind != URL])
    data: JsonObject = {
        "user_preferences": _group_values(valid, PREFERENCE, language),
        "key_decisions": [render_entry(entry) for entry in valid if entry.kind == DECISION],
        "important_facts": [render_entry(entry) for entry in valid if entry.kind == FACT],
        "source_urls": [entry.value for entry in valid if entry.kind == URL],
        "document_structure": {
            slot: values if isinstance(values, list) else [values]
            for slot, values in _group_values(valid, STRUCTURE, language).items()
        },
        "entities": list(dict.fromkeys(entry.value for entry in valid if entry.kind == ENTITY)),
        "custom_fields": {},
    }
    goals = [render_entry(entry) for entry in valid if entry.kind == INTENT]
    questions = [render_entry(entry) for entry in valid if entry.kind == QUESTION]
    if goals:
        data["custom_fields"]["goals"] = goals
    if questions:
        data["custom_fields"]["open_questions"] = questions
    return data


def render_entry(entry: Entry) -> str:
    """Return the entry's text, with its subject in front unless that is the user or is named in the text."""
    if entry.subject in ("user", "") or normalise_words(entry.subject) in normalise_words(entry.text):
        return entry.text
    return f"{entry.subject}: {entry.text}"


def _group_values(entries: Iterable[Entry], kind: str, language: Language) -> dict[str, str | list[str]]:
    """Return the values of a kind by slot: a string, or a list if a slot has several."""
    values_by_slot: dict[str, list[str]] = {}
    for entry in entries:
        if entry.kind == kind and not entry.ends:
            label = labels.slot_label(entry.slot, language)
            slot = label if entry.subject in ("user", "") else f"{entry.subject}: {label}"
            values_by_slot.setdefault(slot, []).append(entry.value)
    return {slot: values if len(values) > 1 else values[0] for slot, values in values_by_slot.items()}
