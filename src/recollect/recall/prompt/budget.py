"""The token budget of one prompt: what is left, what each part may take, every take and every return.

The parts give way in this order: first the older turns of the tail, down to one; then the brief, which is summarised
anew to fit. In a small budget recalled passages come first, and the tail and the brief get what they leave. Where the
settings put the tail first, brief and passages give way to it, in every budget that all of its turns fit into.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SMALL_BUDGET_TOKENS: Final = 2000  # up to here the rules for small budgets apply
DEFAULT_RECALL_TOKENS: Final = 1000  # with this limit or a higher one, recall takes all that is left of a small budget
MIN_QUESTION_TOKENS: Final = 64  # a question that is cut keeps at least so many
# Shares are parts of what system prompt and question leave.
SMALL_TAIL_SHARE: Final = 0.07  # share that recall leaves to the tail in a small budget
SMALL_TAIL_MAX_TOKENS: Final = 100
SMALL_TAIL_MIN_TOKENS: Final = 20  # fewer would say nothing
PROFILE_SHARE: Final = 0.1
PROFILE_MAX_TOKENS: Final = 200
SMALL_PROFILE_MAX_TOKENS: Final = 60
SMALL_ENTRIES_SHARE: Final = 0.04  # share for entries that always matter, in a small budget
SMALL_ENTRIES_MIN_TOKENS: Final = 20  # enough for an allergy and whose it is
SMALL_ENTRIES_MAX_TOKENS: Final = 40
ENTRIES_SHARE: Final = 0.5  # share of the brief's tokens
# Relevance that each token of a quote must bring; what brings less is left out, although it would fit. Whoever sets a
# small budget has said what a prompt may cost, so there only what is next to surely unrelated is left out.
MIN_QUOTE_WORTH: Final = 1e-4
SMALL_MIN_QUOTE_WORTH: Final = 2e-5
MIN_GROWTH_TOKENS: Final = 60  # with fewer left, the brief of a small budget does not grow


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """Limits from the settings: turns in the tail, tokens of recalled passages, tokens of the brief.

    `tail_first` says that brief and passages give way to the turns of the tail.
    """

    tail_turns: int
    recall_tokens: int
    brief_tokens: int
    tail_first: bool = False


class PromptBudget:
    """The tokens of one prompt. `left` are those that no part has taken.

    Parts are taken one after another: system prompt, question, tail, then the fence with brief and quotes. A part that
    changes later returns what it took and takes anew.
    """

    def __init__(self, total: int, limits: PromptLimits) -> None:
        self.total, self.limits = total, limits
        self.left = total
        self.is_small = total <= SMALL_BUDGET_TOKENS
        # Whether recalled passages may take all that the tail leaves. Settings may hold them below that.
        self.recall_takes_rest = self.is_small and limits.recall_tokens >= DEFAULT_RECALL_TOKENS
        self._recall_share = 0

    def take(self, tokens: int) -> bool:
        """Take tokens if so many are left. Return whether they were."""
        if tokens > self.left:
            return False
        self.left -= tokens
        return True

    def give_back(self, tokens: int) -> None:
        """Return tokens that a part had taken."""
        self.left += tokens

    # What each part may take

    def question_limit(self, *, has_memory: bool) -> int:
        """Return the tokens of a question that does not fit whole. It leaves half to memory, if there is any."""
        return max(self.left // 2, min(self.left, MIN_QUESTION_TOKENS)) if has_memory else self.left

    def reserve_recall(self) -> None:
        """Set recall's share aside. Call it when system prompt and question have taken theirs."""
        if not self.is_small:
            self._recall_share = min(self.limits.recall_tokens, self.left)
            return
        share = self.left - min(int(self.left * SMALL_TAIL_SHARE), SMALL_TAIL_MAX_TOKENS)
        self._recall_share = share if self.recall_takes_rest else min(share, self.limits.recall_tokens)

    def take_tail_first(self, tokens: int) -> bool:
        """Take all turns of the tail before brief and recall, if they fit. Return whether they do.

        Recall's share is set aside anew, of what is left.
        """
        if not self.take(tokens):
            return False
        self.reserve_recall()
        return True

    def profile_limit(self) -> int:
        """Return the tokens for lines of the profile, with their heading."""
        max_tokens = SMALL_PROFILE_MAX_TOKENS if self.is_small else PROFILE_MAX_TOKENS
        return min(int(self.left * PROFILE_SHARE), max_tokens)

    def vital_entries_limit(self, profile_tokens: int, *, has_facts: bool) -> int:
        """Return the tokens for entries that always matter, in a small budget.

        `has_facts` says that one of them is not an instruction. Then there are enough tokens for one, if the fence
        around it fits too.
        """
        left = self.left - profile_tokens
        min_tokens = SMALL_ENTRIES_MIN_TOKENS if has_facts and left >= 8 * SMALL_ENTRIES_MIN_TOKENS else 0
        max_tokens = min(SMALL_ENTRIES_MAX_TOKENS, self.limits.brief_tokens)
        return min(max(int(left * SMALL_ENTRIES_SHARE), min_tokens), max_tokens)

    def brief_limit(self, profile_tokens: int, newest_turn_tokens: int) -> int:
        """Return the tokens of the brief in a large budget. It leaves room for recall and for the newest turn.

        A long newest turn counts with a third of what is left.
        """
        left = self.left - profile_tokens
        return min(self.limits.brief_tokens, max(0, left - self._recall_share - min(newest_turn_tokens, left // 3)))

    def grown_brief_limit(self, brief_tokens: int) -> int:
        """Return the tokens of the brief in a small budget, with what the other parts left."""
        return min(self.limits.brief_tokens, brief_tokens + self.left)

    def can_grow(self) -> bool:
        """Return whether enough is left for more of the brief in a small budget."""
        return self.left >= MIN_GROWTH_TOKENS

    def entries_limit(self, brief_limit: int) -> int:
        """Return the tokens of ledger entries within a brief."""
        return int(brief_limit * ENTRIES_SHARE)

    def tail_turns(self) -> int:
        """Return the number of turns that the tail begins with."""
        return 1 if self.is_small else self.limits.tail_turns

    def tail_limit(self, reserved_tokens: int) -> int:
        """Return the tokens of the tail. `reserved_tokens` are those that the section before the quotes needs."""
        free = self.left - self._recall_share - reserved_tokens
        return max(free, min(SMALL_TAIL_MIN_TOKENS, self.left // 8))

    def min_quote_worth(self) -> float:
        """Return the relevance that each token of a quote must bring."""
        return SMALL_MIN_QUOTE_WORTH if self.is_small else MIN_QUOTE_WORTH

    def fence_limit(self, section_tokens: int) -> int:
        """Return the tokens of the whole fence. `section_tokens` are those of the section before the quotes."""
        return self.left if self.recall_takes_rest else min(self._recall_share + section_tokens, self.left)
