"""Model and embedder come from settings, and are closed with the memory that made them."""

from __future__ import annotations

import asyncio

import pytest

from recollect import AsyncMemory, InvalidInput, Memory, Settings
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
