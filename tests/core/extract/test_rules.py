"""The combined pattern of a rule set matches exactly where one of its rules does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.core.extract import arabic, english
from recollect.core.extract.arabic_words import normalise


def strings_in(value: object) -> Iterator[str]:
    """Yield all strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings_in(part)


LABELS = json.loads((Path(__file__).parents[2] / "data" / "ledger.json").read_text("utf-8"))
TEXTS = sorted(set(strings_in(LABELS)))


@pytest.mark.parametrize("rule_set", english._RULES)
def test_english_rules_are_tried_where_one_matches(rule_set: str) -> None:
    matches = 0
    for text in TEXTS:
        for start in english._clause_starts(text):
            has_match = any(rule.pattern.match(text, start) for rule in english._RULES[rule_set])
            assert has_match == bool(english._ANY_RULE[rule_set].match(text, start)), text
            matches += has_match
    assert matches


def test_arabic_rules_are_tried_where_one_matches() -> None:
    matches = 0
    for text in (normalise(text)[0] for text in TEXTS):
        for start in arabic._clause_starts(text):
            has_match = any(rule.pattern.match(text, start) for rule in arabic._RULES)
            assert has_match == bool(arabic._ANY_RULE.match(text, start)), text
            matches += has_match
    assert matches
