"""A client's message list is matched as a path through stored messages, in a time that grows with their number."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core import history_match, unnamed_chat
from recollect.core.history_match import ClientMessage, match_history
from recollect.core.message import Message
from recollect.core.unnamed_chat import StoredPath
from support.growth import assert_linear

AT = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = st.sampled_from(["a", "b"])
LISTS = st.lists(WORDS, min_size=2, max_size=7)
# A stored message has a word, and says how many messages before it the one stands that it follows; 0: just before.
LOGS = st.lists(st.tuples(WORDS, st.sampled_from([0, 0, 0, 1, 2, 3, 5])), min_size=1, max_size=16)


def _message(seq: int, text: str, follows: str | None = None, role: str = "user", **more: Any) -> Message:
    metadata = None if follows is None else {history_match.FOLLOWS_KEY: follows}
    return Message(
        id=f"m{seq}", conversation="trip", seq=seq, role=role, content=text, at=AT, source="typed", metadata=metadata,
        **more,
    )  # fmt: skip


def _log(entries: Sequence[tuple[str, int]], first_seq: int = 1) -> list[Message]:
    stored: list[Message] = []
    for seq, (text, back) in enumerate(entries, first_seq):
        target = seq - back
        stored.append(_message(seq, text, f"m{target}" if back else None))
    return stored


def _longest_by_trying_all(stored: Sequence[Message], texts: Sequence[str]) -> int:
    """Return the length of the longest path that begins as the texts do, by following every start in every way."""
    positions = {message.id: index for index, message in enumerate(stored)}
    before: list[int | None] = []
    for index, message in enumerate(stored):
        follows = (message.metadata or {}).get(history_match.FOLLOWS_KEY)
        earlier = positions.get(follows) if follows is not None else index - 1
        before.append(earlier if earlier is not None and 0 <= earlier < index else None)

    def length(index: int, count: int) -> int:
        if stored[index].content != texts[count - 1]:
            return 0
        following = [later for later, earlier in enumerate(before) if earlier == index] if count < len(texts) else []
        return 1 + max((length(later, count + 1) for later in following), default=0)

    lengths = [(length(index, 1), stored[index].seq == 1) for index in range(len(stored))]
    return max((found for found, is_first in lengths if found > 1 or is_first), default=0)


@given(LOGS, LISTS, st.sampled_from([1, 20]))
def test_the_longest_path_is_found_whatever_branches_and_repeats(
    entries: list[tuple[str, int]], texts: list[str], first_seq: int
) -> None:
    stored = _log(entries, first_seq)
    matched = match_history(stored, [ClientMessage("user", text) for text in texts]).matched
    assert len(matched) == _longest_by_trying_all(stored, texts)
    assert [message.content for message in matched] == texts[: len(matched)]
    for earlier, later in pairwise(matched):
        follows = (later.metadata or {}).get(history_match.FOLLOWS_KEY)
        assert (follows or f"m{later.seq - 1}") == earlier.id


def test_of_equally_long_paths_the_newest_is_taken() -> None:
    stored = _log([("hi", 0), ("yes", 0), ("hi", 0), ("yes", 0)])
    matched = match_history(stored, [ClientMessage("user", text) for text in ("hi", "yes", "new")]).matched
    assert [message.seq for message in matched] == [3, 4]


PUMPS = {
    "equal": lambda n: (["a"] * n, ["a"] * n),
    "equal but the last": lambda n: (["a"] * n, ["a"] * n + ["b"]),
    "periodic": lambda n: (["a", "a", "b"] * (n // 3), ["a", "a", "b"] * (n // 3) + ["c"]),
    "never": lambda n: (["a"] * n, ["a"] * (n // 2) + ["b"] * (n // 2)),
}


@pytest.mark.parametrize("pump", PUMPS)
def test_matching_takes_a_time_that_grows_with_the_number_of_messages(pump: str) -> None:
    def make(n: int) -> tuple[list[Message], list[ClientMessage]]:
        stored, sent = PUMPS[pump](n)
        return _log([(text, 0) for text in stored], 5), [ClientMessage("user", text) for text in sent]

    assert_linear(lambda pair: match_history(*pair), make, 1_000)


def test_branches_that_all_begin_at_one_message_are_matched_in_linear_time() -> None:
    def make(n: int) -> tuple[list[Message], list[ClientMessage]]:
        stored = _log([("a", 0)] * n, 5)
        stored += [_message(5 + n + index, "b", f"m{4 + n}") for index in range(n)]
        return stored, [ClientMessage("user", "a")] * n + [ClientMessage("user", "c")]

    assert_linear(lambda pair: match_history(*pair), make, 1_000)


@pytest.mark.parametrize(
    "sent",
    [
        "One line.  \r\nAnother.\n", "One line.\nAnother.", "<think>Hm, well.</think>\n\nOne line.\nAnother.",
        '<details type="reasoning" done="true">\n<summary>Thought</summary>\n> Hm\n</details>\nOne line.\nAnother.',
    ],
)  # fmt: skip
def test_an_answer_is_recognised_without_its_reasoning_and_with_other_line_ends(sent: str) -> None:
    kept = "<think>Hm, well.</think>\nOne line.\r\nAnother."
    stored = [_message(1, "hi"), _message(2, kept, role="assistant")]
    match = match_history(stored, [ClientMessage("user", "hi"), ClientMessage("assistant", sent)])
    assert len(match.matched) == 2


@pytest.mark.parametrize(("user", "text"), [(True, "<think>x</think> hi"), (False, "<think> never closed")])
def test_only_reasoning_of_an_answer_that_ends_is_left_out(user: bool, text: str) -> None:
    role = "user" if user else "assistant"
    assert ClientMessage(role, text).key != ClientMessage(role, "hi").key
    assert ClientMessage(role, text).key != ClientMessage(role, "").key


# The conversation of a list that names none


def _list(*roles: str) -> unnamed_chat.ClientList:
    return unnamed_chat.read_list([{"role": role, "content": f"{role} {index}"} for index, role in enumerate(roles)])


@pytest.mark.parametrize(
    ("roles", "length"),
    [
        (["user"], 0),
        (["user", "user"], 0),
        (["assistant", "user"], 0),  # a greeting is no answer
        (["user", "assistant"], 0),  # what comes last is new
        (["user", "assistant", "user"], 2),
        (["assistant", "user", "assistant", "user"], 3),
        (["user", "assistant", "tool"], 2),
        (["user", "assistant", "tool", "assistant", "user", "user"], 4),
    ],
)
def test_history_is_what_lies_before_the_last_answer(roles: list[str], length: int) -> None:
    assert _list(*roles).history_length == length


NOW = datetime(2026, 1, 4, 10, tzinfo=UTC)
NEWEST, CONTINUED = StoredPath("new", 2, 2, True, NOW), StoredPath("old", 2, 5, True, NOW)
FOREIGN = StoredPath("foreign", 2, 2, False, NOW)


@pytest.mark.parametrize(
    ("paths", "length", "chosen"),
    [
        ([], 2, None),
        ([NEWEST], 2, NEWEST),
        ([NEWEST, CONTINUED], 2, NEWEST),
        ([CONTINUED], 2, None),  # two messages may be another chat's
        ([CONTINUED], 4, CONTINUED),  # an edited turn
        ([CONTINUED, CONTINUED], 4, None),  # of which chat?
        ([FOREIGN], 4, None),  # examples that a client sends with every request
    ],
)
def test_a_list_goes_on_only_where_no_other_chat_can_be_meant(
    paths: list[StoredPath], length: int, chosen: StoredPath | None
) -> None:
    assert unnamed_chat.choose_path(paths, length) == chosen


def test_a_request_that_is_sent_again_is_the_same_only_if_it_was_stored_moments_ago() -> None:
    unanswered, answered = StoredPath("a", 1, 1, False, NOW), StoredPath("b", 1, 2, False, NOW)
    continued, old = StoredPath("c", 1, 4, False, NOW), StoredPath("d", 1, 1, False, NOW - timedelta(hours=1))
    assert unnamed_chat.choose_retried([old, unanswered], NOW) == unanswered
    assert unnamed_chat.choose_retried([continued, answered], NOW) == answered
    assert unnamed_chat.choose_retried([continued, old], NOW) is None
