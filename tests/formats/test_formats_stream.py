"""The incremental reader: what it finds, what it survives, what it costs."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recollect.core.errors import InvalidInput
from recollect.formats import FORMATS, Batch, Skipped, read_file
from recollect.formats.stream import decode, split_array, split_lines
from support.growth import assert_linear, count_calls

LIMIT = 1024 * 1024

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def chunks_of(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def elements(data: bytes, *, size: int = 7, limit: int = LIMIT) -> list[object]:
    items = decode(split_array(chunks_of(data[1:], size), limit))
    return [item if isinstance(item, Skipped) else item[1] for item in items]


@settings(deadline=None)
@given(
    values=st.lists(json_values, max_size=6),
    indent=st.sampled_from([None, 2]),
    escape=st.booleans(),
    size=st.integers(1, 50),
)
@example(values=['\\"', "\\\\", '{"', "]"], indent=None, escape=True, size=1)
@example(values=[{"a": [[]]}, [[[1]]]], indent=None, escape=False, size=3)
def test_array_read_in_chunks_of_any_size_equals_the_array_parsed_whole(
    values: list[object], indent: int | None, escape: bool, size: int
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=escape)
    assert elements(text.encode("utf-8", "surrogatepass" if escape else "replace"), size=size) == json.loads(
        text.encode("utf-8", "surrogatepass" if escape else "replace")
    )


@settings(deadline=None)
@given(values=st.lists(json_values, max_size=6), size=st.integers(1, 50))
def test_lines_read_in_chunks_of_any_size_equal_the_lines_parsed_one_by_one(values: list[object], size: int) -> None:
    data = "\r\n".join(json.dumps(value) for value in values).encode()
    items = list(decode(split_lines(chunks_of(data, size), LIMIT)))
    assert [item[1] for item in items if isinstance(item, tuple)] == values


@settings(deadline=None)
@given(values=st.lists(json_values, min_size=1, max_size=5), share=st.floats(0, 0.999), size=st.integers(1, 40))
def test_array_cut_anywhere_gives_its_whole_elements_and_then_a_report(
    values: list[object], share: float, size: int
) -> None:
    data = json.dumps([{"v": value} for value in values]).encode()
    items = elements(data[: max(1, int(len(data) * share))], size=size)
    whole = [item for item in items if not isinstance(item, Skipped)]
    assert whole == [{"v": value} for value in values][: len(whole)]
    assert isinstance(items[-1], Skipped)


def test_malformed_element_is_reported_and_the_next_ones_are_read() -> None:
    bad, good = elements(b'[{"a": }, {"b": 1}]')
    assert isinstance(bad, Skipped) and bad.where == "conversation 1" and "not valid JSON" in bad.reason
    assert good == {"b": 1}


@pytest.mark.parametrize(
    ("element", "reason"),
    [
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"a": 1e999}', "it holds a number that is too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "it holds a number that is too long"),
        (b"[" * 65 + b"]" * 65, "nested too deeply"),
        (b"[" * 50_000 + b"]" * 50_000, "nested too deeply"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested too deeply"),
    ],
)
def test_number_or_depth_bomb_is_skipped_with_a_reason(element: bytes, reason: str) -> None:
    items = elements(b"[1," + element + b",2]", size=4096)
    assert items == [1, Skipped("conversation 2", reason), 2]


def test_record_above_the_limit_is_skipped_and_not_held() -> None:
    def long_element() -> Iterator[bytes]:
        yield b'{"a": "'
        for _ in range(64):
            yield b"x" * LIMIT
        yield b'"}, {"b": 1}]'

    tracemalloc.start()
    items = [item if isinstance(item, Skipped) else item[1] for item in decode(split_array(long_element(), LIMIT))]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert items == [Skipped("conversation 1", "longer than the limit of 1,048,576 bytes"), {"b": 1}]
    assert peak < 5 * LIMIT


def test_line_above_the_limit_is_skipped_and_the_next_is_read() -> None:
    items = list(decode(split_lines([b'{"a":"' + b"x" * 90, b"x" * 90 + b'"}\n', b'{"b":1}\n'], 100)))
    assert items == [Skipped("line 1", "longer than the limit of 100 bytes"), ("line 2", {"b": 1})]


def test_bytes_that_are_not_utf8_are_replaced_and_reported_once() -> None:
    first, *rest = decode(split_lines([b'"a\xff"\n"b\xfe"\n'], 100))
    assert isinstance(first, Skipped) and "UTF-8" in first.reason
    assert rest == [("line 1", "a\ufffd"), ("line 2", "b\ufffd")]


def test_text_behind_the_array_is_reported() -> None:
    assert elements(b"[1] [2]", size=100) == [
        1,
        Skipped("the end", "there is more text after the end of the array"),
    ]


PUNCTUATION = b'[ ] { } , : " \\ \n null 1 1e999 NaN \xff \xef\xbb\xbf PK\x03\x04'.split(b" ")
KEYS = b"mapping chat_messages conversations messages role content from value sender text parent a".split()
LINES = [b'{"format":"recollect","version":1}\n', b'{"type":"conversation","name":"a"}\n', b'"type":"message"']
fragments = st.sampled_from([*PUNCTUATION, *(b'"%s":' % key for key in KEYS), *LINES, b'"user"', b'"human"'])


@settings(deadline=None)
@given(
    data=st.binary(max_size=300) | st.lists(fragments, max_size=60).map(b"".join),
    format=st.none() | st.sampled_from(FORMATS),
)
def test_any_bytes_give_batches_or_reports_or_invalid_input(data: bytes, format: str | None) -> None:
    def read() -> None:
        with suppress(InvalidInput):
            assert all(isinstance(item, Batch | Skipped) for item in read_file(io.BytesIO(data), format=format))

    assert count_calls(read) <= 1000 + 10 * len(data)  # a few for each byte, however the bytes are mixed


SHAPES = {
    "openai": ("messages", ["role", "content", "name", "tool_calls", "tool_call_id", "id", "refusal", "function_call"]),
    "sharegpt": ("conversations", ["from", "value", "role", "content"]),
    "claude": ("chat_messages", ["sender", "text", "content", "uuid", "created_at", "attachments", "files"]),
}
likely = st.sampled_from(["user", "human", "assistant", "tool", "x", "", "\ud800", "2026-01-01"]) | json_values


@settings(deadline=None)
@given(data=st.data(), format=st.sampled_from(sorted(SHAPES)))
def test_wrong_types_anywhere_give_batches_or_reports(data: st.DataObject, format: str) -> None:
    key, fields = SHAPES[format]
    message = st.dictionaries(
        st.sampled_from(fields),
        likely
        | st.lists(
            st.dictionaries(
                st.sampled_from(["type", "text", "file_name", "extracted_content", "input", "content"]), likely
            )
        ),
    )
    record = st.fixed_dictionaries(
        {key: st.lists(message | json_values, max_size=5) | json_values},
        optional={"id": json_values, "uuid": json_values, "name": json_values, "system": json_values},
    )
    raw = json.dumps(data.draw(st.lists(record, max_size=3))).encode()
    check_batches(list(read_file(io.BytesIO(raw), format=format)))


@settings(deadline=None)
@given(data=st.data())
def test_any_tree_of_nodes_gives_each_message_at_most_once(data: st.DataObject) -> None:
    ids = st.sampled_from("abcdefg")
    content = st.fixed_dictionaries({}, optional={"parts": st.lists(likely, max_size=2) | json_values, "text": likely})
    message = st.fixed_dictionaries(
        {
            "author": st.just({"role": "user"}) | json_values,
            "content": st.just({"parts": ["hi"]}) | content | json_values,
        },
        optional={
            "id": ids | json_values,
            "create_time": st.floats(allow_nan=False, allow_infinity=False) | json_values,
            "metadata": json_values,
        },
    )
    node = st.fixed_dictionaries(
        {}, optional={"parent": ids, "children": st.lists(ids) | json_values, "message": message | json_values}
    )
    mapping = data.draw(st.dictionaries(ids, node | json_values))
    record = {"id": "t", "mapping": mapping, "current_node": data.draw(ids | json_values)}
    batches = check_batches(list(read_file(io.BytesIO(json.dumps([record]).encode()), format="chatgpt")))
    assert sum(len(batch.messages) for batch in batches) <= len(mapping)


def check_batches(items: list[Batch | Skipped]) -> list[Batch]:
    batches = [item for item in items if isinstance(item, Batch)]
    for batch in batches:
        assert 0 < len(batch.conversation) <= 200
        assert len({message["id"] for message in batch.messages}) == len(batch.messages)
        for message in batch.messages:
            assert message["role"] in ("user", "assistant", "system", "tool")
            assert isinstance(message["content"], str) and message["source"] == "imported"
            assert isinstance(message["id"], str) and 0 < len(message["id"]) <= 200
    return batches


@pytest.mark.parametrize(
    ("make", "n"),
    [
        (lambda n: b"[" * n, 250_000),
        (lambda n: b"[]" * n, 100_000),
        (lambda n: b"[" + b"{}," * n, 7_500),
        (lambda n: b'["' + b'\\"' * n, 250_000),
        (lambda n: b'["' + b"\\" * (n + 1), 250_000),
        (lambda n: b'[{"mapping":' + b'{"":' * n, 25_000),
        (lambda n: b"[" + b'""' * n, 125_000),
    ],
)
def test_hostile_input_is_skipped_in_linear_time(make: Callable[[int], bytes], n: int) -> None:
    def skip(data: bytes) -> None:
        assert all(isinstance(item, Skipped) for item in read_file(io.BytesIO(data), format="chatgpt"))

    assert_linear(skip, make, n)


def test_a_chain_of_nodes_is_read_in_linear_time() -> None:
    def make(n: int) -> tuple[int, bytes]:
        nodes = {
            str(at): {
                "parent": str(at - at % 2 - 1) if at > 1 else None,
                "message": None if at % 3 else text_message(at),
            }
            for at in range(n)
        }
        return n, json.dumps([{"id": "long", "mapping": nodes}]).encode()

    def read(chain: tuple[int, bytes]) -> None:
        count, raw = chain
        messages = sum(len(item.messages) for item in read_file(io.BytesIO(raw)) if isinstance(item, Batch))
        assert messages == len(range(0, count, 3))

    assert_linear(read, make, 3_000)


def text_message(n: int) -> dict[str, object]:
    return {"id": f"m{n}", "author": {"role": "user"}, "content": {"parts": [f"number {n}"]}, "create_time": n}


TURNS = [
    {"from": "human" if n % 2 else "gpt", "value": f"Turn {n}: " + 'a "quoted" word, [a note] and {more} ' * 10}
    for n in range(40)
]


@pytest.fixture(scope="module")
def large_file(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    size = 60_000_000 if request.config.getoption("--long") else 20_000_000
    path = tmp_path_factory.mktemp("large") / "conversations.json"
    with path.open("wb") as file:
        file.write(b"[")
        number = 0
        while file.tell() < size:
            file.write(b",\n" if number else b"\n")
            file.write(json.dumps({"id": f"chat-{number}", "conversations": TURNS}).encode())
            number += 1
        file.write(b"]\n")
    return path


@pytest.mark.slow
def test_a_large_file_is_read_in_constant_memory(large_file: Path) -> None:
    tracemalloc.start()
    conversations = sum(isinstance(item, Batch) for item in read_file(large_file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert conversations > 1000
    assert peak < 10_000_000


def test_progress_ends_at_the_size_of_a_large_file(large_file: Path) -> None:
    seen: list[int] = []
    assert not any(isinstance(item, Skipped) for item in read_file(large_file, progress=seen.append))
    assert seen == sorted(seen) and seen[-1] == large_file.stat().st_size


def test_a_file_is_read_in_time_linear_in_its_conversations() -> None:
    def make(n: int) -> bytes:
        return json.dumps([{"id": f"chat-{number}", "conversations": TURNS} for number in range(n)]).encode()

    def read(data: bytes) -> None:
        assert all(isinstance(item, Batch) for item in read_file(io.BytesIO(data)))

    assert_linear(read, make, 80)
