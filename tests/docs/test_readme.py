"""What the README shows is true."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs.markdown import ROOT, blocks, run_examples
from docs.test_commands import command_lines
from recollect.cli import app, catch_up

README = ROOT / "README.md"
LONGEST = 100  # lines; more belongs into docs/


def test_six_lines_recall_a_fact_by_its_meaning(tmp_path: Path) -> None:
    """The question shares no word with the fact, and the fact is in the prompt."""
    (example,) = [block.text for block in blocks(README) if block.language == "python"]
    lines = [line for line in example.splitlines() if line.strip()]
    assert len(lines) <= 7  # with the import
    (printed,) = run_examples(README, tmp_path)
    first, *prompt = printed.splitlines()
    assert first == "I'm allergic to peanuts."
    assert prompt[-1] == "user: Plan dinner for tonight."
    assert any("peanuts" in line for line in prompt[:-1])


def test_its_first_commands_tell_and_then_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are run in their order, on a database that the first one makes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catch_up, "QUICK_WORK_SECONDS", 300.0)  # a busy machine needs long to load the embedder
    (block,) = [block.text for block in blocks(README) if block.language == "sh" and "recollect chat" in block.text]
    printed = []
    for line in block.splitlines():
        said, _, command = line.partition(" | ") if line.startswith("echo ") else ("", "", line)
        words = shlex.split(command, comments=True)
        if words[1] == "serve":
            continue
        result = CliRunner().invoke(app, words[1:], input="".join(shlex.split(said)[1:]))
        assert result.exit_code == 0, result.stderr
        printed.append(result.stdout)
    assert printed[0] == "Noted: “I'm allergic to peanuts.”\n"
    assert "you said: “I'm allergic to peanuts.”" in printed[1]
    assert all("peanuts" in text for text in printed[2:])


def test_it_names_the_two_commands_first() -> None:
    assert [words[:2] for words in command_lines(README)][:2] == [["make", "serve"], ["make", "test"]]


def test_it_shows_a_picture_that_is_here() -> None:
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README.read_text("utf-8"))
    assert (ROOT / picture).read_text("utf-8").startswith("<svg")


def test_it_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= LONGEST


def test_the_licence_is_here_and_declared() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text("utf-8")
