"""What the tests of briefs share: long talk, models that answer well or think until told, and a patient look."""

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
from recollect.core.compression.grounding import sentences
from recollect.core.models import Context
from recollect.settings import Settings
from recollect.testing import FakeModel, ModelCall

Open = Callable[..., Memory]
SYSTEM = "You are a helpful assistant."
on_sqlite = pytest.mark.parametrize("location", ["sqlite"], indirect=True)  # the database has no part in it
EAGER = {"memory_k_raw_turns": 1, "memory_chunk_summarize_threshold": 0, "compress_messages_at": 4}


def eager(**more: Any) -> Settings:
    """Folds at four messages, all but the last turn."""
    return Settings(**EAGER | {"compress_messages_keep": 1} | more)


# Long talk.

_WHO = ("gardener", "baker", "pilot", "nurse", "teacher", "sailor", "printer", "plumber", "painter", "tailor", "miner")
_WHAT = (
    "harbour", "lantern", "orchard", "bridge", "violin", "kettle", "carpet", "glacier", "tunnel", "meadow", "ladder",
    "engine", "pillow", "compass", "basket", "curtain", "furnace", "whistle", "saddle", "chimney", "hammer", "blanket",
    "turbine", "beacon",
)  # fmt: skip
_DID = ("repaired", "measured", "painted", "borrowed", "inspected", "carried", "described", "ordered", "cleaned")
_HOW = ("slowly", "twice", "yesterday", "carefully", "outdoors", "together", "cheaply", "again", "quietly", "early")
_WHERE = ("Lisbon", "Osaka", "Cairo", "Quito", "Malmo", "Perth", "Tunis", "Bergen", "Lagos", "Hanoi", "Porto", "Turin")


def sentence(n: int) -> str:
    """The nth of many sentences, each with words of its own."""
    return (
        f"The {_nth(_WHO, n)} {_nth(_DID, n * 5)} the {_nth(_WHAT, n * 7)} near {_nth(_WHERE, n * 5)} "
        f"{_nth(_HOW, n * 3)} for {17 + n} euros, because the {_nth(_WHAT, n * 11 + 5)} "
        f"in {_nth(_WHERE, n + 9)} was late."
    )


def _nth(words: Sequence[str], n: int) -> str:
    return words[n % len(words)]


def message(n: int, role: str, count: int = 7) -> dict[str, Any]:
    return {"role": role, "content": " ".join(sentence(n * count + place) for place in range(count)), "id": f"m{n}"}


def talk(turns: int, *, first: int = 0, count: int = 7) -> list[dict[str, Any]]:
    """Turns of a user and an assistant, about 45 tokens for each of their `count` sentences: 316 by default."""
    return [message(n, "assistant" if n % 2 else "user", count) for n in range(2 * first, 2 * (first + turns))]


def said(*texts: str, first: int = 0) -> list[dict[str, Any]]:
    """Turns in which a user says these things, and is answered shortly."""
    turns = [({"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}) for text in texts]
    return [one | {"id": f"s{first + place}"} for place, one in enumerate(one for turn in turns for one in turn)]


def words(text: str) -> int:
    return len(text.split())


# Models.


def asked(call: ModelCall) -> str:
    """Document D's layout as the model got it."""
    return next(str(m["content"]) for m in call.messages if "=== NEW_TURNS ===" in str(m["content"]))


def between(text: str, name: str) -> str:
    found = re.search(rf"^=== {name} ===\n(.*?)^=== END_{name} ===$", text, re.DOTALL | re.MULTILINE)
    assert found is not None, text[:200]
    return found[1].strip("\n")


def new_sentences(layout: str) -> list[str]:
    lines = [line for line in between(layout, "NEW_TURNS").splitlines() if not re.fullmatch(r"Turn \d+:|", line)]
    return [one for line in lines for one in sentences(re.sub(r"^(?:User|Assistant)(?: \([^)]*\))?: ", "", line))]


def old_sentences(layout: str) -> list[str]:
    text = between(layout, "EXISTING_SUMMARY")
    return [] if text == "NONE" else sentences(text)


def _wanted(call: ModelCall) -> tuple[int, int]:
    """How many words the narrative may have, by the task."""
    task = str(call.messages[0]["content"])
    if found := re.search(r"narrative has (\d+) to (\d+) words", task):
        return int(found[1]), int(found[2])
    found = re.search(r"at most (\d+) tokens", task)
    return 0, int(found[1]) // 2 if found else 200


def shortened(old: Sequence[str], new: Sequence[str], most: int) -> str:
    """Sentences of both, the older ones with the first half of the room."""
    chosen: list[str] = []
    for source, limit in ((old, most // 2), (new, most), (old, most)):
        for one in source:
            if one not in chosen and words(" ".join([*chosen, one])) <= limit:
                chosen.append(one)
    return " ".join(chosen) or " ".join(" ".join(new).split()[:most])


def good_reply(call: ModelCall) -> str:
    """What a model that does as it is told answers: copied sentences, and what they say as data."""
    layout = asked(call)
    least, most = _wanted(call)
    new = new_sentences(layout)
    narrative = shortened(old_sentences(layout), new, (least + most) // 2 if least else most)
    return reply(narrative, ledger=[item for one in new for item in _items(one)], key_facts=new[:3], summary=new[0])


def _items(one: str) -> list[dict[str, Any]]:
    found = [item("url", "source", address.rstrip(".,")) for address in re.findall(r"https?://\S+", one)]
    if preferred := re.match(r"I prefer (.+?)\.?$", one):
        found.append(item("preference", "taste", preferred[1], one))
    if decided := re.match(r"We decided (.+?)\.?$", one):
        found.append(item("decision", "plan", decided[1], one))
    return found


def item(kind: str, slot: str, value: str, text: str | None = None, *, single: bool = False) -> dict[str, Any]:
    return {"kind": kind, "slot": slot, "value": value, "text": text or value, "single": single}


def reply(narrative: str, **parts: Any) -> str:
    """A reply of the right form."""
    empty = {"ledger": [], "summary": "", "intent": "", "key_facts": [], "decisions": [], "missing_data": []}
    return json.dumps({"narrative": narrative} | empty | parts)


class Thinking:
    """A model that thinks until it is told to answer; it knows how many were asking at once."""

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


class Moody:
    """A model that is well or fails as it is told at the moment."""

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


# What there is.


def brief_of(memory: Memory, conversation: str = "trip") -> Brief:
    brief = memory.brief(conversation)
    assert brief is not None
    return brief


def sound_brief(memory: Memory, conversation: str = "trip") -> Brief:
    """The brief, which must be there and written by whom it should be."""
    brief = memory.brief(conversation)
    assert brief is not None
    assert brief.degraded is None
    return brief


def part(context: Context, name: str) -> dict[str, Any]:
    found = [one for one in context.explain["parts"] if one["name"] == name]
    return found[0] if found else {"items": []}


def tail_of(context: Context) -> list[int]:
    return [one["seq"] for one in part(context, "tail")["items"]]


def texts_of(brief: Brief) -> str:
    return json.dumps(brief.to_dict(), default=str)


# Waiting.


def eventually(condition: Callable[[], object], seconds: float = 20.0) -> bool:
    """Whether it comes true, looking often."""
    look = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if condition():
            return True
        look.wait(0.02)
    return bool(condition())


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """The calls on a thread each, begun together; their results, or what they raised."""
    start = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)

    def run(place: int) -> None:
        start.wait()
        try:
            results[place] = calls[place]()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            results[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results
