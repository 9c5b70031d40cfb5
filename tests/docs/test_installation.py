"""Nothing tells people to install by name: on the package index, the name belongs to another project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.markdown import PAGES, ROOT, name_of

_BY_NAME = re.compile(
    r"\b(?:pip3?|pipx|uv(?: pip)?|poetry) +(?:install|add|run|download)(?: +[^\s`]+)*? +[\"']?recollect\b(?![/.])"
)
_EXTRA_BY_NAME = re.compile(r"\brecollect\[\w")
_READERS_SEE = [*PAGES, *sorted(ROOT.glob("*.md")), ROOT / "Makefile", *sorted((ROOT / "src").rglob("*.py"))]


def tells_to_install_by_name(text: str) -> bool:
    """Say whether a text has a command or a requirement that would fetch the other project's package."""
    return bool(_BY_NAME.search(text) or _EXTRA_BY_NAME.search(text))


@pytest.mark.parametrize(
    "text",
    [
        "pip install recollect",
        "`pip install --upgrade recollect`, with the extras",
        "python -m pip install -q 'recollect[server]'",
        "uv add recollect",
        "Install `recollect[postgres]`.",
    ],
)
def test_the_check_knows_an_installation_by_name(text: str) -> None:
    assert tells_to_install_by_name(text)


@pytest.mark.parametrize(
    "text", ["pip install .", "pip install '.[server]' in the folder of Recollect", "pip install ./recollect/"]
)
def test_the_check_allows_an_installation_from_the_folder(text: str) -> None:
    assert not tells_to_install_by_name(text)


@pytest.mark.parametrize("path", list(dict.fromkeys(_READERS_SEE)), ids=name_of)
def test_nothing_tells_people_to_install_by_name(path: Path) -> None:
    assert not tells_to_install_by_name(path.read_text("utf-8"))


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/how-to/deploy.md"])
def test_a_page_that_says_how_to_install_warns_of_the_other_project(page: str) -> None:
    words = " ".join((ROOT / page).read_text("utf-8").split())
    assert "The name `recollect` on the Python Package Index belongs to another project" in words.replace(
        "the name `recollect`", "The name `recollect`"
    )


def test_the_docker_image_is_built_from_files_that_are_here() -> None:
    sources = re.findall(r"^COPY (.+) \S+$", (ROOT / "docs/how-to/deploy.md").read_text("utf-8"), re.M)
    assert sources
    assert all((ROOT / name).exists() for line in sources for name in line.split())
