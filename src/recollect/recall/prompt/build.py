"""Builds the prompt for a question: system prompt, profile, brief, recalled passages, newest turns, question.

It stays within a hard budget, whatever was stored or asked. It reads nothing: all inputs are given.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.core.models import Context, JsonObject
from recollect.core.protocols import PromptTokenizer
from recollect.recall.prompt import fence
from recollect.recall.prompt.budget import PromptBudget, PromptLimits
from recollect.recall.prompt.caller_messages import take_question_message, take_system_message
from recollect.recall.prompt.explain import Explanation, explain_layout
from recollect.recall.prompt.inputs import PromptInputs
from recollect.recall.prompt.layout import choose_layout


def build(inputs: PromptInputs, *, budget: int, limits: PromptLimits, tokenizer: PromptTokenizer) -> Context:
    """Build the context. Neither its messages nor its text exceed the budget.

    Escapes make the text longer than the messages. If it is too long, build again with as much less.
    """
    total = budget
    while True:
        context = _build_once(inputs, budget, PromptBudget(total, limits), tokenizer)
        excess = tokenizer.count(context.text) - budget
        if excess <= 0:
            return context
        total -= excess


def _build_once(inputs: PromptInputs, asked_budget: int, budget: PromptBudget, tokenizer: PromptTokenizer) -> Context:
    explanation = Explanation()
    system, system_tokens = take_system_message(inputs, budget, tokenizer)
    if system is not None:
        explanation.add_part("system_prompt", system_tokens, "given by the caller")
    question, question_tokens = take_question_message(inputs, budget, tokenizer)
    budget.reserve_recall()
    layout = choose_layout(inputs, budget, tokenizer)
    explain_layout(explanation, inputs, layout, budget.limits.tail_turns, tokenizer)
    is_whole = question["content"] == inputs.question
    reason = "what is asked now" if is_whole else "what is asked now, cut: it does not fit"
    explanation.add_part("question", question_tokens, reason)
    head = [] if system is None else [system]
    fenced = [] if layout.quotes.is_empty else [layout.quotes.message()]
    talk = [*layout.tail.messages, question]
    messages = [*head, *fenced, *talk]
    return Context(
        messages=tuple(messages),
        text=_to_text([*head, *fenced], talk, has_section=bool(layout.section.lines)),
        tokens=sum(tokenizer.count_message(message) for message in messages),
        explain=explanation.to_dict(inputs, asked_budget),
        degraded=inputs.degraded,
    )


def _to_text(head: Sequence[JsonObject], talk: Sequence[JsonObject], *, has_section: bool) -> str:
    """Return the prompt as one text, for models that take no list of messages.

    The tail gets a heading if the fence has headings too.
    """
    turns = [f"{message['role']}: {fence.escape_turn(message['content'])}" for message in talk]
    if has_section and len(turns) > 1:
        turns[0] = f"{fence.TAIL_HEADING}\n{turns[0]}"
    return "\n\n".join([message["content"] for message in head] + turns)
