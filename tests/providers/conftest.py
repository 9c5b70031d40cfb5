"""Fixtures of the providers: a time that passes only when told to."""

from __future__ import annotations

import pytest

from support.provider_calls import FakeTime


@pytest.fixture
def fake_time() -> FakeTime:
    return FakeTime()
