"""The record of one compression: its sizes, the main goal of the conversation, and what was new in the messages.

It is made of the ledger and the statements. A model may write its texts instead; the sizes are always computed here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from recollect.core.compression import ledger
from recollect.core.compression.ledger import Entry
from recollect.core.compression.narrative import Statement, render_narrative
from recollect.core.compression.summary import Summary
from recollect.core.language import analyser, sentences
from recollect.core.message import Message
from recollect.core.models import JsonObject

MIN_KEY_FACTS: Final = 2  # if fewer are new, older ones are repeated
MAX_KEY_FACTS: Final = 3
MIN_FACT_WORDS: Final = 3  # content words of a sentence that says something by itself
MAX_INTENT_CHARACTERS: Final = 160
REPEATED_SHARE: Final = 0.6  # a text that shares so much of its content words with another repeats it
FIRST_GOAL_FACTOR: Final = 1.5  # for the goal that was stated first, or that the last brief had
NAMED_GOAL_FACTOR: Final = 3.0  # for a goal that is called so
_NAMED_GOAL: Final = re.compile(r"^goal: |\b(?:goal|aim|objective|purpose)\b|هدف|غايت", re.IGNORECASE)
_ASKED: Final = re.compile(r"^.{1,60}? asks? |[?？؟]\s*$")
_VITAL_SLOTS: Final = ("allergy", "diet", "health", "medication", "disability")


def build_record(
    messages: Sequence[Message],
    statements: Sequence[Statement],
    entries: Sequence[Entry],
    *,
    old: Summary | None,
    tokens: tuple[int, int],
    now: datetime,
    zone: str,
    model_used: str,
) -> JsonObject:
    """Return the record of one compression as JSON: its sizes, and what was new in the compressed messages.

    `tokens` are those of a prompt before and after: of the old brief and the turns that leave the prompt, and of the
    new brief. `compression_ratio` is the share saved; 0 if nothing is saved. A ratio of message counts would ignore
    their length.
    """
    tokens_before, tokens_after = tokens
    message_ids = {message.id for message in messages}
    new_entries = [entry for entry in entries if entry.holds and message_ids.intersection(entry.sources)]
    new_statements = sorted(
        (statement for statement in statements if message_ids.intersection(statement.sources)),
        key=lambda statement: -statement.weight,
    )
    return {
        "original_message_count": len(messages),
        "compressed_message_count": 1,
        "compression_ratio": round(max(0.0, 1 - tokens_after / tokens_before), 4) if tokens_before else 0.0,
        "timespan": format_timespan(messages, zone),
        "summary": render_narrative(sorted(new_statements[:2], key=lambda statement: statement.at)),
        "intent": choose_intent(messages, entries, old),
        "key_facts": choose_key_facts(messages, new_statements, entries),
        "decisions": _render(new_entries, ledger.DECISION),
        "missing_data": _render(new_entries, ledger.QUESTION),
        "timestamp": now.isoformat(),
        "model_used": model_used,
        "tokens_before": tokens_before,
        "tokens_after": tokens_after,
    }


def _render(entries: Iterable[Entry], kind: str) -> list[str]:
    return drop_repetitions(ledger.render_entry(entry) for entry in entries if entry.kind == kind)


def drop_repetitions(texts: Iterable[str]) -> list[str]:
    """Return the texts without those that say what an earlier one says: most of their content words are the same."""
    kept: list[tuple[str, frozenset[str]]] = []
    for text in texts:
        words = _content_words(text)
        if not any(_repeats(words, other) or text == other_text for other_text, other in kept):
            kept.append((text, words))
    return [text for text, _ in kept]


def _repeats(words: frozenset[str], other: frozenset[str]) -> bool:
    smaller = min(len(words), len(other))
    return smaller > 0 and len(words & other) >= REPEATED_SHARE * smaller


def _content_words(text: str) -> frozenset[str]:
    """Return the content words of a text, without those that name the speaker."""
    return frozenset(analyser.words(text)) - _SPEAKER_WORDS


_SPEAKER_WORDS: Final = frozenset(analyser.words("the user says asks the assistant says asks المستخدم المساعد"))


def choose_key_facts(
    messages: Sequence[Message], statements: Sequence[Statement], entries: Sequence[Entry]
) -> list[str]:
    """Return two or three things that are known, without repetition: new entries, what people said, older entries.

    What keeps a person healthy comes first, then what has a number or a name in it. Questions are no facts.
    """
    roles = {message.id: message.role for message in messages}
    facts = [entry for entry in entries if entry.holds and entry.kind in (ledger.FACT, ledger.PREFERENCE)]
    facts.sort(key=lambda entry: (entry.slot not in _VITAL_SLOTS, not sentences.count_facts(entry.text)))
    new_facts = [ledger.render_entry(entry) for entry in facts if not roles.keys().isdisjoint(entry.sources)]
    told = [statement for statement in statements if _says_something(statement.text)]
    told.sort(key=lambda statement: _is_advice(statement, roles))
    chosen = drop_repetitions([*new_facts, *(statement.text for statement in told)])[:MAX_KEY_FACTS]
    if len(chosen) < MIN_KEY_FACTS:
        chosen = drop_repetitions([*chosen, *map(ledger.render_entry, facts)])[:MIN_KEY_FACTS]
    return chosen


def _says_something(text: str) -> bool:
    return not _ASKED.search(text) and len(_content_words(text)) >= MIN_FACT_WORDS


def _is_advice(statement: Statement, roles: Mapping[str, str]) -> bool:
    """Return whether only an assistant said it."""
    return all(roles.get(source) == "assistant" for source in statement.sources)


def choose_intent(messages: Sequence[Message], entries: Sequence[Entry], old: Summary | None) -> str:
    """Return the main goal of the conversation: of all goals that were stated, the one that it keeps to.

    A goal counts more the more messages, and statements of the old summary, have its words. The first goal counts
    more, and so does the one that the old brief had: a wish by the way does not replace it. Where no goal was stated,
    it is what the person said first.
    """
    goals = [entry for entry in entries if entry.holds and entry.kind == ledger.INTENT and not entry.ends]
    if not goals:
        return (old.intent if old is not None else "") or _first_user_words(messages)
    texts = [message.content for message in messages if message.role in ("user", "assistant")]
    texts += [statement.text for statement in old.statements] if old is not None else []
    counts = Counter(word for text in texts for word in _content_words(text))
    old_intent = old.intent if old is not None else ""
    incumbent = next((goal for goal in goals if _shorten(ledger.render_entry(goal)) == old_intent), goals[0])

    def weigh(goal: Entry) -> float:
        words = _content_words(goal.text)
        weight = 1 + sum(counts[word] for word in words) / max(len(words), 1)
        weight *= FIRST_GOAL_FACTOR if goal is incumbent else 1
        return weight * (NAMED_GOAL_FACTOR if _NAMED_GOAL.search(goal.text) else 1)

    return _shorten(ledger.render_entry(max(goals, key=weigh)))


def _first_user_words(messages: Sequence[Message]) -> str:
    """Return what the person said first, without greetings. Of several sentences, the first with a wish or question."""
    for message in messages:
        if message.role != "user":
            continue
        told = [text for text in sentences.split(message.content) if not sentences.is_acknowledgement(text)]
        content = [text for text in told if not sentences.is_small_talk(text)] or told
        wishes = [text for text in content if sentences.is_intent(text) or sentences.is_question(text)]
        if content:
            return _shorten((wishes or content)[0])
    return ""


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_INTENT_CHARACTERS else line[: MAX_INTENT_CHARACTERS - 1].rstrip() + "…"


def format_timespan(messages: Sequence[Message], zone: str) -> str:
    """Return the first and last local time, as "10:00–14:30"; with dates if they are on different days."""
    if not messages:
        return ""
    info = ZoneInfo(zone)
    first = min(message.at for message in messages).astimezone(info)
    last = max(message.at for message in messages).astimezone(info)
    form = "%H:%M" if first.date() == last.date() else "%Y-%m-%d %H:%M"
    return f"{first.strftime(form)}–{last.strftime(form)}"
