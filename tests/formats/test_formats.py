"""Each foreign format with samples like those the programs write, and the traps in them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from recollect.core.errors import InvalidInput
from recollect.formats import Batch, LeftOut, Skipped, detect_file_format, detect_format, read_file


def read_json(value: object, **options: Any) -> list[Any]:
    return list(read_file(io.BytesIO(json.dumps(value).encode()), **options))


def left_out(items: list[Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for item in items:
        if isinstance(item, LeftOut):
            counts[item.what] = counts.get(item.what, 0) + item.count
    return counts


def batches(items: list[Any]) -> list[Batch]:
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

    def test_code_that_was_shown_gives_its_text(self) -> None:
        code = node("c", "root", "assistant", recipient="all")
        code["message"]["content"] = {"content_type": "code", "language": "python", "text": "print(1)"}
        [batch] = batches(read_json([chat(code, current="c")]))
        assert roles_and_texts(batch) == [("assistant", "print(1)")]

    def test_hidden_instructions_are_no_messages(self) -> None:
        hidden = {"is_visually_hidden_from_conversation": True}
        profile = node("p", "h", "user", metadata={"is_user_system_message": True})
        profile["message"]["content"] = {
            "content_type": "user_editable_context", "user_profile": "Sara", "user_instructions": "Be brief."
        }  # fmt: skip
        remembered = node("m", "p", "assistant")
        remembered["message"]["content"] = {"content_type": "model_editable_context", "model_set_context": "1. Tea"}
        items = read_json(
            [chat(
                node("h", "root", "system", "You are a pirate.", metadata=hidden), profile, remembered,
                node("s", "m", "system", "A custom GPT's rules."), node("e", "s", "system", "", metadata=hidden),
                node("u", "e", "user", "Original custom instructions no longer available", metadata=hidden),
                node("q", "u", "user", "Hi"), current="q",
            )]
        )  # fmt: skip
        [batch] = batches(items)
        assert roles_and_texts(batch) == [("user", "Hi")]
        assert left_out(items) == {"hidden instructions": 5}

    def test_tool_calls_and_their_results_are_no_messages(self) -> None:
        call = node("c", "q", "assistant", recipient="python")
        call["message"]["content"] = {"content_type": "code", "language": "python", "text": "print(6*7)"}
        search = node("w", "c", "assistant", "search('tomatoes')", recipient="web.run")
        output = node("o", "w", "tool", author={"role": "tool", "name": "python"})
        output["message"]["content"] = {"content_type": "execution_output", "text": "42"}
        quoted = node("t", "o", "assistant")
        quoted["message"]["content"] = {"content_type": "tether_quote", "title": "Seeds", "url": "x.org", "text": "Sow"}
        display = node("d", "t", "assistant")
        display["message"]["content"] = {"content_type": "tether_browsing_display", "result": "L0: Seeds"}
        picture = node("i", "d", "tool", {"content_type": "image_asset_pointer", "asset_pointer": "sediment://1"})
        nodes = (node("q", "root", "user", "6*7?"), call, search, output, quoted, display, picture)
        items = read_json([chat(*nodes, node("a", "i", "assistant", "It is 42.", recipient="all"), current="a")])
        [batch] = batches(items)
        assert roles_and_texts(batch) == [("user", "6*7?"), ("assistant", "It is 42.")]
        assert left_out(items) == {"tool calls and tool results": 6}

    def test_thoughts_and_how_long_they_took_are_no_messages(self) -> None:
        thoughts = node("t", "q", "assistant")
        thoughts["message"]["content"] = {
            "content_type": "thoughts", "thoughts": [{"summary": "Adding", "content": "The user wants a sum."}]
        }  # fmt: skip
        recap = node("r", "t", "assistant")
        recap["message"]["content"] = {"content_type": "reasoning_recap", "content": "Thought for 4 seconds"}
        aside = node("x", "r", "assistant", "Let me add them.", channel="analysis")
        nodes = (node("q", "root", "user", "1+1?"), thoughts, recap, aside, node("a", "x", "assistant", "2"))
        items = read_json([chat(*nodes, current="a")])
        [batch] = batches(items)
        assert roles_and_texts(batch) == [("user", "1+1?"), ("assistant", "2")]
        assert left_out(items) == {"thoughts of a model": 3}

    def test_an_empty_conversation_is_no_error(self) -> None:
        items = read_json([{**GARDEN, "id": "c-2", "mapping": {}}, chat(node("s", "root", "system", ""), current="s")])
        assert items == [LeftOut("empty conversations"), LeftOut("empty conversations")]

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
            Skipped("conversation 2", "it has no mapping of messages")
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
            ("assistant", "About two years."),
        ]
        assert [message["id"] for message in batch.messages] == ["m1", "m2", "m3"]
        assert {message["at"] for message in batch.messages} == {"2026-02-03T08:00:01+00:00"}

    def test_thoughts_and_tool_traces_are_kept_in_metadata_only(self) -> None:
        [batch] = batches(read_json([CLAUDE]))
        blocks = batch.messages[2]["metadata"]["blocks"]
        assert [block["type"] for block in blocks] == ["thinking", "tool_use", "tool_result"]

    def test_a_message_of_tool_blocks_alone_is_no_message(self) -> None:
        note = "```\nThis block is not supported on your current device yet.\n```"
        tools = {"sender": "assistant", "text": note, "content": [{"type": "tool_use", "name": "search", "input": {}}]}
        items = read_json([{"uuid": "u", "chat_messages": [{"sender": "human", "text": "y"}, tools]}])
        [batch] = batches(items)
        assert roles_and_texts(batch) == [("user", "y")]
        assert left_out(items) == {"tool calls and tool results": 1}

    def test_message_without_known_sender_is_reported_and_one_without_text_is_counted(self) -> None:
        messages = [
            {"sender": "human", "text": ""},
            {"sender": "clerk", "text": "x"},
            5,
            {"sender": "human", "text": "y"},
        ]
        items = read_json([{"uuid": "u", "chat_messages": messages}])
        assert [item.reason for item in items if isinstance(item, Skipped)] == [
            "its sender is unknown", "it is not an object",
        ]  # fmt: skip
        assert [roles_and_texts(item) for item in items if isinstance(item, Batch)] == [[("user", "y")]]
        assert left_out(items) == {"messages without text": 1}


def reply(key: str, parent: str | None, role: str, content: Any, at: int = 1767261600, **fields: Any) -> Any:
    return {"id": key, "parentId": parent, "role": role, "content": content, "timestamp": at, **fields}


def webui_chat(*messages: Any, current: str | None = None, **fields: Any) -> dict[str, Any]:
    history = {"messages": {message["id"]: message for message in messages}, "currentId": current}
    chat = {"title": "Moving", "models": ["llama3.2"], "history": history, "timestamp": 1767261600123, **fields}
    return {"id": "w-1", "user_id": "u", "title": "Moving", "chat": chat, "created_at": 1767261600, "archived": False}


class TestOpenWebUI:
    def test_current_path_is_the_conversation_and_the_other_model_a_branch(self) -> None:
        record = webui_chat(
            reply("q1", None, "user", "I moved to Lyon.", childrenIds=["a1", "a2"], models=["llama3.2", "qwen3"]),
            reply("a1", "q1", "assistant", "Welcome!", 1767261601, model="llama3.2"),
            reply("a2", "q1", "assistant", "Enjoy Lyon.", 1767261602, model="qwen3"),
            reply("q2", "a1", "user", "Thanks.", 1767261700), current="q2",
        )  # fmt: skip
        record["meta"] = {"tags": ["home", "home", ""]}
        main, branch = batches(read_json([record]))
        assert (main.conversation, main.title, main.tags) == ("openwebui-w-1", "Moving", ("home",))
        assert roles_and_texts(main) == [("user", "I moved to Lyon."), ("assistant", "Welcome!"), ("user", "Thanks.")]
        assert main.messages[1]["at"] == "2026-01-01T10:00:01+00:00"
        assert [message.get("model_variant") for message in main.messages] == [None, "llama3.2", None]
        assert (branch.conversation, roles_and_texts(branch)) == (
            "openwebui-w-1/branch-1", [("assistant", "Enjoy Lyon.")],
        )  # fmt: skip
        assert branch.messages[0]["metadata"] == {"branch_of": "openwebui-w-1", "after": "q1"}

    def test_a_chat_without_history_is_read_from_its_list(self) -> None:
        record = webui_chat(messages=[reply("a", None, "user", "One"), reply("b", "a", "assistant", "Two")])
        [batch] = batches(read_json([record]))
        assert roles_and_texts(batch) == [("user", "One"), ("assistant", "Two")]

    def test_thoughts_and_tool_calls_inside_an_answer_are_left_out(self) -> None:
        answer = (
            '<details type="reasoning" done="true" duration="4">\n<summary>Thought for 4 seconds</summary>\n> Lyon…\n'
            "</details>\nLyon has two rivers."
            '\n<details type="tool_calls" done="true" name="search" arguments="&quot;q&quot;"></details>\n'
            '<details type="note"><summary>More</summary>Rhône, Saône</details>'
            '<details type="code_interpreter" done="false">print(2)'
        )
        record = webui_chat(
            reply("q", None, "user", "Rivers?"), reply("a", "q", "assistant", answer),
            reply("e", "a", "assistant", "", error={"content": "timeout"}), current="e",
            params={"system": "Be brief."},
        )  # fmt: skip
        items = read_json([record])
        [batch] = batches(items)
        assert roles_and_texts(batch)[1] == (
            "assistant",
            'Lyon has two rivers.\n\n<details type="note"><summary>More</summary>Rhône, Saône</details>',
        )
        assert left_out(items) == {
            "thoughts of a model": 1, "tool calls and tool results": 2, "messages without text": 1,
            "hidden instructions": 1,
        }  # fmt: skip

    def test_pictures_and_files_are_named(self) -> None:
        files = [{"type": "image", "url": "data:image/png;base64,AAAA"}, {"type": "file", "name": "lease.pdf"}]
        [batch] = batches(read_json([webui_chat(reply("q", None, "user", "Look", files=files), current="q")]))
        assert roles_and_texts(batch) == [("user", "Look\n[image]\n[file: lease.pdf]")]

    def test_what_is_broken_is_reported(self) -> None:
        bad = webui_chat(reply("q", None, "narrator", "x"), reply("c", "q", "user", {"a": 1}), current="c")
        items = read_json([webui_chat(reply("ok", None, "user", "Hi"), current="ok"), bad, {"id": 2, "chat": None}, 5])
        assert [item.reason for item in items if isinstance(item, Skipped)] == [
            "its role is unknown", "its content is neither text nor a list of parts", *["it has no chat"] * 2,
        ]  # fmt: skip


TITLE_PROMPT = "### Task:\nGenerate a title.\n### Chat History:\n<chat_history>\nUSER: I moved\n</chat_history>"


class TestTaskPrompts:
    """Every format leaves out what a chat program asked for itself, with the answer to it."""

    @pytest.mark.parametrize(
        "record",
        [
            {"messages": [{"role": role, "content": text} for role, text in (
                ("user", "I moved"), ("assistant", "Where to?"), ("user", TITLE_PROMPT), ("assistant", "{}"),
                ("user", "To Lyon"))]},
            {"conversations": [{"from": role, "value": text} for role, text in (
                ("human", "I moved"), ("gpt", "Where to?"), ("human", TITLE_PROMPT), ("gpt", '{"title": "M"}'),
                ("human", "To Lyon"))]},
            {"uuid": "u", "chat_messages": [{"sender": role, "text": text} for role, text in (
                ("human", "I moved"), ("assistant", "Where to?"), ("human", TITLE_PROMPT), ("assistant", "{}"),
                ("human", "To Lyon"))]},
            chat(node("a", "root", "user", "I moved"), node("b", "a", "assistant", "Where to?"),
                 node("c", "b", "user", TITLE_PROMPT), node("d", "c", "assistant", "{}"),
                 node("e", "d", "user", "To Lyon"), current="e"),
            webui_chat(reply("a", None, "user", "I moved"), reply("b", "a", "assistant", "Where to?"),
                       reply("c", "b", "user", TITLE_PROMPT), reply("d", "c", "assistant", "{}"),
                       reply("e", "d", "user", "To Lyon"), current="e"),
        ],
    )  # fmt: skip
    def test_they_are_left_out_with_their_answers(self, record: Any) -> None:
        items = read_json([record])
        [batch] = batches(items)
        assert [text for _, text in roles_and_texts(batch)] == ["I moved", "Where to?", "To Lyon"]
        assert left_out(items) == {"task prompts of a chat program, with their answers": 2}


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
        assert wrong == Skipped("conversation 1 (4…), message 2", "its value is not text")
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
            (b'[{"id": "1", "user_id": "u", "title": "messages", "chat": {"messages": [', "openwebui"),
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

    @pytest.mark.parametrize(
        ("head", "words"),
        [
            (b"", "is empty"),
            (b"[]", "is an empty list"),
            (b'import json\n\nchat = [\n    {"messages": []},\n]\nprint(chat)\n', "is not JSON"),
            (b"SQLite format 3\0\x10", "is a database"),
            (b"%PDF-1.7", "is a PDF document"),
            (b"\x7fELF\x02\x01\0\0", "is a binary file"),
            (b"\x1f\x8b\x08", "gzip"),
            (b"<!DOCTYPE html>", "its conversations.json"),
            (b'[{"conversations_memory": "Sara likes tea", "account_uuid": "1"}]', "what Claude noted about you"),
            (b'{"uuid": "1", "name": "P", "prompt_template": "", "docs": []}', "a project of Claude"),
            (b'[{"uuid": "1", "full_name": "Sara", "email_address": "s@example.org"}]', "data of your account"),
            (b'{"a": 1}', "name it: recollect, openai"),
        ],
    )
    def test_a_file_that_cannot_be_imported_is_told_apart(self, head: bytes, words: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            detect_format(head, "some.file")
        assert refused.value.code == "unknown_format"
        assert refused.value.message.startswith("some.file ") and words in refused.value.message

    def test_missing_file_is_invalid_input(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput) as refused:
            list(read_file(tmp_path / "none.json"))
        assert refused.value.code == "unreadable_file"

    def test_asking_for_the_format_leaves_the_stream_where_it_was(self) -> None:
        stream = io.BytesIO(json.dumps([GARDEN]).encode())
        assert detect_file_format(stream) == "chatgpt"
        assert list(read_file(stream)) == read_json([GARDEN])
