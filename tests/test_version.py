"""The version of the package: the one that was installed, read only when it is asked for."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import recollect

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def test_the_version_is_the_one_of_the_project() -> None:
    assert recollect.__version__ == tomllib.loads(PROJECT.read_text("utf-8"))["project"]["version"]


def test_importing_does_not_read_the_metadata_and_asking_for_the_version_does() -> None:
    program = (
        "import sys, recollect; assert '__version__' not in vars(recollect);"
        "assert recollect.__version__ and vars(recollect)['__version__'] == recollect.__version__"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_an_attribute_that_does_not_exist_is_named_in_the_error() -> None:
    with pytest.raises(AttributeError, match="module 'recollect' has no attribute 'memmory'"):
        recollect.memmory  # noqa: B018
