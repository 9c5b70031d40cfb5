"""Who speaks, whether a sentence denies, and which words of a message are its author's own. For all who tell of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from recollect.core.models import ROLES, Message

NAME_LIMIT: Final = 60
_SIGNS: Final = re.compile(r"[:<>\[\]{}|\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_DENIES: Final = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|nowhere|neither|nor|cannot|without|stop|stopped|avoid\w*|refus\w*"
    r"|reject\w*|declin\w*|unlike|instead of|quit|lacks?|false)\b|n['’]t\b|\bdont\b"
    r"|(?<!\w)(?:لا|لم|لن|ليس|ليست|لست|بدون|غير|ولا|كلا|دون)(?!\w)|[不没別别无]",
    re.IGNORECASE,
)
# Who asks for a text, or brings one along, does not speak of himself in it.
_BORROWED: Final = re.compile(
    r"\b(?:write|tell|make up|compose|draft|generate|create)(?: me)? (?:an? |the |some )?(?:[\w-]+ ){0,2}(?:story|poem"
    r"|scene|dialogue|song|lyrics|screenplay|monologue|letter|speech|joke|e-?mail|essay|bio|character|post|article|review)\b"
    r"|\b(?:summari[sz]e|translate|proofread|paraphrase|rewrite|reword|edit|correct|analy[sz]e|explain|improve|shorten)"
    r"(?: (?:this|these|the following|my|the)?\b[^\n]{0,60}?(?:[:\n]|[\"'“«])| ?:)"
    r"|\b(?:here(?:'s| is| are)|this is|i (?:got|received|found)) [^\n]{0,60}(?:e-?mail|letter|article|text|message"
    r"|post|quote|excerpt|lyrics|transcript|log)\b[^\n]{0,40}:"
    r"|(?:اكتب|أكتب|لخص|ترجم|صحح)(?: لي)? [^\n]{0,40}[:\n]",
    re.IGNORECASE,
)
_QUOTED_LINE: Final = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_SPEECH_LINE: Final = re.compile(
    r"^[ \t]*(?:\[[^\]\n]{1,30}\] )?([A-Z\u00c0-\u00de][\w.'-]{0,20}(?: [A-Z][\w.'-]{0,20})?): .*$", re.MULTILINE
)
_WITHIN: Final = re.compile(r"[:\n\"“«]")


def speaker(message: Message) -> str:
    """The name of the speaker on one line, without signs of ours; or the role, also for who calls himself by a role."""
    if not message.name:
        return message.role
    name = " ".join(_SIGNS.sub(" ", message.name).split())[:NAME_LIMIT].strip(" -…")
    bare = name.lower().removeprefix("the ").strip()
    return name if bare and bare not in ROLES else message.role


def denies(text: str) -> bool:
    return _DENIES.search(text) is not None


def own_words(text: str) -> str:
    """What the author of a message says himself: no quoted lines, no pasted talk; of a text that he only brings along,
    just the request."""
    text = _QUOTED_LINE.sub("", text)
    if _is_dialogue(_SPEECH_LINE.findall(text[:5000])):
        text = _SPEECH_LINE.sub("", text)
    found = _BORROWED.search(text[:2000])
    if found is None:
        return text
    border = _WITHIN.search(text, max(found.start(), found.end() - 1))
    return text[: border.start()] if border else text


def _is_dialogue(speakers: Sequence[str]) -> bool:
    """Names before lines are those of a talk if one comes again or is "Me"; else they may be a list of facts."""
    return len(speakers) > 1 and (len(set(speakers)) < len(speakers) or bool({"Me", "You"} & set(speakers)))
