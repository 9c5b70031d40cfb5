"""Reads the pages of the documentation: their code blocks, links and headings. Knows nothing of Sphinx."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
END_OF_BLOCK = "\x1e"  # printed between two blocks of a page
_FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,})(?P<language>[^`\n]*)$")
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(?P<title>.+?) *#*$")
_CODE_SPAN = re.compile(r"(`+).+?\1", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. `line` is the number of its opening fence, counted from 1."""

    language: str
    text: str
    line: int


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in their order."""
    return [part for part in _parts(page.read_text("utf-8")) if isinstance(part, Block)]


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return "\n".join(part for part in _parts(page.read_text("utf-8")) if isinstance(part, str))


def _parts(text: str) -> Iterator[str | Block]:
    """Yield the lines of prose and the fenced blocks of a text."""
    fence, language, start, held = "", "", 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if fence:
            if line.strip() == fence:
                yield Block(language, "\n".join(held) + "\n", start)
                fence = ""
            else:
                held.append(line)
        elif mark:
            fence, language, start, held = mark["fence"], mark["language"].strip(), number, []
        else:
            yield line
    assert not fence, f"the block that begins at line {start} does not end"


def links(page: Path) -> list[str]:
    """Return the targets of links and images in the prose of a page, and the entries of its tables of contents."""
    found = [match["target"] for match in _LINK.finditer(_CODE_SPAN.sub("code", prose(page)))]
    for block in blocks(page):
        if block.language == "{toctree}":
            entries = [line for line in block.text.splitlines() if line and not line.startswith(":")]
            found += [f"{entry}.md" for entry in entries]
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of a page have on code hosts and in the built documentation."""
    found: dict[str, int] = {}
    result = set()
    for line in prose(page).splitlines():
        heading = _HEADING.match(line)
        if heading:
            slug = _slug(heading["title"])
            count = found.get(slug, 0)
            found[slug] = count + 1
            result.add(f"{slug}-{count}" if count else slug)
    return result


def _slug(title: str) -> str:
    plain = re.sub(r"`([^`]*)`", r"\1", title)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain).strip().lower()
    kept = [sign for sign in plain if sign in " -_" or unicodedata.category(sign)[0] in "LNM"]
    return "".join(kept).replace(" ", "-")


def clean_environment() -> dict[str, str]:
    """Return the environment without variables that would change settings."""
    ours = ("RECOLLECT_", "RAG_", "MEMORY_", "PROMPT_", "BACKFILL_", "OTEL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def run_examples(page: Path, folder: Path) -> list[str]:
    """Run the Python blocks of a page in their order, in a folder and a process of their own.

    Returns what each block printed. Lines keep their numbers, so that a traceback names the line of the page.
    """
    lines = [""] * (len(page.read_text("utf-8").splitlines()) + 1)
    for block in blocks(page):
        if block.language == "python":
            written = block.text.splitlines()
            lines[block.line : block.line + len(written)] = written
            lines[block.line + len(written)] = f"print({END_OF_BLOCK!r}, flush=True)"
    script = folder / f"page_{page.stem}.py"  # a name that hides no module
    script.write_text("\n".join(lines), "utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "error", script.name],
        cwd=folder,
        env=clean_environment() | {"PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    assert run.returncode == 0, f"{name_of(page)} does not run:\n{run.stderr}"
    return [printed.strip("\n") for printed in run.stdout.split(END_OF_BLOCK)[:-1]]
