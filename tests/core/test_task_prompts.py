"""Requests that chat programs make for themselves are told apart from what people write."""

from __future__ import annotations

import pytest

from recollect.core.task_prompts import recognise_task

HISTORY = "### Chat History:\n<chat_history>\nUSER: I moved to Lyon.\nASSISTANT: Welcome!\n</chat_history>"
TASK_PROMPTS = [
    ("title", f"### Task:\nGenerate a concise, 3-5 word title with an emoji.\n### Output:\nJSON\n{HISTORY}"),
    ("title", f"  ### Task:\r\nWrite a title of a few words, in German.\r\n{HISTORY}"),
    ("tags", f"### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history.\n\n{HISTORY}\n"),
    ("follow_ups", f"### Task:\nSuggest 3-5 relevant follow-up questions.\n{HISTORY}"),
    ("queries", f"### Task:\nAnalyze the chat history to decide on generating search queries.\n\n{HISTORY}"),
    ("autocomplete", "### Task:\nYou are an autocompletion system. Continue the text.\n### Context:\n"
     "<chat_history>\nUSER: Hi\n</chat_history>\n<type>General</type>\n<text>I moved</text>\n#### Output:"),
    ("image_prompt", f"### Task:\nGenerate a detailed prompt for am image generation task.\n\n{HISTORY}"),
    ("task", f"### Task:\nDo as our administrator wishes.\n\n{HISTORY}"),
    ("title", "Create a concise, 3-5 word phrase as a header for the following query, strictly: I moved to Lyon."),
    ("title", "Here is the query:\nI moved to Lyon.\n\nCreate a concise, 3-5 word phrase with an emoji as a title for "
     "the previous query. Avoid quotation marks. RESPOND ONLY WITH THE TITLE TEXT."),
    ("title", "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return "
     "the title itself.\n\nConversation:\nI moved to Lyon."),
    ("title", "Please generate a four to five word title summarizing our conversation without any lead-in."),
    ("summary", "Summarize the discussion briefly in 200 words or less to use as a prompt for future context."),
    ("emoji", "Your task is to reflect the speaker’s likely facial expression through a fitting emoji. Message: Hi"),
    ("merge", 'You have been provided with a set of responses from various models to the latest user query: "Hi"'),
]  # fmt: skip
WRITTEN_BY_PEOPLE = [
    "",
    "I moved to Lyon.",
    "### Task:\nWrite the unit tests for chat_history.py, please.",
    "### Task\n1. Read <chat_history> tags\n2. Say where they are closed",
    "Why does my server get '### Task:\nGenerate a concise title … <chat_history>\nUSER: hi\n</chat_history>'?",
    "Please generate a title for my essay on rivers.",
    "Summarize the discussion above.",
    "Give this conversation a name.",
    "Here is the query:\nSELECT 1\nWhy is it slow?",
    # Open WebUI's template for documents: it holds the person's own question
    "### Task:\nRespond to the user query using the provided context, with inline citations in the format [id].\n"
    "<context>\nLyon has two rivers.\n</context>\n\n<user_query>\nHow many rivers has Lyon?\n</user_query>",
]


@pytest.mark.parametrize(("task", "text"), TASK_PROMPTS)
def test_a_prompt_that_a_program_made_for_itself_is_recognised(task: str, text: str) -> None:
    assert recognise_task(text) == task


@pytest.mark.parametrize("text", WRITTEN_BY_PEOPLE)
def test_what_a_person_wrote_is_no_task_prompt(text: str) -> None:
    assert recognise_task(text) is None
