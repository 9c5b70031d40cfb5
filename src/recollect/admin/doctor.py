"""Checks the health of a memory for `recollect doctor`: store, token counts, derived work, embedder."""

from __future__ import annotations

import asyncio

from recollect.core.errors import RecollectError
from recollect.core.models import Finding, Principal
from recollect.providers.tokenizer import tokenizer_for
from recollect.recall.embedding import Embedders
from recollect.storage.store import SqlStore


async def examine(store: SqlStore, principal: Principal, embedders: Embedders, *, encoding: str) -> list[Finding]:
    """Return what the checks found, good or bad. `encoding` names the tokenizer."""
    findings = await store.examine()
    findings.append(await asyncio.to_thread(_check_tokenizer, encoding))
    pending = len(await store.pending_erasures())
    if pending:
        detail = f"{_count_waiting(pending, 'erasure')} for another process to release old pages"
        findings.append(Finding("erasures", "warning", detail, "close other programs on the file, run the worker"))
    due = (await store.log.stats(principal))["due"]
    work = Finding("work", "ok", f"{_count_waiting(due, 'conversation')} for derived work")
    return [*findings, work, await _check_embedder(embedders)]


def _count_waiting(count: int, noun: str) -> str:
    if count == 0:
        return f"no {noun} waits"
    return f"1 {noun} waits" if count == 1 else f"{count} {noun}s wait"


def _check_tokenizer(encoding: str) -> Finding:
    tokenizer = tokenizer_for(encoding)
    if tokenizer.exact:
        return Finding("tokens", "ok", f"counted exactly with {tokenizer.name}")
    return Finding(
        "tokens", "warning", "token counts are estimates", "in the folder of Recollect: pip install --force-reinstall ."
    )


async def _check_embedder(embedders: Embedders) -> Finding:
    name, dimensions = embedders.identity
    try:
        await embedders.embed(embedders.current, ["hello"])
    except RecollectError as error:
        fix = "look at its address and key; until it answers, messages are found by words"
        return Finding("embedder", "warning", f"{name} does not answer: {error}", fix)
    return Finding("embedder", "ok", f"{name} answers, {dimensions} dimensions")
