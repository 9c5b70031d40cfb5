"""What `recollect doctor` prints: whether the store, the tokens, the work and the embedder are as they should be."""

from __future__ import annotations

import asyncio

from recollect.core.errors import RecollectError
from recollect.core.models import Finding, Principal
from recollect.providers.tokenizer import tokenizer_for
from recollect.recall.embedding import Embedders
from recollect.storage.store import SqlStore


async def examine(store: SqlStore, principal: Principal, embedders: Embedders, *, counter: str) -> list[Finding]:
    found = await store.examine()
    found.append(await asyncio.to_thread(_tokens, counter))
    pending = len(await store.pending_erasures())
    if pending:
        detail = f"{pending} erasures wait for another process to let go of old pages"
        found.append(Finding("erasures", "warning", detail, "close other programs on the file, run the worker"))
    due = (await store.stats(principal))["due"]
    state = f"{due} conversations wait for derived work" if due else "nothing is missing"
    return [*found, Finding("work", "ok", state), await _embedder(embedders)]


def _tokens(counter: str) -> Finding:
    tokenizer = tokenizer_for(counter)
    if tokenizer.exact:
        return Finding("tokens", "ok", f"counted exactly with {tokenizer.name}")
    return Finding("tokens", "warning", "token counts are estimates", "reinstall recollect")


async def _embedder(embedders: Embedders) -> Finding:
    name, dimensions = embedders.identity
    try:
        await embedders.embed(embedders.current, ["hello"])
    except RecollectError as error:
        fix = "look at its address and key; until it answers, messages are found by words"
        return Finding("embedder", "warning", f"{name} does not answer: {error} [{error.code}]", fix)
    return Finding("embedder", "ok", f"{name} answers, {dimensions} dimensions")
