"""Builds the prompt for a question: system prompt, profile, brief, recalled passages, newest turns, question.

It stays within a hard budget, whatever was stored or asked. It reads nothing: all inputs are given.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.core.models import Context, JsonObject
from recollect.core.protocols import PromptTokenizer
from recollect.recall.prompt import fence
from recollect.recall.prompt.alternation import ASSISTANT_BEGINS, alternate, put_memory
from recollect.recall.prompt.budget import PromptBudget, PromptLimits
from recollect.recall.prompt.caller_messages import take_question_message, take_system_message
from recollect.recall.prompt.explain import Explanation, explain_layout
from recollect.recall.prompt.inputs import PromptInputs
from recollect.recall.prompt.layout import choose_layout


def build(inputs: PromptInputs, *, budget: int, limits: PromptLimits, tokenizer: PromptTokenizer) -> Context:
    """Build the context. Neither its messages nor its text exceed the budget.

    Escapes make the text longer than the messages, and messages that become one may be longer than both. If either is
    too long, build again with as much less.
    """
    total = budget
    while True:
        context = _build_once(inputs, budget, PromptBudget(total, limits), tokenizer)
        excess = max(tokenizer.count(context.text), context.tokens) - budget
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
    head, block = [] if system is None else [system], layout.quotes.block()
    talk = alternate([*layout.tail.messages, question], opening="" if block else ASSISTANT_BEGINS)
    talk_tokens = sum(map(tokenizer.count_message, talk))
    with_memory = put_memory(block, talk)
    changed = with_memory[: 1 + len(with_memory) - len(talk)]  # the first message, or one more before it
    memory_tokens = sum(map(tokenizer.count_message, changed)) - tokenizer.count_message(talk[0])
    tokens = system_tokens + talk_tokens + memory_tokens
    explanation.correct_tokens(tail=talk_tokens - question_tokens, total=tokens)
    return Context(
        messages=(*head, *with_memory),
        text=_to_text(head, block, [*layout.tail.messages, question], has_section=bool(layout.section.lines)),
        tokens=tokens,
        explain=explanation.to_dict(inputs, asked_budget),
        degraded=inputs.degraded,
        memory=block,
        tail=tuple(layout.tail.messages),
        tail_ids=tuple(message.id for message in layout.tail.shown),
        question=question["content"],
    )


def _to_text(head: Sequence[JsonObject], block: str, talk: Sequence[JsonObject], *, has_section: bool) -> str:
    """Return the prompt as one text, for models that take no list of messages.

    The tail gets a heading if the fence has headings too.
    """
    turns = [f"{message['role']}: {fence.escape_turn(message['content'])}" for message in talk]
    if has_section and len(turns) > 1:
        turns[0] = f"{fence.TAIL_HEADING}\n{turns[0]}"
    return "\n\n".join([message["content"] for message in head] + ([block] if block else []) + turns)
