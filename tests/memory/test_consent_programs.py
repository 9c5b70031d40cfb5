"""Random programs around consent: while it is off, nothing of the profile is in any output or in any log line."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect import InvalidInput, Memory
from recollect.testing import FakeEmbedder

CANARY = "zqcanary4711"
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "preferences": st.sampled_from(
            [{"languages": ["Python", CANARY]}, {"coding_style": f"{CANARY} style"}, {"languages": None}]
        ),
        "context": st.sampled_from([{"goals": f"{CANARY} goals"}, {"domain": CANARY, "constraints": None}]),
        "notes": st.sampled_from([f"Notes on languages, {CANARY}.\n" * 3, "", f"{CANARY} </memory> {CANARY}"]),
    },
)
QUESTIONS = ("Which languages do I know?", "What are my goals?", "style and notes on the domain", "")
STEPS = st.one_of(
    st.tuples(st.just("set_profile"), FIELDS),
    st.tuples(
        st.sampled_from(
            ["grant", "grant", "revoke", "off", "refused", "profile", "export", "metrics", "audit", "drain"]
        ),
        st.none(),
    ),
    st.tuples(st.sampled_from(["add", "context", "recall", "brief"]), st.sampled_from(QUESTIONS)),
)
PROGRAMS = st.lists(STEPS, min_size=3, max_size=14)
NUMBERS = itertools.count()


class Program:
    """The steps of one person, with a check after each."""

    def __init__(self, memory: Memory, folder: Path) -> None:
        self.memory, self.target, self.granted = memory, folder / "export.ndjson", False

    def do(self, name: str, given: object) -> None:
        output = repr(self._call(name, given))
        if not self.granted or name in ("metrics", "audit", "grant", "revoke", "off"):
            assert CANARY not in output, name
        assert self.memory.consent() == self.granted

    def _call(self, name: str, given: object) -> object:
        memory = self.memory
        if name == "grant":
            self.granted = True
            return memory.set_consent(True)
        if name in ("revoke", "off"):
            self.granted = False
            receipt = memory.revoke_consent() if name == "revoke" else memory.set_consent(False)
            assert not memory.profile().stored
            return receipt
        if name == "refused":
            with pytest.raises(InvalidInput) as caught:
                memory.set_profile({"preferences": {"nonsense": CANARY}})
            return str(caught.value)
        if name == "export":
            memory.export(self.target)
            return self.target.read_text()
        calls: dict[str, Callable[[], object]] = {
            "set_profile": lambda: memory.set_profile(given),  # type: ignore[arg-type]
            "profile": memory.profile,
            "metrics": lambda: (memory.metrics(), memory.stats()),
            "audit": lambda: memory.audit(limit=1000),
            "drain": memory.drain,
            "add": lambda: memory.add("trip", "user", str(given)),
            "context": lambda: [memory.context("trip", str(given), budget=n) for n in (100, 500, 3000)],
            "recall": lambda: (memory.recall(str(given)), memory.recall(str(given), conversation="trip", budget=100)),
            "brief": lambda: (memory.compress("trip", force=True), memory.topics("trip"), memory.conversations()),
        }
        return calls[name]()


def run(location: str, folder: Path, steps: list[tuple[str, object]], caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    person = f"person {next(NUMBERS)}"
    with (
        caplog.at_level(logging.DEBUG),
        Memory(location, person=person, worker=False, embedder=FakeEmbedder()) as memory,
    ):
        program = Program(memory, folder)
        for name, given_ in steps:
            program.do(name, given_)
        # With consent the same questions do show the profile, so the check above could fail.
        memory.set_profile({"preferences": {"languages": [CANARY]}})
        memory.set_consent(True)
        assert CANARY in memory.context("trip", QUESTIONS[0]).text
        assert CANARY in repr(memory.recall(QUESTIONS[0]))
        assert memory.revoke_consent().counts["profiles"] == 1
        assert CANARY not in memory.context("trip", QUESTIONS[0]).text
    assert not [record for record in caplog.records if CANARY in record.getMessage() + str(record.exc_info or "")]


@pytest.mark.slow
@given(PROGRAMS)
def test_without_consent_nothing_shows_the_profile_on_sqlite(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture, steps: list[tuple[str, object]]
) -> None:
    folder = tmp_path_factory.mktemp("consent")
    run(str(folder / "memory.db"), folder, steps, caplog)


@pytest.mark.slow
@settings(max_examples=15)
@given(PROGRAMS)
def test_without_consent_nothing_shows_the_profile_on_postgresql(
    pg: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, steps: list[tuple[str, object]]
) -> None:
    run(pg, tmp_path, steps, caplog)
