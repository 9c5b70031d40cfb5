"""Tests depend on nothing that the shell has set."""

from __future__ import annotations

import os

import pytest


def test_variables_of_recollect_and_libpq_are_forgotten(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("RECOLLECT_DB", "PGHOST", "PGPASSWORD", "PGOPTIONS", "PGSERVICE")
    for name in names:
        monkeypatch.setenv(name, "elsewhere")
    plugins = request.config.pluginmanager.get_plugins()
    (forget,) = {plugin.forget_environment for plugin in plugins if hasattr(plugin, "forget_environment")}
    forget()
    assert not [name for name in names if name in os.environ]
