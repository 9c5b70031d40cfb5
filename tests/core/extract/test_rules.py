"""Rules of the ledger together: whether any of them matches is known by one pattern."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.core.extract import arabic, english
from recollect.core.extract.arabic_words import fold


def texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts(each)


LABELS = sorted(set(texts(json.loads((Path(__file__).parents[2] / "data" / "ledger.json").read_text("utf-8")))))


@pytest.mark.parametrize("name", english._RULES)
def test_english_rules_are_tried_where_one_matches(name: str) -> None:
    found = 0
    for text in LABELS:
        for start in english._starts(text):
            one = any(rule.pattern.match(text, start) for rule in english._RULES[name])
            assert one == bool(english._ANY[name].match(text, start)), text
            found += one
    assert found


def test_arabic_rules_are_tried_where_one_matches() -> None:
    found = 0
    for text in (fold(text)[0] for text in LABELS):
        for start in arabic._starts(text):
            one = any(rule.pattern.match(text, start) for rule in arabic._RULES)
            assert one == bool(arabic._ANY.match(text, start)), text
            found += one
    assert found
