"""Shared by the tests of briefs: long conversations, models that answer well, slowly or not at all, and waiting."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from recollect import Memory
from recollect.core.compression.brief import Brief
from recollect.core.compression.source_check import split_sentences
from recollect.core.models import Context
from recollect.settings import Settings, preset
from recollect.testing import FakeModel, ModelCall

Open = Callable[..., Memory]
SYSTEM = "You are a helpful assistant."
on_sqlite = pytest.mark.parametrize("location", ["sqlite"], indirect=True)  # the database has no part in it
EAGER = {
    "memory_k_raw_turns": 1, "memory_chunk_summarize_threshold": 0, "compress_messages_at": 4,
    "compress_must_pay": False,
}  # fmt: skip

COMPACT = preset("compact").model_copy(update={"compress_must_pay": False})  # compresses the shortest chats too


def eager_settings(**more: Any) -> Settings:
    """Return settings that compress at four messages, all but the last turn."""
    return Settings(**EAGER | {"compress_messages_keep": 1} | more)


# Conversations

_WHO = ("gardener", "baker", "pilot", "nurse", "teacher", "sailor", "printer", "plumber", "painter", "tailor", "miner")
_WHAT = (
    "harbour", "lantern", "orchard", "bridge", "violin", "kettle", "carpet", "glacier", "tunnel", "meadow", "ladder",
    "engine", "pillow", "compass", "basket", "curtain", "furnace", "whistle", "saddle", "chimney", "hammer", "blanket",
    "turbine", "beacon",
)  # fmt: skip
_DID = ("repaired", "measured", "painted", "borrowed", "inspected", "carried", "described", "ordered", "cleaned")
_HOW = ("slowly", "twice", "yesterday", "carefully", "outdoors", "together", "cheaply", "again", "quietly", "early")
_WHERE = ("Lisbon", "Osaka", "Cairo", "Quito", "Malmo", "Perth", "Tunis", "Bergen", "Lagos", "Hanoi", "Porto", "Turin")


def nth_sentence(n: int) -> str:
    """Return the nth of many sentences, each with words of its own."""
    return (
        f"The {_nth(_WHO, n)} {_nth(_DID, n * 5)} the {_nth(_WHAT, n * 7)} near {_nth(_WHERE, n * 5)} "
        f"{_nth(_HOW, n * 3)} for {17 + n} euros, because the {_nth(_WHAT, n * 11 + 5)} "
        f"in {_nth(_WHERE, n + 9)} was late."
    )


def _nth(words: Sequence[str], n: int) -> str:
    return words[n % len(words)]


def message(n: int, role: str, count: int = 7) -> dict[str, Any]:
    return {"role": role, "content": " ".join(nth_sentence(n * count + index) for index in range(count)), "id": f"m{n}"}


def long_turns(turns: int, *, first: int = 0, count: int = 7) -> list[dict[str, Any]]:
    """Return turns of a user and an assistant. A message has about 45 tokens for each of its `count` sentences."""
    return [message(n, "assistant" if n % 2 else "user", count) for n in range(2 * first, 2 * (first + turns))]


def user_turns(*texts: str, first: int = 0) -> list[dict[str, Any]]:
    """Return turns in which a user says these texts and gets a short answer."""
    turns = [({"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}) for text in texts]
    messages = [message for turn in turns for message in turn]
    return [message | {"id": f"s{first + index}"} for index, message in enumerate(messages)]


def count_words(text: str) -> int:
    return len(text.split())


# Models


def prompt_layout(call: ModelCall) -> str:
    """Return the old summary and the new turns in the form in which the model got them."""
    return next(str(m["content"]) for m in call.messages if "=== NEW_TURNS ===" in str(m["content"]))


def layout_section(text: str, name: str) -> str:
    match = re.search(rf"^=== {name} ===\n(.*?)^=== END_{name} ===$", text, re.DOTALL | re.MULTILINE)
    assert match is not None, text[:200]
    return match[1].strip("\n")


def new_sentences(layout: str) -> list[str]:
    lines = [line for line in layout_section(layout, "NEW_TURNS").splitlines() if not re.fullmatch(r"Turn \d+:|", line)]
    texts = [re.sub(r"^(?:User|Assistant)(?: \([^)]*\))?: ", "", line) for line in lines]
    return [sentence for text in texts for sentence in split_sentences(text)]


def old_sentences(layout: str) -> list[str]:
    text = layout_section(layout, "EXISTING_SUMMARY")
    return [] if text == "NONE" else split_sentences(text)


def _word_limits(call: ModelCall) -> tuple[int, int]:
    """Return the smallest and the largest number of words that the task allows for the narrative."""
    task = str(call.messages[0]["content"])
    if match := re.search(r"narrative has (\d+) to (\d+) words", task):
        return int(match[1]), int(match[2])
    match = re.search(r"at most (\d+) tokens", task)
    return 0, int(match[1]) // 2 if match else 200


def shorten(old: Sequence[str], new: Sequence[str], max_words: int) -> str:
    """Return sentences of both, at most `max_words` words. The older ones get the first half."""
    chosen: list[str] = []
    for source, limit in ((old, max_words // 2), (new, max_words), (old, max_words)):
        for sentence in source:
            if sentence not in chosen and count_words(" ".join([*chosen, sentence])) <= limit:
                chosen.append(sentence)
    return " ".join(chosen) or " ".join(" ".join(new).split()[:max_words])


def good_reply(call: ModelCall) -> str:
    """Return the reply of a model that follows the task: copied sentences, and ledger entries from them."""
    layout = prompt_layout(call)
    min_words, max_words = _word_limits(call)
    new = new_sentences(layout)
    narrative = shorten(old_sentences(layout), new, (min_words + max_words) // 2 if min_words else max_words)
    return reply(
        narrative, ledger=[item for sentence in new for item in _items(sentence)], key_facts=new[:3], summary=new[0]
    )


def _items(sentence: str) -> list[dict[str, Any]]:
    items = [item("url", "source", address.rstrip(".,")) for address in re.findall(r"https?://\S+", sentence)]
    if preferred := re.match(r"I prefer (.+?)\.?$", sentence):
        items.append(item("preference", "taste", preferred[1], sentence))
    if decided := re.match(r"We decided (.+?)\.?$", sentence):
        items.append(item("decision", "plan", decided[1], sentence))
    return items


def item(kind: str, slot: str, value: str, text: str | None = None, *, single: bool = False) -> dict[str, Any]:
    return {"kind": kind, "slot": slot, "value": value, "text": text or value, "single": single}


def reply(narrative: str, **parts: Any) -> str:
    """Return a reply of the right form."""
    empty = {"ledger": [], "summary": "", "intent": "", "key_facts": [], "decisions": [], "missing_data": []}
    return json.dumps({"narrative": narrative} | empty | parts)


class SlowModel:
    """A model that answers only when `may_answer` is set. It notes how many calls it had at once."""

    name = "thinking"

    def __init__(self, answer: Callable[[ModelCall], str] = good_reply) -> None:
        self.calls: list[ModelCall] = []
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.most_at_once = 0
        self._now = 0
        self._answer = answer

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> str:
        call = ModelCall(tuple(messages), schema, max_tokens)
        self.calls.append(call)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        self.asked.set()
        try:
            while not self.may_answer.is_set():  # noqa: ASYNC110 - set by a thread, for loops of several memories
                await asyncio.sleep(0.005)
        finally:
            self._now -= 1
        return self._answer(call)


class FlakyModel:
    """A model that answers well, or fails while `failure` is set."""

    name = "moody"

    def __init__(self, failure: Callable[[], Any] | None = None) -> None:
        self.failure = failure
        self._well = FakeModel(good_reply)
        self.calls = 0

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> str:
        self.calls += 1
        if self.failure is None:
            return await self._well.complete(messages, schema=schema, max_tokens=max_tokens)
        return str(await self.failure())


async def hang() -> str:
    await asyncio.sleep(3600)
    return ""


# Results


def brief_of(memory: Memory, conversation: str = "trip") -> Brief:
    brief = memory.brief(conversation)
    assert brief is not None
    return brief


def sound_brief(memory: Memory, conversation: str = "trip") -> Brief:
    """Return the brief. Assert that it exists and that its writer did not fail."""
    brief = memory.brief(conversation)
    assert brief is not None
    assert brief.degraded is None
    return brief


def context_part(context: Context, name: str) -> dict[str, Any]:
    parts = [part for part in context.explain["parts"] if part["name"] == name]
    return parts[0] if parts else {"items": []}


def tail_seqs(context: Context) -> list[int]:
    return [item["seq"] for item in context_part(context, "tail")["items"]]


def brief_as_json(brief: Brief) -> str:
    return json.dumps(brief.to_dict(), default=str)


# Waiting


def wait_until(condition: Callable[[], object], seconds: float = 300.0) -> bool:
    """Wait until the condition is true. Return False if the time is up before."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if condition():
            return True
        pause.wait(0.02)
    return bool(condition())


def run_at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Run each call on a thread of its own, all started together. Return their results, or what they raised."""
    start = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)

    def run(index: int) -> None:
        start.wait()
        try:
            results[index] = calls[index]()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    return results
