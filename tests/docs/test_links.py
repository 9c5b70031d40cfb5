"""Every relative link of the documentation leads to a file, and every anchor to a heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.markdown import DOCS, PAGES, ROOT, anchors, links, name_of, prose

ALL = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):  # another site
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{link} leads to no file"
        assert target.is_relative_to(ROOT), f"{link} leads out of the repository"
        if anchor:
            assert anchor in anchors(target), f"{link}: there is no such heading"


def test_every_page_is_in_the_table_of_contents() -> None:
    contents = {(DOCS / link).resolve() for link in links(DOCS / "index.md")}
    assert {page for page in PAGES if page.is_relative_to(DOCS)} <= contents | {DOCS / "index.md"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_a_page_names_exist(page: Path) -> None:
    """Files of the repository in code spans, such as the tests that hold a promise."""
    named = re.findall(r"`((?:tests|bench|docs|tools)/[\w./-]+)`", prose(page))
    assert [name for name in named if not (ROOT / name).exists()] == []
