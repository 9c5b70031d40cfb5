"""The form of a rule for ledger entries, and its use on a sentence. Knows no language.

A language keeps its rules as text tables, which `parse_rules` reads. A rule looks like this:

    fact | home | single place | lives in {v}
        (?:I|we) ~(?:live|reside) (?:in|near|outside|at)_
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

WHOLE_CLAUSE: Final = "*"  # as the text of a rule: quote the clause to its end, not only to the end of the value
MAX_VALUE_CHARS: Final = 240
MAX_CLAUSE_WORDS: Final = 40
_MAX_ITEM_WORDS: Final = 4  # of an item that is followed by another one
_MAX_LAST_ITEM_WORDS: Final = 6


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, separated by white space."""
    return frozenset(text.split())


class RuleMatch(NamedTuple):
    """The parts of a ledger entry that a rule found in a sentence. It does not know its message yet."""

    kind: str
    slot: str
    value: str
    text: str
    single: bool = False
    ends: bool = False


class Rule(NamedTuple):
    """A pattern that is matched at the beginning of a clause, and the entry that it makes.

    The value is the group `v` of the pattern, or else the text after the match, cut by the style. `slot` and `text`
    may name groups in braces. Without `text`, the entry quotes the clause up to the end of the value.
    """

    kind: str
    slot: str
    pattern: re.Pattern[str]
    text: str = ""
    style: str = "name"  # name: a few words; list: several names; clause: a statement; long: one with commas
    single: bool = False
    ends: bool = False
    check: Callable[[str], bool] | None = None  # says whether the value makes sense for this rule


class Grammar(NamedTuple):
    """The patterns that end values in a language, and those that join the items of a list."""

    name_end: re.Pattern[str]
    clause_end: re.Pattern[str]
    joint: re.Pattern[str]  # between two items
    last_joint: re.Pattern[str]  # before the last item
    name_words: int = 7  # maximum words of a name
    whole: re.Pattern[str] | None = None  # begins a value that is one clause, though it may contain commas


def parse_rules(
    text: str,
    shorthand: Mapping[str, str],
    checks: Mapping[str, Callable[[str], bool]],
    *,
    prefix: str = "",
    flags: int = 0,
) -> tuple[Rule, ...]:
    """Return the rules of a table. A rule is a line `kind | slot | marks | text`, with its pattern indented below it.

    Marks are `single`, `ends`, a style, and the name of a check. Shorthand in a pattern is replaced in the order of
    the mapping. An underscore at the end of a pattern stands for a space.
    """
    rules: list[Rule] = []
    for block in re.split(r"\n(?=\S)", text.strip()):
        head, *pieces = block.split("\n")
        pattern = "".join(piece.strip() for piece in pieces)
        pattern = f"{pattern[:-1]} " if pattern.endswith("_") else pattern
        for short, full in shorthand.items():
            pattern = pattern.replace(short, full)
        kind, slot, mark_text, template = (part.strip() for part in f"{head} | | |".split("|")[:4])
        marks = mark_text.split()
        rules.append(
            Rule(
                kind,
                slot,
                re.compile(f"{prefix}(?:{pattern})", flags),
                template,
                style=next((mark for mark in marks if mark in _STYLES), "name"),
                single="single" in marks,
                ends="ends" in marks,
                check=next((checks[mark] for mark in marks if mark in checks), None),
            )
        )
    return tuple(rules)


def combine_patterns(rules: Sequence[Rule]) -> re.Pattern[str]:
    """Return one pattern that matches where at least one rule does.

    Most clauses match no rule. This pattern finds that out faster than trying the rules one by one.
    """
    patterns = (re.sub(r"\(\?P<\w+>", "(?:", rule.pattern.pattern) for rule in rules)
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), rules[0].pattern.flags)


_STYLES: Final = ("name", "list", "clause", "long")


def apply_rule(
    rule: Rule, match: re.Match[str], grammar: Grammar, source: str = "", positions: Sequence[int] = ()
) -> Iterator[RuleMatch]:
    """Yield the entries that a rule makes of its match; several if its style is a list.

    If the matched text was normalised, `source` is the original and `positions` maps each matched character to it.
    """
    sentence, start = match.string, match.start()

    def original(begin: int, end: int) -> str:
        if not positions:
            return sentence[begin:end].strip(_EDGES)
        return source[positions[begin] : positions[end - 1] + 1].strip(_EDGES) if begin < end else ""

    groups = match.groupdict()
    if "v" in groups:
        spans = [match.span("v")]
    else:
        stop = min(len(sentence), match.end() + MAX_VALUE_CHARS)
        spans = list(_find_values(rule.style, sentence, match.end(), stop, grammar))
    fields = {name: original(*match.span(name)) for name, value in groups.items() if name != "v" and value}
    fields = dict.fromkeys(groups, "") | fields
    fields.pop("v", None)
    for begin, end in spans:
        value = original(begin, end)
        if not value or (rule.check is not None and not rule.check(value)):
            return
        if rule.text.endswith("{v}") and rule.style == "name":
            stop = min(len(sentence), end + MAX_VALUE_CHARS)
            end = _find_end(grammar.clause_end, sentence, end, stop, MAX_CLAUSE_WORDS)
            text = " ".join(rule.text.format(v=original(begin, end), **fields).split())
        elif rule.text and rule.text != WHOLE_CLAUSE:
            text = " ".join(rule.text.format(v=value, **fields).split())
        else:
            end = max(end, match.end())
            if rule.text:
                end = _find_end(grammar.clause_end, sentence, end, len(sentence), MAX_CLAUSE_WORDS)
            text = original(start, end)
        slot = " ".join(rule.slot.format(**fields).lower().split()).replace(" :", ":")
        yield RuleMatch(rule.kind, slot, value, text, rule.single, rule.ends)


_EDGES: Final = " \t,.;:!?،؛؟…-–—\"'“”«»()[]*_`"
_WORD: Final = re.compile(r"\S+")


def _find_values(style: str, text: str, start: int, stop: int, grammar: Grammar) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each value in the text after a match."""
    if style == "clause" or (style == "list" and grammar.whole and grammar.whole.match(text, start)):
        yield start, _find_end(grammar.clause_end, text, start, stop, MAX_CLAUSE_WORDS)
        return
    if style == "name":
        yield start, _find_end(grammar.name_end, text, start, stop, grammar.name_words)
        return
    items = list(_find_items(text, start, stop, grammar))
    is_joined = any(grammar.last_joint.search(text, item[1], following[0]) for item, following in pairwise(items))
    # Two items without "and" are a value and the next part of the sentence.
    yield from items if is_joined or len(items) > 2 else items[:1]


def _find_items(text: str, start: int, stop: int, grammar: Grammar) -> Iterator[tuple[int, int]]:
    while start < stop:
        joint = grammar.joint.search(text, start, stop)
        border = joint.start() if joint else stop
        end = _find_end(grammar.name_end, text, start, border, grammar.name_words)
        if len(text[start:end].split()) > (_MAX_ITEM_WORDS if border < stop else _MAX_LAST_ITEM_WORDS):
            return  # too long for an item: the sentence has gone on to something else
        yield start, end
        if joint is None or text[end:border].strip():
            return
        start = joint.end()


def _find_end(pattern: re.Pattern[str], text: str, start: int, stop: int, max_words: int) -> int:
    """Return where a value ends: at the pattern, after `max_words` words, or at `stop`, whichever comes first."""
    match = pattern.search(text, start, stop)
    stop = match.start() if match else stop
    for count, word in enumerate(_WORD.finditer(text, start, stop), 1):
        if count == max_words:
            return word.end()
    return stop
