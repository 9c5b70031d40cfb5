"""What the tests of briefs here share: a model or none."""

from __future__ import annotations

import pytest

from recollect.testing import FakeModel
from support.summaries import good_reply


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """SQLite without a model and PostgreSQL with one; in the long lane each with both."""
    if "model" in metafunc.fixturenames:
        kinds = ["built-in", "model"] if metafunc.config.getoption("--long") else [None]
        metafunc.parametrize("model", kinds, indirect=True, ids=lambda kind: kind or "one way")


@pytest.fixture
def model(request: pytest.FixtureRequest, location: str) -> FakeModel | None:
    """None for the built-in compressor, or a model that answers well."""
    default = "model" if location.startswith("postgresql:") else "built-in"
    return FakeModel(good_reply) if (request.param or default) == "model" else None
