"""What the README shows is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_example_runs_as_it_is_printed(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(example.strip().splitlines()) <= 12
    run = subprocess.run([sys.executable, "-W", "error", "-c", example], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "1 user I'm allergic to peanuts.",
        "2 assistant Noted: no peanuts.",
        "3 user Plan dinner.",
    ]


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
