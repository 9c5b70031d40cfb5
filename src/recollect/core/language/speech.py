"""Reads who speaks in a message, which of its words are the author's own, and whether a sentence is negated.

The summariser, the ledger rules and the prompt share these readings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from recollect.core.language.lookalikes import strip_invisible, to_pattern
from recollect.core.message import Message

MAX_NAME_CHARACTERS: Final = 60
_MAX_REQUEST_CHARACTERS: Final = 2000  # from the start of a message; a request comes early
_MAX_DIALOGUE_CHARACTERS: Final = 5000  # enough to recognise a pasted conversation
_FORMAT_CHARACTERS: Final = re.compile(r"[:<>\[\]{}|\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_NEGATION: Final = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|nowhere|neither|nor|cannot|without|stop|stopped|avoid\w*|refus\w*"
    r"|reject\w*|declin\w*|unlike|instead of|quit|lacks?|false)\b|n['’]t\b|\bdont\b"
    r"|(?<!\w)(?:لا|لم|لن|ليس|ليست|لست|بدون|غير|ولا|كلا|دون)(?!\w)|[不没別别无]",
    re.IGNORECASE,
)
# A request for a text, or an introduction to pasted text. What follows is not about its author.
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
_BORROWED_START: Final = re.compile(r"[:\n\"“«]")


# Words of a name that claim the authority of a system message, wherever they stand or as its first word.
_SYSTEM_WORD: Final = re.compile(
    rf"(?:{to_pattern('system')}|sistema|систем|النظام|系统|系統|システム|시스템)", re.IGNORECASE
)
_AUTHORITIES: Final = ("developer", "admin", "administrator", "root", "sudo", "operator")
_FIRST_WORD: Final = re.compile(
    rf"(?P<authority>{'|'.join(map(to_pattern, _AUTHORITIES))}|المطور|المسؤول|المشرف)"
    rf"|(?P<assistant>{to_pattern('assistant')}|المساعد)|(?P<user>{to_pattern('user')}|المستخدم)|(?P<tool>{to_pattern('tool')})",
    re.IGNORECASE,
)
_NAME_WORD: Final = re.compile(r"[^\W_]+")
_ARTICLES: Final = frozenset(("the", "a", "an", "new", "real"))


def speaker_name(message: Message) -> str:
    """Return the speaker's name on one line, without the characters that format a prompt.

    A message without a name, or with a name that imitates a role or an authority ("System override"), gives its role:
    a name must not pass for another role.
    """
    if not message.name:
        return message.role
    name = " ".join(_FORMAT_CHARACTERS.sub(" ", message.name).split())[:MAX_NAME_CHARACTERS].strip(" -…")
    return name if name and not _imitates_role(message.name, message.role) else message.role


def _imitates_role(name: str, role: str) -> bool:
    """Return whether a name claims to be a role. "User 2" may speak as the user, but not as the assistant."""
    words = [word for word in _NAME_WORD.findall(strip_invisible(name)) if word.lower() not in _ARTICLES]
    if any(map(_SYSTEM_WORD.match, (*words, "".join(words)))):  # "S Y S T E M" too
        return True
    claimed = _FIRST_WORD.fullmatch(words[0]) if words else None
    return claimed is not None and (claimed.lastgroup != role or len(words) == 1)


def is_negated(text: str) -> bool:
    """Return whether a sentence has a word of negation."""
    return _NEGATION.search(text) is not None


def extract_own_words(text: str) -> str:
    """Return the author's own words: without quoted lines and pasted conversations.

    Of a message that asks for a text or introduces a pasted one, only the words up to that text are returned.
    """
    text = _QUOTED_LINE.sub("", text)
    if _is_dialogue(_SPEECH_LINE.findall(text[:_MAX_DIALOGUE_CHARACTERS])):
        text = _SPEECH_LINE.sub("", text)
    request = _BORROWED.search(text[:_MAX_REQUEST_CHARACTERS])
    if request is None:
        return text
    border = _BORROWED_START.search(text, max(request.start(), request.end() - 1))
    return text[: border.start()] if border else text


def _is_dialogue(speakers: Sequence[str]) -> bool:
    """Return whether names before lines are speakers: one repeats, or is "Me" or "You". Else they may label facts."""
    return len(speakers) > 1 and (len(set(speakers)) < len(speakers) or bool({"Me", "You"} & set(speakers)))
