"""Recognises requests that a chat front-end makes for itself: titles, tags, follow-up questions, search queries.

Such a request quotes the conversation and is no part of it. It must be answered, but neither stored nor recalled. Each
kind is known by words of the prompt that the front-end ships with; people do not write them to a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from recollect.core.history_match import read_content

SEARCHED_CHARACTERS: Final = 4_000  # at the beginning and at the end of a prompt; quoted messages lie between
INSTRUCTION_ROLES: Final = ("system", "developer")
# Open WebUI begins its prompts for tasks with the first and quotes messages in the second. A question over documents
# begins with the first too, but it is the person's own and quotes no messages.
_TASK_HEADING: Final = "### Task:"
_QUOTED_MESSAGES: Final = "<chat_history>"
_PHRASES: Final = (  # in lower case; all of a line must occur
    ("concise, 3-5 word", "chat history"),  # Open WebUI, earlier versions
    ("create a concise, 3-5 word phrase as a summary of the previous query",),
    ("reflect the speaker's likely facial expression through a fitting emoji",),
    ("provided with a set of responses from various models to the latest user query",),
    ("your task is to choose and return the correct tool(s) from the list of available tools",),
    ("5-word-or-less title for the conversation",),  # LibreChat
    ("concise title in the detected language", "5 words or less"),
    ("generate a concise title (max 40 characters) for a conversation",),
    ("generate a four to five word title summarizing our conversation",),  # NextChat
    ("summarize the discussion briefly in 200 words or less to use as a prompt for future context",),
    ("使用四到五个字直接返回这句话的简要主题",),
    ("简要总结一下对话内容，用作后续的上下文提示 prompt",),
    ("you are a professional conversation summarizer", "title"),  # LobeChat
    ("你需要将用户的会话总结为 10 个字以内的标题",),
    ("based on the chat history, give this conversation a name",),  # Chatbox
    ("summarize the given session as a 10-word title",),  # Cherry Studio
    ("10-word title. give the title only",),  # Jan
    ("summarize the user's request into a single short sentence of four words or less",),  # HuggingChat
)
NO_TITLE: Final = "Conversation"  # what the built-in assistant answers where a title is wanted as plain text


def is_task(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the newest user message, or an instruction, is the prompt of a front-end's own task."""
    users = [message for message in messages if message.get("role") == "user"]
    instructions = [message for message in messages if message.get("role") in INSTRUCTION_ROLES]
    return any(_is_task_prompt(read_content(message.get("content"))) for message in (*instructions, *users[-1:]))


def _is_task_prompt(text: str) -> bool:
    if text.lstrip().startswith(_TASK_HEADING) and _QUOTED_MESSAGES in text:
        return True
    head, tail = text[:SEARCHED_CHARACTERS].lower(), text[-SEARCHED_CHARACTERS:].lower()
    return any(all(phrase in head or phrase in tail for phrase in phrases) for phrases in _PHRASES)


def build_answer(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return what the built-in assistant answers to a task: nothing that a front-end would show as a title or tag."""
    wants_json = any("json" in read_content(message.get("content")).lower() for message in messages)
    return "{}" if wants_json else NO_TITLE
