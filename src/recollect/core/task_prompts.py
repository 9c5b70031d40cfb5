"""Recognises task prompts: requests that a chat program makes for itself, such as a title for the chat.

Chat programs send them to the same model as the person's own messages, as one user message. They quote the
conversation, so storing them would store everything twice, and the person never wrote them.

The wordings are those of Open WebUI, LibreChat, NextChat and Chatbox. A prompt that carries a question of the person,
as Open WebUI's template for documents does, is no task prompt.
"""

from __future__ import annotations

import re
from typing import Final

OPENING_CHARACTERS: Final = 600  # what is asked for stands at the start; a short preamble may come first
ENDING_CHARACTERS: Final = 200
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
    if not _HEADING.match(trimmed) or not _holds_history(trimmed):
        return None
    return next((task for task, words in _TASKS_BY_WORDS if any(word in opening for word in words)), "task")


def _holds_history(text: str) -> bool:
    """Return whether a chat history is quoted between its tags, as Open WebUI quotes it."""
    start = text.find(_HISTORY_OPEN)
    return start >= 0 and text.find(_HISTORY_CLOSE, start) >= 0


def _normalise(text: str) -> str:
    return " ".join(text.replace("’", "'").split()).casefold()
