"""What the README shows is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def run_example(example: str, folder: Path) -> list[str]:
    run = subprocess.run([sys.executable, "-W", "error", "-c", example], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_the_examples_run_as_they_are_printed(tmp_path: Path) -> None:
    """Six lines recall a fact by its meaning: the question shares no word with it."""
    first, second, third = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    lines = [line for line in first.strip().splitlines() if line.strip()]
    assert len(lines) <= 7  # with the import
    said = run_example(first, tmp_path)
    assert said[0] == "I'm allergic to peanuts."
    assert said[-1] == "user: Plan dinner for tonight."
    assert any("peanuts" in line for line in said[1:-1])
    more = run_example("from recollect import Memory\n" + second, tmp_path)
    assert any("Plan dinner." in line for line in more)
    assert more[-1].endswith("'question']")
    brief = run_example("from recollect import Memory\n" + third, tmp_path)
    assert "Berlin" in brief[0] and brief[0].endswith("{'theme': 'dark'}")
    assert "Paris', datetime" in brief[1] and "Berlin', None" in brief[1]


def test_every_command_line_in_the_readme_names_a_real_command() -> None:
    commands = set(re.findall(r"^recollect (\w+)", README, re.MULTILINE))
    assert commands >= {"add", "history", "import", "export", "erase", "doctor"}
    known = subprocess.run(
        [sys.executable, "-m", "recollect", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for command in commands:
        assert re.search(rf"\b{command}\b", known), command


def test_the_two_commands_are_real_targets() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("link", re.findall(r"\]\(([\w/.-]+)\)", README))
def test_every_link_leads_somewhere(link: str) -> None:
    assert (ROOT / link).exists()
