"""The page on security names tests that exist, and every numbered threat has one."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from docs.markdown import DOCS, ROOT

PAGE = (DOCS / "security.md").read_text("utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_the_page_names_exists(file: str, name: str) -> None:
    assert name in names_in(file)


def test_every_threat_names_an_answer_and_a_test() -> None:
    heads = ("| threat", "| ASVS")
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(heads)]
    threats = [row for row in rows if row.count("|") == 5]
    assert len(threats) > 50
    for row in threats:
        _, threat, answer, test, _, _ = row.split("|")
        assert threat.strip() and answer.strip(), row
        assert "`tests/" in test, row
