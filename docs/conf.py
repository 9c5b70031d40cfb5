"""The configuration of Sphinx. Build with: sphinx-build -W --keep-going -b html docs build/docs

The reference pages are generated first, from this tree: settings, REST operations and records are what the code says.
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Recollect"
version = release = metadata.version("recollect")
copyright = "the authors of Recollect"  # noqa: A001 - a name of Sphinx
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"Recollect {release}"
html_show_sphinx = False
html_copy_source = False
myst_heading_anchors = 4  # links to headings are checked, as on a code host
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
python_display_short_literal_types = True

_CODE = re.compile(r"`([^`]+)`")
_MARKUP = re.compile(r"([*|_\\<>])")


def as_restructured_text(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Turn a docstring of plain text with `code` into markup that Sphinx reads without a warning."""
    for index, line in enumerate(lines):
        pieces = _CODE.split(line)  # text, code, text, code, …
        lines[index] = "".join(
            f"``{piece}``" if odd else _MARKUP.sub(r"\\\1", piece)
            for odd, piece in ((position % 2, piece) for position, piece in enumerate(pieces))
        )


def show_as_synchronous(app: Sphinx) -> None:
    """Keep autodoc from calling the methods of `Memory` async: they only forward to those of `AsyncMemory`."""
    from recollect import Memory

    for method in vars(Memory).values():
        if inspect.isfunction(method) and hasattr(method, "__wrapped__"):
            method.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
            del method.__wrapped__


def generate(app: Sphinx) -> None:
    """Write the generated reference pages anew."""
    import generate_reference

    generate_reference.write()


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", as_restructured_text)
    app.connect("builder-inited", generate)  # before the next, which hides types that it reads
    app.connect("builder-inited", show_as_synchronous, priority=900)
