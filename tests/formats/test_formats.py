"""Each foreign format with samples like those the programs write, and the traps in them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from recollect.core.errors import InvalidInput
from recollect.formats import Batch, Skipped, detect_file_format, detect_format, read_file


def read_json(value: object, **options: Any) -> list[Batch | Skipped]:
    return list(read_file(io.BytesIO(json.dumps(value).encode()), **options))


def batches(items: list[Batch | Skipped]) -> list[Batch]:
    assert not [item for item in items if isinstance(item, Skipped)]
    return [item for item in items if isinstance(item, Batch)]


def roles_and_texts(batch: Batch) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in batch.messages]


def node(key: str, parent: str | None, role: str, *parts: object, at: float | None = None, **message: Any) -> Any:
    content = {"content_type": "text", "parts": list(parts)}
    body = {"id": key, "author": {"role": role}, "create_time": at, "content": content, **message}
    return {"id": key, "parent": parent, "children": [], "message": body}


def chat(*nodes: Any, current: str | None = None, **fields: Any) -> dict[str, Any]:
    root = {"id": "root", "parent": None, "children": [], "message": None}
    mapping = {"root": root, **{item["id"]: item for item in nodes}}
    return {
        "id": "c-1",
        "title": "Garden",
        "create_time": 1767261600.5,
        "mapping": mapping,
        "current_node": current,
        **fields,
    }


GARDEN = chat(
    node("sys", "root", "system", ""),
    node("q1", "sys", "user", "When do I sow tomatoes?", at=1767261601.25),
    node("a1", "q1", "assistant", "Indoors, in March.", metadata={"model_slug": "gpt-5"}),
    node("a2", "q1", "assistant", "After the last frost.", at=1767261700.0),
    node("q2", "a1", "user", "And basil?", at=1767261800.0),
    current="q2",
)


class TestChatGPT:
    def test_current_path_is_the_conversation_and_the_other_reply_a_branch(self) -> None:
        main, branch = batches(read_json([GARDEN]))
        assert (main.conversation, main.title) == ("chatgpt-c-1", "Garden")
        assert roles_and_texts(main) == [
            ("user", "When do I sow tomatoes?"),
            ("assistant", "Indoors, in March."),
            ("user", "And basil?"),
        ]
        assert branch.conversation == "chatgpt-c-1/branch-1"
        assert roles_and_texts(branch) == [("assistant", "After the last frost.")]
        assert branch.messages[0]["metadata"] == {"branch_of": "chatgpt-c-1", "after": "q1"}

    def test_null_time_is_that_of_the_message_before_and_the_model_is_kept(self) -> None:
        main, _ = batches(read_json([GARDEN]))
        assert [message["at"] for message in main.messages] == [
            "2026-01-01T10:00:01.250000+00:00",
            "2026-01-01T10:00:01.250000+00:00",
            "2026-01-01T10:03:20+00:00",
        ]
        assert main.messages[1]["model_variant"] == "gpt-5"
        assert {message["source"] for message in main.messages} == {"imported"}

    def test_first_null_time_is_that_of_the_conversation(self) -> None:
        [batch] = batches(read_json([chat(node("a", "root", "user", "Hi"), current="a")]))
        assert batch.messages[0]["at"] == "2026-01-01T10:00:00.500000+00:00"

    def test_branch_of_a_branch_says_which_branch_it_left(self) -> None:
        tree = chat(
            node("q", "root", "user", "One", at=1),
            node("main", "q", "assistant", "Main", at=9),
            node("x", "q", "assistant", "Other", at=2),
            node("x1", "x", "user", "Left", at=3),
            node("x2", "x", "user", "Right", at=4),
            current="main",
        )
        _, first, second = batches(read_json([tree]))
        assert roles_and_texts(first) == [("assistant", "Other"), ("user", "Left")]
        assert roles_and_texts(second) == [("user", "Right")]
        assert second.messages[0]["metadata"] == {"branch_of": "chatgpt-c-1/branch-1", "after": "x"}

    def test_parts_that_are_objects_are_named_and_kept(self) -> None:
        picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://f1", "width": 64}
        voice = {"content_type": "audio_transcription", "text": "read this aloud"}
        tree = chat(node("a", "root", "user", picture, "What plant is this?", voice), current="a")
        [batch] = batches(read_json([tree]))
        assert roles_and_texts(batch) == [("user", "[image]\nWhat plant is this?\nread this aloud")]
        assert batch.messages[0]["metadata"] == {"parts": [picture]}

    def test_other_content_types_give_their_text(self) -> None:
        code = node("c", "root", "assistant")
        code["message"]["content"] = {"content_type": "code", "language": "python", "text": "print(1)"}
        output = node("o", "c", "tool", author={"role": "tool", "name": "python"})
        output["message"]["content"] = {"content_type": "execution_output", "text": "1"}
        [batch] = batches(read_json([chat(code, output, current="o")]))
        assert roles_and_texts(batch) == [("assistant", "print(1)"), ("tool", "1")]
        assert batch.messages[1]["name"] == "python"

    def test_hidden_node_with_text_is_kept_and_marked(self) -> None:
        hidden = node("h", "root", "system", "Be brief.", metadata={"is_visually_hidden_from_conversation": True})
        [batch] = batches(read_json([chat(hidden, node("q", "h", "user", "Hi"), current="q")]))
        assert roles_and_texts(batch)[0] == ("system", "Be brief.")
        assert batch.messages[0]["metadata"] == {"hidden": True}

    @pytest.mark.parametrize("current", [None, "nowhere", 7])
    def test_missing_current_node_falls_back_to_the_newest_leaf(self, current: Any) -> None:
        tree = chat(
            node("q", "root", "user", "Q", at=1), node("new", "q", "assistant", "New", at=9),
            node("old", "q", "assistant", "Old", at=2), current=current,
        )  # fmt: skip
        main, branch = batches(read_json([tree]))
        assert roles_and_texts(main)[-1] == ("assistant", "New")
        assert roles_and_texts(branch) == [("assistant", "Old")]

    def test_missing_parent_makes_a_root(self) -> None:
        [batch] = batches(read_json([chat(node("q", "gone", "user", "Still here"), current="q")]))
        assert roles_and_texts(batch) == [("user", "Still here")]

    def test_parent_is_taken_from_children_where_a_node_names_none(self) -> None:
        first, second = node("a", "root", "user", "A"), node("b", None, "assistant", "B")
        first["children"] = ["b"]
        [batch] = batches(read_json([chat(first, second, current="b")]))
        assert roles_and_texts(batch) == [("user", "A"), ("assistant", "B")]

    def test_loop_is_cut_reported_and_loses_nothing(self) -> None:
        tree = chat(node("a", "b", "user", "A"), node("b", "a", "assistant", "B"), current="b")
        items = read_json([tree])
        assert [item.reason for item in items if isinstance(item, Skipped)] == [
            "its tree of messages has a loop, which was cut"
        ]
        assert sorted(text for item in items if isinstance(item, Batch) for _, text in roles_and_texts(item)) == [
            "A",
            "B",
        ]

    def test_bad_conversation_is_reported_and_the_others_are_read(self) -> None:
        items = read_json([GARDEN, {"id": "c-2", "title": "No tree"}, {**GARDEN, "id": "c-3", "mapping": {}}])
        assert [item for item in items if isinstance(item, Skipped)] == [
            Skipped("conversation 2", "it has no mapping of messages"),
            Skipped("conversation 3 (c-3…)", "it has no messages with text"),
        ]
        assert len([item for item in items if isinstance(item, Batch)]) == 2

    def test_unknown_role_is_reported_and_its_neighbours_are_read(self) -> None:
        tree = chat(node("a", "root", "user", "A"), node("b", "a", "narrator", "B"), current="b")
        batch, skipped = read_json([tree])
        assert isinstance(batch, Batch) and roles_and_texts(batch) == [("user", "A")]
        assert skipped == Skipped("conversation 1 (c-1…), message b", "its author's role is unknown")

    def test_single_conversation_without_an_array_is_read(self) -> None:
        pretty = json.dumps(GARDEN, indent=2).encode()
        assert list(read_file(io.BytesIO(pretty))) == read_json([GARDEN])


CLAUDE = {
    "uuid": "8d0c", "name": "Tea", "created_at": "2026-02-03T08:00:00.000000Z",
    "chat_messages": [
        {"uuid": "m1", "sender": "human", "text": "old text", "created_at": "2026-02-03T08:00:01Z",
         "content": [{"type": "text", "text": "Which tea keeps?"}],
         "attachments": [{"file_name": "list.txt", "extracted_content": "sencha\nassam"}],
         "files": [{"file_name": "shelf.jpg"}, {"file_name": "list.txt"}]},
        {"uuid": "m2", "sender": "assistant", "text": "Black tea.", "content": [], "created_at": None},
        {"uuid": "m3", "sender": "assistant", "text": "", "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "tool_use", "name": "search", "input": {"q": "tea"}},
            {"type": "tool_result", "name": "search", "content": [{"type": "text", "text": "2 years"}]},
            {"type": "text", "text": "About two years."}]},
    ],
}  # fmt: skip


class TestClaude:
    def test_blocks_are_read_and_text_is_the_fallback(self) -> None:
        [batch] = batches(read_json([CLAUDE]))
        assert (batch.conversation, batch.title) == ("claude-8d0c", "Tea")
        assert roles_and_texts(batch) == [
            ("user", "Which tea keeps?\n\n[attachment: list.txt]\nsencha\nassam\n\n[file: shelf.jpg]"),
            ("assistant", "Black tea."),
            ("assistant", '[tool use: search {"q": "tea"}]\n[tool result: search 2 years]\nAbout two years.'),
        ]
        assert [message["id"] for message in batch.messages] == ["m1", "m2", "m3"]
        assert {message["at"] for message in batch.messages} == {"2026-02-03T08:00:01+00:00"}

    def test_thinking_is_kept_in_metadata_only(self) -> None:
        [batch] = batches(read_json([CLAUDE]))
        assert batch.messages[2]["metadata"]["blocks"][0] == {"type": "thinking", "thinking": "hm"}

    def test_message_without_text_or_known_sender_is_reported(self) -> None:
        messages = [
            {"sender": "human", "text": ""},
            {"sender": "clerk", "text": "x"},
            5,
            {"sender": "human", "text": "y"},
        ]
        items = read_json([{"uuid": "u", "chat_messages": messages}])
        assert [item.reason for item in items if isinstance(item, Skipped)] == [
            "it has no text", "its sender is unknown", "it is not an object",
        ]  # fmt: skip
        assert isinstance(items[-1], Batch) and roles_and_texts(items[-1]) == [("user", "y")]


class TestShareGPT:
    def test_speakers_become_roles_in_arrays_and_in_lines(self) -> None:
        turns = [
            ("system", "Be kind."),
            ("human", "Hi"),
            ("gpt", "Hello"),
            ("function_call", "{}"),
            ("observation", "ok"),
        ]
        record = {"id": "s_0", "model": "m-1", "conversations": [{"from": f, "value": v} for f, v in turns]}
        [batch] = batches(read_json([record]))
        assert batch.conversation == "sharegpt-s_0"
        assert [role for role, _ in roles_and_texts(batch)] == ["system", "user", "assistant", "assistant", "tool"]
        assert [m.get("model_variant") for m in batch.messages] == [None, None, "m-1", "m-1", None]
        assert batches(list(read_file(io.BytesIO(json.dumps(record).encode() + b"\n")))) == [batch]

    def test_record_without_id_is_named_by_its_content(self) -> None:
        records = [{"conversations": [{"from": "human", "value": text}]} for text in ("a", "b")]
        first, second = batches(read_json(records))
        assert first.conversation != second.conversation
        assert len(first.conversation) == len("sharegpt-") + 16
        assert first.messages[0]["id"].startswith("1-") and len(first.messages[0]["id"]) == 14

    def test_unknown_speaker_or_value_is_reported(self) -> None:
        turns = [{"from": "owl", "value": "x"}, {"from": "human", "value": {"a": 1}}, {"from": "human", "value": "y"}]
        unknown, wrong, batch = read_json([{"id": 4, "conversations": turns}])
        assert unknown == Skipped("conversation 1 (4…), message 1", "its speaker is unknown")
        assert wrong == Skipped("conversation 1 (4…), message 2", "it has no text")
        assert isinstance(batch, Batch) and batch.conversation == "sharegpt-4"


class TestOpenAI:
    def test_lines_give_one_conversation_each_and_roles_are_mapped(self) -> None:
        call = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
        messages = [
            {"role": "developer", "content": "Answer briefly."},
            {"role": "user", "content": "What time is it?", "name": "sara"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "12:00", "tool_call_id": "call_1"},
            {"role": "function", "content": "12:01", "name": "now"},
        ]
        data = b"\n".join(json.dumps({"messages": m}).encode() for m in (messages, messages[:2])) + b"\n"
        first, second = batches(list(read_file(io.BytesIO(data))))
        assert [role for role, _ in roles_and_texts(first)] == ["system", "user", "assistant", "tool", "tool"]
        assert first.messages[1]["name"] == "sara"
        assert first.messages[2]["tool_calls"] == [call] and first.messages[2]["content"] == ""
        assert first.messages[3]["tool_call_id"] == "call_1"
        assert len(second.messages) == 2 and second.conversation != first.conversation

    def test_parts_are_joined_and_pictures_are_named_and_kept(self) -> None:
        picture = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
        parts = [{"type": "text", "text": "Look:"}, picture, {"type": "text", "text": "What is it?"}]
        [batch] = batches(read_json([{"id": "p", "messages": [{"role": "user", "content": parts}]}]))
        assert roles_and_texts(batch) == [("user", "Look:\n[image]\nWhat is it?")]
        assert batch.messages[0]["metadata"] == {"parts": [picture]}

    def test_embedded_picture_is_cut_to_a_note(self) -> None:
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
        [batch] = batches(read_json([{"messages": [{"role": "user", "content": [picture]}]}]))
        assert len(json.dumps(batch.messages[0]["metadata"])) < 300

    def test_many_parts_are_kept_only_as_far_as_metadata_has_room(self) -> None:
        parts = [{"type": "file", "note": "é" * 1900} for _ in range(100)]
        [batch] = batches(read_json([{"messages": [{"role": "user", "content": parts}]}]))
        assert len(json.dumps(batch.messages[0]["metadata"], ensure_ascii=False).encode()) < 64 * 1024
        assert batch.messages[0]["metadata"]["parts"][-1].startswith("[left out: ")
        assert batch.messages[0]["content"].count("[file]") == 100

    def test_lone_surrogates_pass_through(self) -> None:
        [batch] = batches(read_json([{"messages": [{"role": "user", "content": "a\ud800b"}]}]))
        assert roles_and_texts(batch) == [("user", "a\ud800b")]

    def test_byte_order_mark_is_accepted(self) -> None:
        data = b"\xef\xbb\xbf" + json.dumps({"messages": [{"role": "user", "content": "Hi"}]}).encode()
        assert roles_and_texts(batches(list(read_file(io.BytesIO(data))))[0]) == [("user", "Hi")]

    def test_bad_line_is_reported_with_its_number(self) -> None:
        good = json.dumps({"id": "g", "messages": [{"role": "user", "content": "Hi"}]}).encode()
        items = list(read_file(io.BytesIO(good + b"\n\noops\n" + good + b"\n" + good[:20])))
        assert [type(item) for item in items] == [Batch, Skipped, Batch, Skipped]
        assert [item.where for item in items if isinstance(item, Skipped)] == ["line 3", "line 5"]


class TestBatches:
    def test_long_conversations_are_cut_at_500_messages(self) -> None:
        turns = [{"from": "human", "value": f"number {n}"} for n in range(1201)]
        items = batches(read_json([{"id": "long", "conversations": turns}]))
        assert [len(batch.messages) for batch in items] == [500, 500, 201]
        assert len({message["id"] for batch in items for message in batch.messages}) == 1201

    def test_batches_hold_about_a_mebibyte_of_text(self) -> None:
        turns = [{"from": "human", "value": "x" * 400_000} for _ in range(5)]
        items = batches(read_json([{"id": "big", "conversations": turns}]))
        assert [len(batch.messages) for batch in items] == [2, 2, 1]

    def test_text_longer_than_a_message_may_hold_is_split_without_loss(self) -> None:
        text = "سلام " * 300_000
        items = batches(read_json([{"id": "huge", "conversations": [{"from": "human", "value": text}]}]))
        messages = [message for batch in items for message in batch.messages]
        assert "".join(message["content"] for message in messages) == text
        assert all(len(message["content"].encode()) <= 1024 * 1024 for message in messages)
        assert len({message["id"] for message in messages}) == len(messages)

    def test_two_messages_with_the_same_id_stay_two(self) -> None:
        twice = [{"role": "user", "content": text, "id": "same"} for text in ("a", "b")]
        [batch] = batches(read_json([{"messages": twice}]))
        assert [message["id"] for message in batch.messages] == ["same", "same~2"]

    def test_id_that_is_too_long_or_unprintable_is_replaced_by_a_hash(self) -> None:
        turn = {"conversations": [{"from": "human", "value": "Hi"}]}
        long, odd = batches(read_json([{"id": "x" * 500, **turn}, {"id": "a\nb", **turn}]))
        assert len(long.conversation) == len(odd.conversation) == len("sharegpt-") + 16
        assert long.conversation != odd.conversation

    @pytest.mark.parametrize("value", [[GARDEN], [CLAUDE], [{"conversations": [{"from": "human", "value": "x"}]}]])
    def test_same_file_twice_gives_the_same_ids(self, value: Any) -> None:
        assert read_json(value) == read_json(value)


class TestDetection:
    @pytest.mark.parametrize(
        ("head", "format"),
        [
            (b'{"format":"recollect","version":1}\n', "recollect"),
            (b'{"messages": [{"role": "user"', "openai"),
            (b'[{"id": 1, "conversations": [', "sharegpt"),
            (b'\xef\xbb\xbf [ {"title": "say \\"messages\\":", "mapping": {', "chatgpt"),
            (b'[{"uuid": "1", "account": {"messages": 1}, "chat_messages": []', "claude"),
            (b'oops\n{"messages": []}\n', "openai"),
        ],
    )
    def test_format_is_told_from_the_first_bytes(self, head: bytes, format: str) -> None:
        assert detect_format(head, "file") == format

    @pytest.mark.parametrize(
        "head", [b"", b"  \n", b"[]", b"hello", b"{}", b'"messages"', b"\xff\xfe{\x00", b"%PDF-1.7"]
    )
    def test_unknown_bytes_are_refused(self, head: bytes) -> None:
        with pytest.raises(InvalidInput) as refused:
            detect_format(head, "notes.txt")
        assert refused.value.code == "unknown_format" and "notes.txt" in refused.value.message

    def test_wrong_format_by_name_is_refused_and_a_given_one_is_trusted(self) -> None:
        with pytest.raises(InvalidInput):
            read_json([GARDEN], format="word")
        assert read_json([], format="chatgpt") == []

    def test_missing_file_is_invalid_input(self, tmp_path: Path) -> None:
        for path in (tmp_path / "none.json", tmp_path):
            with pytest.raises(InvalidInput) as refused:
                list(read_file(path))
            assert refused.value.code == "unreadable_file"

    def test_asking_for_the_format_leaves_the_stream_where_it_was(self) -> None:
        stream = io.BytesIO(json.dumps([GARDEN]).encode())
        assert detect_file_format(stream) == "chatgpt"
        assert list(read_file(stream)) == read_json([GARDEN])
