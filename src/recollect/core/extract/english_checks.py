"""Checks on the values of English rules. A rule names its check by a mark, which is a key of CHECKS."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from recollect.core.extract.english_words import FEELINGS, JOBS, MONTH, WEEKDAY
from recollect.core.extract.rules import word_set

_NOT_A_PERSON: Final = word_set(
    """so very really not sure sorry happy glad sad tired here back fine good great ok okay ready done just also
    still
    new old afraid excited thrilled curious interested looking going trying planning working thinking wondering
    having using getting in on at from with about the a an vegan vegetarian single married muslim christian
    jewish hindu monday tuesday wednesday thursday friday saturday sunday january february march april may june
    july august september october november december god jesus yes no also thanks i we it this that what my our
    mr mrs ms dr prof"""
)
_TIME_WORD: Final = re.compile(
    rf"(?:{WEEKDAY}s?|(?!may\b)(?:{MONTH})|today|tomorrow|night|home|least|most|once|present|all|first|last)\b",
    re.IGNORECASE,
)


def is_job(value: str) -> bool:
    """Return whether a value names a job: "senior data engineer", "nurse at a clinic", not "big fan"."""
    words = re.split(r" (?:at|in|for|with|of|by|on|from|who|working|specializing) ", value.lower(), maxsplit=1)[
        0
    ].split()
    return bool(words) and len(words) <= 5 and words[-1].rstrip("s.") in JOBS


def is_proper(value: str) -> bool:
    """Return whether a value begins with a capital or a digit, perhaps after an article, and is no time."""
    words = value.split()
    if words and words[0].lower() in ("a", "an", "the"):
        words = words[1:]
    return bool(words) and not words[0][:1].islower() and not _TIME_WORD.match(words[0])


def is_place(value: str) -> bool:
    """Return whether a value may be the name of a place. Up to three words may be written without capitals."""
    words = value.split()
    if not words or _TIME_WORD.match(words[0]) or not any(character.isalpha() for character in value):
        return False
    if words[0].lower().strip(".,") in _PRODUCTS:
        return False
    if any(word[:1].isupper() for word in words):
        return True
    return len(words) <= 3 and words[0] not in _NOT_A_PLACE


_PRODUCTS: Final = word_set(
    """linux windows mac macos ubuntu debian fedora android ios iphone postgres postgresql mysql sqlite mongodb redis
    python rust go golang java kotlin swift typescript javascript react vue angular svelte django rails kubernetes
    docker aws azure gcp slack teams notion obsidian github gitlab vim neovim emacs vscode chrome firefox mars tears
    spotify netflix gmail outlook signal telegram whatsapp"""
)
_NOT_A_PLACE: Final = word_set(
    """a an the my our your his her their this that these those it fear peace harmony constant hope love general
    front
    charge case fact order need time one two something somewhere work school home bed here there between and any
    some different"""
)


def is_person(value: str) -> bool:
    """Return whether a value may be the name of a person."""
    words = value.split()
    return 0 < len(words) <= 4 and not {word.lower() for word in words} & _NOT_A_PERSON and words[0][:1].isalpha()


_NOT_A_LIKED_THING: Final = word_set(
    """it that this them those these how what the your you him her his their idea ideas sound sounds seeing hearing
    if
    when where so your to being on in at from for with about i i'm thanks all both either everything anything
    something one some me my our us we any as well too such every its a"""
)


def is_liked(value: str) -> bool:
    """Return whether a value names a thing that one can like, and is not only a pronoun."""
    words = value.lower().split()
    return (
        words[0] not in _NOT_A_LIKED_THING
        and len(value) > 2
        and not {"it", "that", "them", "this", "you"} & set(words[:4])
    )


_DATE_OR_NUMBER: Final = re.compile(rf"\d|\b(?:{WEEKDAY}|{MONTH}|tomorrow|midnight|noon)\b", re.I)


def is_dated(value: str) -> bool:
    """Return whether a value has a number or a date."""
    return _DATE_OR_NUMBER.search(value) is not None


def is_specific(value: str) -> bool:
    """Return whether a value has a number, a date or a name."""
    return is_dated(value) or any(word[:1].isupper() and word not in ("I", "I'm") for word in value.split()[1:])


_ADVICE_REQUEST: Final = re.compile(
    r"(?:some |more |a few |any |new |good |your ){0,3}(?:\w+ ){0,2}?(?:tips|advice|guidance"
    r"|information|info|ideas|recommendations|suggestions|help|insights?|resources|inspiration"
    r"|input|feedback)\b"
    r"|(?:get|find|hear|have) (?:some |more |your |a few |any |a |an ){0,2}(?:\w+ )?(?:tips|advice"
    r"|guidance|information|info|ideas|recommendations|suggestions|help|insights?|inspiration"
    r"|input|feedback|idea)\b",
    re.I,
)

_VAGUE_WORD: Final = re.compile(r"(?:it|that|this|them|these|those|him|you|your|something|things|stuff|ones)$", re.I)


def is_goal(value: str) -> bool:
    """Return whether a value can be understood without its context, and is no request for advice."""
    words = value.split()
    if _ADVICE_REQUEST.match(value):
        return False
    return (
        len(words) > 1
        and not any(_VAGUE_WORD.match(word) for word in words[:4] if word != "this" or word is words[-1])
        and words[-1] not in ("few", "some", "a", "the")
    )


_PAST_TIME: Final = re.compile(
    r"\b(?:last (?:week|month|year|summer|winter|spring|fall|autumn|night|weekend)|ago|yesterday|recently|the other day"
    r"|in (?:19|20)\d\d)\b",
    re.I,
)

_PASSING_ACTION: Final = re.compile(
    r"(?:took|had|got|made) an? (?:(?:quick|closer|short|long|little|deep) )?(?:look|break|nap|shower|glance|peek"
    r"|breath|moment|screenshot|call|note|mistake|typo|change)\b|(?:joined|left|opened|closed|started|finished)"
    r" (?:(?:the|an?|my|your|our|his|her) )?(?:[\w-]+ )?(?:call|meeting|chat|doors?|windows?|tabs?|laptop|editor|link"
    r"|page|fridge)\b"
    r"|went (?:to (?:bed|sleep|work|school|the (?:bathroom|toilet))|on to|on (?:and|for)|with|through)\b",
    re.I,
)
_COMPUTER_OR_NOTHING: Final = re.compile(
    r"(?!(?:adopted|joined|attended|visited|bought|won|met) this \w+ \w)"
    r"\w+ (?:(?:up|for|to|in|on|out|from|back|with|at|into|of) ){0,2}(?:no|nothing|none|it|this|that)\b"
    r"|\w+ (?:[\w'-]+ ){0,3}?(?:errors?|bugs?|npm|pip|git|terminal|tabs?|browser|files?|commands?|scripts?|install"
    r"|server|build|query|queries|code|branch|commits?|connection|progress)\b"
    r"|(?!passed|failed|took|retook|got|received)\w+ (?:[\w'-]+ ){0,3}?tests?\b",
    re.I,
)


def is_lasting(value: str) -> bool:
    """Return whether a value is more than a passing action, such as opening a door."""
    return _PASSING_ACTION.match(value) is None


def has_happened(value: str) -> bool:
    """Return whether a value is an event in a life: no passing action, and nothing on a computer."""
    return is_goal(value) and is_lasting(value) and _COMPUTER_OR_NOTHING.match(value) is None


def is_event(value: str) -> bool:
    """Return whether a value is an event in a life with its time."""
    return has_happened(value) and (is_dated(value) or _PAST_TIME.search(value) is not None) and len(value.split()) > 3


def is_sum(value: str) -> bool:
    """Return whether a value has an amount in figures or words."""
    return re.search(r"\d|\b(?:hundred|thousand|million|billion|grand)\b", value, re.I) is not None


_DAY: Final = re.compile(rf"\b(?:{WEEKDAY}|(?:{MONTH})\b|\d{{1,2}}(?:st|nd|rd|th)\b|next (?:week|month|year))", re.I)


def is_scheduled(value: str) -> bool:
    """Return whether a value names a day, not only an hour."""
    return _DAY.search(value) is not None


def is_trait(value: str) -> bool:
    """Return whether a value describes something lastingly, and is no mood or pronoun."""
    first = value.split()[0].lower()
    return first not in FEELINGS or (first in ("a", "an") and is_specific(value))


_NOT_OWNED: Final = word_set(
    "question questions idea ideas problem problems risk errand errands life thing things lot mind errands it"
)


def _has_word_count(maximum: int, *, minimum: int = 1) -> Callable[[str], bool]:
    return lambda value: minimum <= len(value.split()) <= maximum


def is_named(value: str) -> bool:
    """Return whether a value has a number or begins with a name."""
    return value.split()[0].lower() not in FEELINGS and (
        any(character.isdigit() for character in value) or is_proper(value)
    )


CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "dated": is_dated,
    "event": is_event,
    "few": _has_word_count(3),
    "full": _has_word_count(40, minimum=3),
    "goal": is_goal,
    "happened": has_happened,
    "job": is_job,
    "lasting": is_lasting,
    "liked": is_liked,
    "named": is_named,
    "owned": lambda value: value.split()[-1].lower() not in _NOT_OWNED,
    "person": is_person,
    "place": is_place,
    "proper": is_proper,
    "scheduled": is_scheduled,
    "short": _has_word_count(8),
    "specific": is_specific,
    "sum": is_sum,
    "explicit": lambda value: value.split()[0].lower() not in ("it", "that", "this"),
    "trait": is_trait,
}
