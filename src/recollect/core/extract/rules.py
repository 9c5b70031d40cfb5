"""How a rule for ledger entries looks, and how it is used on a sentence. Knows no language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

WHOLE: Final = "*"  # as text of a rule: the clause to its end, not only to the value's
LONGEST: Final = 240  # characters of a sentence that a value may take
WORDS: Final = 40  # of a clause


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Finding(NamedTuple):
    """An entry that does not know its message yet."""

    kind: str
    slot: str
    value: str
    text: str
    single: bool = False
    ends: bool = False


class Rule(NamedTuple):
    """Matched where a clause begins. The value is the group `v`, or else what follows the match, cut by its style.

    `slot` and `text` may name groups in braces; without `text` the clause is quoted up to its value.
    """

    kind: str
    slot: str
    pattern: re.Pattern[str]
    text: str = ""
    style: str = "name"  # name: a few words; list: several of them; clause: a statement
    single: bool = False
    ends: bool = False
    check: Callable[[str], bool] | None = None


class Grammar(NamedTuple):
    """Where values end in a language, and what joins the items of a list."""

    name_end: re.Pattern[str]
    clause_end: re.Pattern[str]
    joint: re.Pattern[str]
    last_joint: re.Pattern[str]  # stands before the last item
    name_words: int = 7
    whole: re.Pattern[str] | None = None  # begins what is no list of names, though commas stand in it


def table(
    text: str,
    shorthand: Mapping[str, str],
    checks: Mapping[str, Callable[[str], bool]],
    *,
    prefix: str = "",
    flags: int = 0,
) -> tuple[Rule, ...]:
    """Rules from a table: a line `kind | slot | flags | text`, and under it, indented, the pattern.

    Flags are `one` (single), `ends`, a style, and the name of a check. An underscore at the end stands for a space.
    """
    rules: list[Rule] = []
    for block in re.split(r"\n(?=\S)", text.strip()):
        head, *pieces = block.split("\n")
        pattern = "".join(piece.strip() for piece in pieces)
        pattern = f"{pattern[:-1]} " if pattern.endswith("_") else pattern
        for short, full in shorthand.items():
            pattern = pattern.replace(short, full)
        kind, slot, marks, told = (part.strip() for part in f"{head} | | |".split("|")[:4])
        style = next((mark for mark in marks.split() if mark in _STYLES), "name")
        check = next((checks[mark] for mark in marks.split() if mark in checks), None)
        compiled = re.compile(f"{prefix}(?:{pattern})", flags)
        marked = {"single": "one" in marks.split(), "ends": "ends" in marks.split()}
        rules.append(Rule(kind, slot, compiled, told, style, check=check, **marked))
    return tuple(rules)


def any_of(rules: Sequence[Rule]) -> re.Pattern[str]:
    """Matches where at least one of the rules does: nearly always none, and that is known at once."""
    patterns = (re.sub(r"\(\?P<\w+>", "(?:", rule.pattern.pattern) for rule in rules)
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), rules[0].pattern.flags)


_STYLES: Final = ("name", "list", "clause", "long")


def apply(
    rule: Rule, match: re.Match[str], grammar: Grammar, source: str = "", places: Sequence[int] = ()
) -> Iterator[Finding]:
    """What a rule finds where it matched.

    If the text is folded, `source` is as it was written and `places` tells where its characters stand there.
    """
    sentence, start = match.string, match.start()

    def written(begin: int, end: int) -> str:
        if not places:
            return sentence[begin:end].strip(_EDGES)
        return source[places[begin] : places[end - 1] + 1].strip(_EDGES) if begin < end else ""

    groups = match.groupdict()
    if "v" in groups:
        spans = [match.span("v")]
    else:
        stop = min(len(sentence), match.end() + LONGEST)
        spans = list(_values(rule.style, sentence, match.end(), stop, grammar))
    told = {name: written(*match.span(name)) for name, value in groups.items() if name != "v" and value}
    told = dict.fromkeys(groups, "") | told
    told.pop("v", None)
    for begin, end in spans:
        value = written(begin, end)
        if not value or (rule.check is not None and not rule.check(value)):
            return
        if rule.text.endswith("{v}") and rule.style == "name":
            end = _until(grammar.clause_end, sentence, end, min(len(sentence), end + LONGEST), WORDS)
            text = " ".join(rule.text.format(v=written(begin, end), **told).split())
        elif rule.text and rule.text != WHOLE:
            text = " ".join(rule.text.format(v=value, **told).split())
        else:
            end = max(end, match.end())
            text = written(start, _until(grammar.clause_end, sentence, end, len(sentence), WORDS) if rule.text else end)
        slot = " ".join(rule.slot.format(**told).lower().split()).replace(" :", ":")
        yield Finding(rule.kind, slot, value, text, rule.single, rule.ends)


_EDGES: Final = " \t,.;:!?،؛؟…-–—\"'“”«»()[]*_`"
_WORD: Final = re.compile(r"\S+")


def _values(style: str, text: str, start: int, stop: int, grammar: Grammar) -> Iterator[tuple[int, int]]:
    if style == "clause" or (style == "list" and grammar.whole and grammar.whole.match(text, start)):
        yield start, _until(grammar.clause_end, text, start, stop, WORDS)
        return
    if style == "name":
        yield start, _until(grammar.name_end, text, start, stop, grammar.name_words)
        return
    items = list(_items(text, start, stop, grammar))
    joined = any(grammar.last_joint.search(text, one[1], other[0]) for one, other in pairwise(items))
    yield from items if joined or len(items) > 2 else items[:1]


def _items(text: str, start: int, stop: int, grammar: Grammar) -> Iterator[tuple[int, int]]:
    while start < stop:
        joint = grammar.joint.search(text, start, stop)
        border = joint.start() if joint else stop
        end = _until(grammar.name_end, text, start, border, grammar.name_words)
        if len(text[start:end].split()) > (4 if border < stop else 6):
            return  # no item of a list: the sentence has gone on to something else
        yield start, end
        if joint is None or text[end:border].strip():
            return
        start = joint.end()


def _until(end: re.Pattern[str], text: str, start: int, stop: int, words: int) -> int:
    found = end.search(text, start, stop)
    stop = found.start() if found else stop
    for count, word in enumerate(_WORD.finditer(text, start, stop), 1):
        if count == words:
            return word.end()
    return stop
