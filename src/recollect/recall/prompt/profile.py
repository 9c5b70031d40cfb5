"""The profile in a prompt and among what is recalled: which of its lines, by the words of the question.

It gets what the store lets it have: without consent that is an empty profile, and nothing is told. Nothing of it is
remembered here, so nothing outlives a consent that is revoked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recollect.core.language import analyser
from recollect.core.models import Hit
from recollect.core.profile import NOTES, Profile, lines
from recollect.core.protocols import PromptTokenizer
from recollect.recall.prompt import fence
from recollect.recall.prompt.pack import exceeds

BEARS: Final = 0.25  # of the question's words that a line has, to be recalled
RECALLED: Final = 3  # lines at most


@dataclass(frozen=True, slots=True)
class Told:
    """A line of the profile, where it stands there, and the share of the question's words that it has."""

    place: int
    field: str
    text: str
    worth: float


def weigh(profile: Profile, question: str) -> list[Told]:
    """The lines of a profile, those first that bear on the question."""
    asked = set(analyser.words(question))
    found = []
    for place, line in enumerate(lines(profile)):
        said = line.text.partition(": ")[2] if line.field == NOTES else line.text  # every note is called a note
        shared = asked.intersection(analyser.words(said))
        found.append(Told(place, line.field, line.text, len(shared) / len(asked) if asked else 0.0))
    return sorted(found, key=lambda one: (-one.worth, one.place))


def fitting(told: Sequence[Told], most: int, tokenizer: PromptTokenizer) -> list[Told]:
    """The lines that fit into so many tokens with their heading, best first, in the order of the profile."""
    left = most - tokenizer.count_line(fence.PROFILE) if told else 0
    chosen = []
    for one in told:
        tokens = left + 1 if exceeds(one.text, left) else tokenizer.count_line(fence.bullet(one.text))
        if tokens <= left:
            left -= tokens
            chosen.append(one)
    return sorted(chosen, key=lambda one: one.place)


def section(told: Sequence[Told]) -> list[str]:
    """What stands in the fence."""
    return [fence.PROFILE, *(fence.bullet(one.text) for one in told)] if told else []


def hits_of(profile: Profile, question: str) -> list[Hit]:
    """The lines of a profile that have enough of the question's words to be what is asked for."""
    if profile.updated_at is None:
        return []
    best = [one for one in weigh(profile, question) if one.worth >= BEARS][:RECALLED]
    return [
        Hit(None, "", None, "user", one.text, profile.updated_at, one.worth, "profile", {"bm25": one.worth})
        for one in best
    ]
