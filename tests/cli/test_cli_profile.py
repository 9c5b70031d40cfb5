"""`recollect profile`, `consent` and `audit`: what they print, and what they must not print."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def as_json(result: Any) -> Any:
    return json.loads(result.stdout)


def test_a_profile_is_set_field_by_field_and_shown_with_consent(run: Run) -> None:
    first = run("profile", "--set", "languages=Python, Rust", "--set", "goals=ship", "--notes", "I live in Oslo.")
    assert first.stdout == "A profile is stored.\n"
    assert "Oslo" not in run("profile").stdout
    assert run("consent", "--grant").stdout == "The profile may be used.\n"
    assert as_json(run("consent", "--json")) == {"consent": True}
    found = as_json(run("profile", "--set", "goals=", "--notes", "-", "--json", input="From a pipe."))
    assert (found["preferences"]["languages"], found["context"]["goals"]) == (["Python", "Rust"], None)
    assert found["notes"] == "From a pipe."
    assert "Python, Rust" in run("profile").stdout
    cleared = as_json(run("profile", "--clear", "--set", "domain=compilers", "--json"))
    assert (cleared["preferences"]["languages"], cleared["context"]["domain"]) == ([], "compilers")
    assert not as_json(run("profile", "--clear", "--json"))["stored"]


def test_an_unknown_field_is_refused(run: Run) -> None:
    assert "unknown_field" in run("profile", "--set", "age=7", code=2).stderr
    assert "unknown_field" in run("profile", "--set", "languages", code=2).stderr


def test_revoking_asks_first_and_prints_the_receipt(run: Run) -> None:
    run("profile", "--set", "domain=compilers")
    run("consent", "--grant")
    assert "not_confirmed" in run("consent", "--revoke", code=2).stderr
    assert "invalid_consent" in run("consent", "--revoke", "--grant", code=2).stderr
    assert as_json(run("consent", "--json")) == {"consent": True}
    receipt = as_json(run("consent", "--revoke", "--yes", "--json"))
    assert (receipt["counts"]["profiles"], receipt["remaining"], receipt["pending"]) == (1, 0, False)
    assert re.search(r"^erased profiles +0$", run("consent", "--revoke", "--yes").stdout, re.MULTILINE)
    assert run("consent").stdout == "The profile is not used.\n"


def test_the_audit_log_is_a_table_or_json(run: Run, trip: str, quick_vectors: None) -> None:
    assert run("audit").stdout == ""
    run("profile", "--set", "languages=Python")
    run("consent", "--grant")
    run("context", "trip", "Which languages do I know?")
    found = as_json(run("audit", "--json", "--limit", "2"))
    assert [one["action"] for one in found] == ["profile_used", "consent_granted"]
    assert found[0]["details"]["conversation"] == "trip"
    older = as_json(run("audit", "--json", "--before", found[-1]["id"]))
    assert [one["action"] for one in older] == ["profile_changed"]
    assert 'fields: ["languages"]' in run("audit").stdout


def test_showing_a_profile_creates_no_database(run: Run) -> None:
    for command in ("profile", "consent", "audit"):
        run(command, code=3)
