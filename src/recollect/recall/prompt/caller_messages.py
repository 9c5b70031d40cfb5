"""The messages of a prompt that come from the caller: the system prompt first, the question last."""

from __future__ import annotations

from recollect.core.errors import InvalidInput
from recollect.core.models import JsonObject
from recollect.core.protocols import PromptTokenizer
from recollect.recall.prompt.budget import PromptBudget
from recollect.recall.prompt.excerpts import make_excerpt
from recollect.recall.prompt.inputs import PromptInputs


def take_system_message(
    inputs: PromptInputs, budget: PromptBudget, tokenizer: PromptTokenizer
) -> tuple[JsonObject | None, int]:
    """Return the system prompt as a message with its tokens. It is never cut: raise InvalidInput if it does not fit."""
    if inputs.system_prompt is None:
        return None, 0
    message: JsonObject = {"role": "system", "content": inputs.system_prompt}
    tokens = tokenizer.count_message(message)
    if not budget.take(tokens):
        reason = f"The system prompt alone takes {tokens} tokens, but the budget has {budget.left}."
        raise InvalidInput("budget_too_small", f"{reason} Shorten it, or raise the budget.")
    return message, tokens


def take_question_message(
    inputs: PromptInputs, budget: PromptBudget, tokenizer: PromptTokenizer
) -> tuple[JsonObject, int]:
    """Return the question as a message with its tokens. A question that does not fit is cut to an excerpt."""
    message: JsonObject = {"role": "user", "content": inputs.question}
    tokens = tokenizer.count_message(message)
    if tokens > budget.left:
        frame = tokenizer.count_message({"role": "user", "content": ""})
        if budget.left <= frame:
            reason = f"A question does not fit into the {budget.left} tokens that are left. Raise the budget."
            raise InvalidInput("budget_too_small", reason)
        limit = budget.question_limit(has_memory=bool(inputs.newest or inputs.candidates))
        message = {"role": "user", "content": make_excerpt(inputs.question, limit - frame, tokenizer)}
        tokens = tokenizer.count_message(message)
    budget.take(tokens)
    return message, tokens
