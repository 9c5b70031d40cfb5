"""Model and embedder come from settings, and are closed with the memory that made them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recollect import AsyncMemory, InvalidInput, Memory, Settings
from recollect.admin.compose import _embedder_key, has_database, sqlite_file
from recollect.cli import app
from recollect.providers.openai import OpenAIEmbedder, OpenAIModel
from recollect.testing import FakeEmbedder, FakeModel
from support.fault_server import FaultServer


def test_an_address_in_the_settings_makes_a_model_and_an_embedder() -> None:
    async def scenario(url: str) -> None:
        settings = Settings(
            model_url=url, model_name="small", embedder_url=url, embedder_name="e", embedder_dimensions=8
        )
        async with AsyncMemory(":memory:", settings=settings, worker=False) as memory:
            model, embedder = memory._components.model, memory._components.embedder
            assert isinstance(model, OpenAIModel) and isinstance(embedder, OpenAIEmbedder)
            assert await model.complete([{"role": "user", "content": "hi"}])
            assert len((await embedder.embed(["hi"]))[0]) == 8
        with pytest.raises(Exception) as caught:
            await model.complete([{"role": "user", "content": "hi"}])
        assert getattr(caught.value, "code", None) == "provider_closed"

    with FaultServer() as server:
        asyncio.run(scenario(server.url))


@pytest.mark.parametrize(
    "location",
    ["host=127.0.0.1 dbname=memory password=hunter2", "password = hunter2", "port=5432 user=sara", " dbname=x "],
)
def test_the_key_value_form_of_libpq_is_no_file_and_is_not_repeated(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for refuse in (Memory, has_database, sqlite_file):
        with pytest.raises(InvalidInput) as caught:
            refuse(location)
        assert caught.value.code == "invalid_location"
        assert "hunter2" not in str(caught.value) and "postgresql://" in str(caught.value)
    run = CliRunner().invoke(app, ["--db", location, "history"])
    assert (run.exit_code, "hunter2" in run.output) == (2, False)
    assert list(tmp_path.iterdir()) == []


def test_a_path_with_an_equals_sign_is_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "user=sara"
    folder.mkdir()
    assert sqlite_file(folder / "my memory=1.db") == folder / "my memory=1.db"


def test_objects_that_are_passed_in_win_over_addresses() -> None:
    model, embedder = FakeModel(), FakeEmbedder()
    settings = Settings(model_url="http://127.0.0.1:9/v1", model_name="m")
    with Memory(":memory:", settings=settings, model=model, embedder=embedder, worker=False) as memory:
        assert memory._engine._components.model is model
        assert memory._engine._components.embedder is embedder


@pytest.mark.parametrize(
    "settings", [Settings(model_url="http://127.0.0.1:9/v1"), Settings(embedder_url="http://127.0.0.1:9/v1")]
)
def test_an_address_needs_a_name_beside_it(settings: Settings) -> None:
    with pytest.raises(InvalidInput) as caught:
        Memory(":memory:", settings=settings)
    assert caught.value.code == "invalid_setting"
    assert "_NAME" in caught.value.message  # the variable to set


def authorizations_seen(model: FaultServer, embedder: FaultServer, **keys: str) -> tuple[str | None, str | None]:
    """Ask a model and an embedder by settings. Return the Authorization that each of them was sent."""
    settings = Settings(
        model_url=model.url, model_name="m", embedder_url=embedder.url, embedder_name="e", embedder_dimensions=8, **keys
    )

    async def scenario() -> None:
        async with AsyncMemory(":memory:", settings=settings, worker=False) as memory:
            own_model, own_embedder = memory._components.model, memory._components.embedder
            assert own_model is not None and own_embedder is not None
            await own_model.complete([{"role": "user", "content": "hi"}])
            await own_embedder.embed(["hi"])

    asyncio.run(scenario())
    first, last = model.requests[0], embedder.requests[-1]
    return first.headers.get("authorization"), last.headers.get("authorization")


def test_the_key_of_the_model_is_not_sent_to_an_embedder_elsewhere() -> None:
    with FaultServer() as model, FaultServer() as embedder:
        assert authorizations_seen(model, embedder, api_key="sk-model") == ("Bearer sk-model", None)


def test_an_embedder_has_a_key_of_its_own() -> None:
    with FaultServer() as model, FaultServer() as embedder:
        seen = authorizations_seen(model, embedder, api_key="sk-model", embedder_api_key="sk-embedder")
        assert seen == ("Bearer sk-model", "Bearer sk-embedder")
    with FaultServer() as model, FaultServer() as embedder:
        assert authorizations_seen(model, embedder, embedder_api_key="sk-embedder") == (None, "Bearer sk-embedder")


def test_an_embedder_at_the_address_of_the_model_gets_its_key_unless_it_has_its_own() -> None:
    with FaultServer() as server:
        assert authorizations_seen(server, server, api_key="sk-both") == ("Bearer sk-both", "Bearer sk-both")
    with FaultServer() as server:
        seen = authorizations_seen(server, server, api_key="sk-model", embedder_api_key="sk-embedder")
        assert seen == ("Bearer sk-model", "Bearer sk-embedder")


@pytest.mark.parametrize(
    ("model_url", "embedder_url", "is_same"),
    [
        ("https://api.example/v1", "https://API.example:443/other", True),
        ("https://api.example/v1", "http://api.example/v1", False),
        ("https://api.example/v1", "https://api.example:8443/v1", False),
        ("https://api.example/v1", "https://api.example.evil/v1", False),
        ("https://api.example/v1", "https://api.example@evil.example/v1", False),
        ("https://api.example/v1", "https://api.example:port/v1", False),
        (None, "https://api.example/v1", False),
    ],
)
def test_the_same_address_is_the_same_scheme_host_and_port(
    model_url: str | None, embedder_url: str, is_same: bool
) -> None:
    settings = Settings(model_url=model_url, embedder_url=embedder_url, api_key="sk-model")
    assert _embedder_key(settings) == ("sk-model" if is_same else None)


def test_a_key_that_nobody_gets_is_said() -> None:
    settings = Settings(embedder_url="http://127.0.0.1:9/v1", embedder_name="e", api_key="sk-idle")
    with Memory(":memory:", settings=settings, worker=False) as memory:
        (notice,) = memory._engine._components.notices
    assert "RECOLLECT_EMBEDDER_API_KEY" in notice.fix
    assert "sk-idle" not in repr(notice)


def test_no_key_is_in_the_text_of_the_settings() -> None:
    assert "sk-" not in repr(Settings(api_key="sk-model", embedder_api_key="sk-embedder"))
