"""Recognises task prompts: requests that a chat program makes for itself, such as a title for the chat.

Chat programs send them to the same model as the person's own messages. They quote the conversation, so storing them
would store everything twice, and the person never wrote them. They must be answered, but neither stored nor recalled.

The wordings are those of Open WebUI, LibreChat, NextChat, LobeChat, Chatbox, Cherry Studio, Jan and HuggingChat. A
prompt that carries a question of the person, as Open WebUI's template for documents does, is no task prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from recollect.core.history_match import read_content

OPENING_CHARACTERS: Final = 600  # what is asked for stands at the start; a short preamble may come first
ENDING_CHARACTERS: Final = 200
PHRASE_CHARACTERS: Final = 4_000  # at the beginning and at the end of a prompt; quoted messages lie between
INSTRUCTION_ROLES: Final = ("system", "developer")
NO_TITLE: Final = "Conversation"  # what the built-in assistant answers where a title is wanted as plain text
_HISTORY_OPEN: Final = "<chat_history>"
_HISTORY_CLOSE: Final = "</chat_history>"
_HEADING: Final = re.compile(r"#{1,4} \W{0,4}task\b", re.IGNORECASE)

# What the task of a prompt with a chat history is, by the words in its opening. The first match counts.
_TASKS_BY_WORDS: Final = (
    ("follow_ups", ("follow-up", "follow up", "追问", "أسئلة متابعة")),
    ("queries", ("search quer", "retrieval quer", "keyword w", "搜索查询")),
    ("tags", (" tags", "标签", "وسوم")),
    ("autocomplete", ("autocompletion", "autocomplete")),
    ("image_prompt", ("image generation",)),
    ("title", ("title", "标题", "عنوان")),
)
# Openings that are task prompts by themselves. Compared in lower case and with single blanks.
_TASKS_BY_OPENING: Final = (
    ("title", "create a concise, 3-5 word phrase "),
    ("title", "generate a concise, 3-5 word title "),
    ("title", "provide a concise, 5-word-or-less title for the conversation"),
    ("title", "please generate a concise, 5-word-or-less title for the conversation"),
    ("title", "please generate a concise title (max 40 characters) for a conversation that starts with"),
    ("title", "analyze this conversation and provide: 1. the detected language of the conversation 2. a concise title"),
    ("title", "detect user language and write in the same language an extremely concise title for this conversation"),
    ("title", "please generate a four to five word title summarizing our conversation without any lead-in"),
    ("title", "based on the chat history, give this conversation a name."),
    ("summary", "summarize the discussion briefly in 200 words or less to use as a prompt for future context"),
    ("summary", "summarize our discussion briefly in 200 words or less to use as a prompt for future context"),
    ("emoji", "your task is to reflect the speaker's likely facial expression through a fitting emoji"),
    ("merge", "you have been provided with a set of responses from various models to the latest user query:"),
)
# Words that people do not write to a model, anywhere at the beginning or the end. All of a row must occur.
_PHRASES: Final = (
    ("concise, 3-5 word", "chat history"),  # Open WebUI, earlier versions
    ("create a concise, 3-5 word phrase as a summary of the previous query",),
    ("your task is to choose and return the correct tool(s) from the list of available tools",),
    ("5-word-or-less title for the conversation",),  # LibreChat
    ("concise title in the detected language", "5 words or less"),
    ("使用四到五个字直接返回这句话的简要主题",),  # NextChat
    ("简要总结一下对话内容，用作后续的上下文提示 prompt",),
    ("you are a professional conversation summarizer", "title"),  # LobeChat
    ("你需要将用户的会话总结为 10 个字以内的标题",),
    ("summarize the given session as a 10-word title",),  # Cherry Studio
    ("10-word title. give the title only",),  # Jan
    ("summarize the user's request into a single short sentence of four words or less",),  # HuggingChat
)
# Words at the end of a prompt that quotes a question first.
_TITLE_ENDINGS: Final = (
    "respond only with the title text.",
    "create a concise, 3-5 word phrase with an emoji as a title for the previous query.",
)


def recognise_task(text: str) -> str | None:
    """Return which task a message of a chat program is: "title", "tags", "follow_ups" and so on; None if it is none.

    Give the text of one user message. Time is linear in its length.
    """
    trimmed = text.strip()
    opening = _normalise(trimmed[:OPENING_CHARACTERS])
    for task, words in _TASKS_BY_OPENING:
        if opening.startswith(words):
            return task
    ending = _normalise(trimmed[-ENDING_CHARACTERS:])
    if opening.startswith("here is the query:") and ending.endswith(_TITLE_ENDINGS):
        return "title"
    if not _holds_phrases(trimmed) and not (_HEADING.match(trimmed) and _holds_history(trimmed)):
        return None
    return next((task for task, words in _TASKS_BY_WORDS if any(word in opening for word in words)), "task")


def _holds_history(text: str) -> bool:
    """Return whether a chat history is quoted between its tags, as Open WebUI quotes it."""
    start = text.find(_HISTORY_OPEN)
    return start >= 0 and text.find(_HISTORY_CLOSE, start) >= 0


def _holds_phrases(text: str) -> bool:
    edges = _normalise(text[:PHRASE_CHARACTERS]), _normalise(text[-PHRASE_CHARACTERS:])
    return any(all(any(phrase in edge for edge in edges) for phrase in phrases) for phrases in _PHRASES)


def _normalise(text: str) -> str:
    return " ".join(text.replace("’", "'").split()).casefold()


def is_task(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the newest user message of a request, or an instruction in it, is a task prompt."""
    users = [message for message in messages if message.get("role") == "user"]
    instructions = [message for message in messages if message.get("role") in INSTRUCTION_ROLES]
    prompts = (read_content(message.get("content")) for message in (*instructions, *users[-1:]))
    return any(recognise_task(prompt) is not None for prompt in prompts)


def build_answer(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return what the built-in assistant answers to a task: nothing that a front-end would show as a title or tag."""
    wants_json = any("json" in read_content(message.get("content")).lower() for message in messages)
    return "{}" if wants_json else NO_TITLE
