"""Writes the `--help` of every command into docs/cli.md: python docs/generate_cli.py"""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from recollect.cli import app

PAGE = Path(__file__).with_name("cli.md")
HELP_BLOCK = re.compile(r"<!-- help(?P<command>[ a-z]*) -->\n.*?<!-- end -->", re.DOTALL)


def render_help(command: str) -> str:
    """Return the help text of a command, 80 columns wide and without colour."""
    env = {"COLUMNS": "82", "NO_COLOR": "1", "TERM": "dumb"}  # the help keeps a margin of two columns
    return CliRunner(env=env).invoke(app, [*command.split(), "--help"], prog_name="recollect").stdout.rstrip()


def replace_help(page: str) -> str:
    """Return the page with every help text as the command prints it now."""

    def render_block(match: re.Match[str]) -> str:
        command = match["command"]
        return f"<!-- help{command} -->\n```text\n{render_help(command)}\n```\n<!-- end -->"

    return HELP_BLOCK.sub(render_block, page)


if __name__ == "__main__":
    PAGE.write_text(replace_help(PAGE.read_text("utf-8")), "utf-8")
