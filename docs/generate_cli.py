"""Puts what `recollect COMMAND --help` prints into docs/cli.md: python docs/generate_cli.py"""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from recollect.cli import app

PAGE = Path(__file__).with_name("cli.md")
BLOCK = re.compile(r"<!-- help(?P<command>[ a-z]*) -->\n.*?<!-- end -->", re.DOTALL)


def help_of(command: str) -> str:
    """The help text, 80 columns wide and without colour."""
    plain = {"COLUMNS": "82", "NO_COLOR": "1", "TERM": "dumb"}  # a margin of two is kept free
    return CliRunner(env=plain).invoke(app, [*command.split(), "--help"], prog_name="recollect").stdout.rstrip()


def generated(page: str) -> str:
    """The page with every help text as it is today."""

    def block(match: re.Match[str]) -> str:
        command = match["command"]
        return f"<!-- help{command} -->\n```text\n{help_of(command)}\n```\n<!-- end -->"

    return BLOCK.sub(block, page)


if __name__ == "__main__":
    PAGE.write_text(generated(PAGE.read_text("utf-8")), "utf-8")
