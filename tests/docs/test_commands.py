"""Every command line of the documentation is one that the programs understand. Nothing is run."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from docs.markdown import PAGES, ROOT, blocks, name_of, prose
from recollect.cli import app

SHELLS = ("sh", "console")
SEPARATORS = "|&;()"
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def command_lines(page: Path) -> list[list[str]]:
    """Return the simple commands in the shell blocks of a page, as lists of words."""
    return [
        command
        for block in blocks(page)
        if block.language in SHELLS
        for line in _lines(block.text, prompts=block.language == "console")
        for command in _commands(line)
    ]


def _lines(text: str, *, prompts: bool) -> list[str]:
    """Join continued lines. In a console block only lines with a prompt are commands; the others are output."""
    joined = text.replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in joined if line.startswith("$ ")] if prompts else joined


def _commands(line: str) -> Iterator[list[str]]:
    """Split a line at pipes and the like, and leave out assignments, redirections and comments."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=SEPARATORS + "<>")
    lexer.whitespace_split = True
    command: list[str] = []
    words = iter(lexer)
    for word in words:
        if word and set(word) <= set("<>"):
            next(words, None)
        elif word and set(word) <= set(SEPARATORS):
            yield from [command] if command else []
            command = []
        elif command or not re.fullmatch(r"[A-Z_]+=.*", word, re.DOTALL):
            command.append(word)
    if command:
        yield command


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_of_recollect_parses(page: Path) -> None:
    program = typer.main.get_command(app)
    with program.make_context("recollect", ["doctor"]) as parent:
        for name, *words in command_lines(page):
            if name != "recollect":
                continue
            if words[0].startswith("-"):  # an option of the program itself
                assert words[0] in {option for one in program.params for option in one.opts}, words
                continue
            command = program.get_command(parent, words[0])
            assert command is not None, f"there is no command {words[0]!r}"
            with command.make_context(words[0], words[1:], parent=parent):
                pass  # arguments that do not parse raise an error that names them


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_that_the_text_names_exists(page: Path) -> None:
    named = re.findall(r"`recollect ([a-z]+)\b", prose(page))
    known = {str(command.name) for command in app.registered_commands}
    assert [name for name in named if name not in known] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_target_of_make_exists(page: Path) -> None:
    targets = [words[1] for words in command_lines(page) if words[0] == "make"]
    targets += re.findall(r"`make ([a-z-]+)", prose(page))
    assert [target for target in targets if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_extra_that_is_to_be_installed_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    extras = {extra for group in re.findall(r"recollect\[([a-z,]+)\]", text) for extra in group.split(",")}
    assert extras <= set(PROJECT["optional-dependencies"])
