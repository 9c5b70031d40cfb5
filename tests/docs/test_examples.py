"""Every Python block of the documentation runs as it is printed, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.markdown import PAGES, blocks, name_of, run_examples

WITH_PYTHON = [  # test_readme.py runs the README
    page for page in PAGES if page.name != "README.md" and any(block.language == "python" for block in blocks(page))
]


def test_there_are_examples() -> None:
    names = {name_of(page) for page in WITH_PYTHON}
    assert names >= {"docs/quickstart.md", "docs/concepts.md", "docs/reference/python.md"}


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_the_examples_of_a_page_run_and_print_what_it_says(page: Path, tmp_path: Path) -> None:
    printed = run_examples(page, tmp_path)
    for block, text in _expected(page):
        pattern = re.escape(text).replace("…", ".*")  # an ellipsis stands for what differs from run to run
        assert re.fullmatch(pattern, printed[block], re.DOTALL), (
            f"block {block} of {name_of(page)} printed:\n{printed[block]}\n\nnot:\n{text}"
        )


def _expected(page: Path) -> list[tuple[int, str]]:
    """Return, for each block of output, the number of the Python block before it and the text."""
    expected, number = [], -1
    for block in blocks(page):
        if block.language == "python":
            number += 1
        elif block.language == "output":
            expected.append((number, block.text.strip("\n")))
    return expected
