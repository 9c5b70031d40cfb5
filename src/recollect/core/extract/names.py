"""Finds names by their shape: people, places, organisations, products, handles, e-mail addresses, phone numbers.

In doubt it finds none: a wrong name in the ledger does more harm than a missing one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from recollect.core.compression.ledger import ENTITY
from recollect.core.extract.arabic_names import find_arabic_names
from recollect.core.extract.prose import Sentence
from recollect.core.extract.rules import RuleMatch, word_set
from recollect.core.language.identifiers import is_code_question

MAX_NAMES_PER_MESSAGE: Final = 24

_CAPITALISED: Final = r"(?:[A-Z\u00c0-\u00de\u0410-\u042f\u0391-\u03a9][\w'’&-]{1,30}|[A-Z]\.)"
_CAPITALISED_RUN: Final = re.compile(
    rf"(?<![\w@#./\\-])({_CAPITALISED}(?:(?: (?:of|de|del|la|von|van|der|bin|bint|ibn|al|the|for) "
    rf"| ){_CAPITALISED}){{0,5}}(?: \d{{1,4}}\b)?)(?![\w(@/\\]|\.\w|::)"
)
_HANDLE: Final = re.compile(r"(?<![\w@.])@[A-Za-z]\w{2,30}\b(?!\.)")
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,60}(?:\.[\w-]{2,30}){1,3}")
_PHONE: Final = re.compile(r"(?<![\w.,/+-])\+\d[\d ()-]{7,18}\d(?![\w-])")
_CAMEL_CASE: Final = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)+")
_ARABIC_LETTER: Final = re.compile("[\u0620-\u064a]")
_COMMON_WORDS: Final = word_set(
    """i i'm i've i'd i'll the a an and but or so if in on at to for from with my our your his her their its it this
    that these those what when where who why how which we you he she they there here yes no not ok okay hi hello
    hey dear thanks thank please sorry well now then also just let let's can could would should do does did is
    are was were will have has had be been some any all one two three first second next last maybe perhaps
    actually anyway note important monday tuesday wednesday thursday friday saturday sunday mondays tuesdays
    wednesdays thursdays fridays saturdays sundays january february march april may june july august september
    october november december mon tue wed thu fri sat sun jan feb mar apr jun jul aug sep sept oct nov dec
    christmas easter ramadan eid english arabic german french spanish italian chinese japanese russian urdu
    hindi portuguese american british european indian god mom dad mum grandma grandpa mr mrs ms dr prof ai api
    url faq pdf html css json sql http https csv xml cli gui ui ux id tv pc os usb ram cpu gpu ssd lol omg wow
    btw fyi asap imo tbd tbc todo diy eta n/a am pm usd eur gbp ceo cto cfo hr it phd ba ma msc bsc mba
    introduction methods results conclusion background abstract discussion summary references oh haha great good
    nice congrats bye hang bet mexican korean egyptian egyptians italian african asian latin western eastern
    happy merry internet web covid-19 covid ii iii iv earth yeah yep yup nope woohoo yay hooray aw aww hmm huh cheers
    absolutely definitely totally exactly awesome cool amazing glad sure tues thurs weds"""
)
_COUNTED_WORDS: Final = word_set(  # no names alone or before a number, but they may end a name: "Doris Day"
    "day week month year part step option version chapter section figure table page example"
)
_CONTRACTIONS: Final = word_set("what's here's there's that's it's who's where's how's let's she's he's")


def find_names(sentences: Sequence[Sentence]) -> Iterator[RuleMatch]:
    """Yield the names of a message's sentences as entities, each once."""
    seen: set[str] = set()
    for sentence in sentences:
        for name, slot in _find_in_sentence(sentence.text):
            key = name.casefold()
            if key in seen:
                continue
            if len(seen) >= MAX_NAMES_PER_MESSAGE:
                return
            seen.add(key)
            yield RuleMatch(ENTITY, slot, name, name)


def _find_in_sentence(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and their slots."""
    if "@" in text:
        yield from ((match[0], "handle") for match in _HANDLE.finditer(text))
        yield from ((match[0], "e-mail") for match in _EMAIL.finditer(text))
    if "+" in text:
        yield from ((match[0], "phone") for match in _PHONE.finditer(text))
    if _ARABIC_LETTER.search(text):
        yield from find_arabic_names(text)
    words = [word for word in text.split() if word != "I"]
    capitals = sum(word[:1].isupper() for word in words)
    # In a heading or a shouted sentence capitals say nothing.
    if not capitals or (len(words) > 3 and capitals > 0.75 * len(words)) or text.isupper():
        return
    for match in _CAPITALISED_RUN.finditer(text):
        name = _trim_to_name(match[1], first=_is_capital_expected(text, match.start(1)))
        if name and not (_CAMEL_CASE.fullmatch(name) and is_code_question(text)):
            yield name, "name"


def _is_capital_expected(text: str, start: int) -> bool:
    """Return whether a word at `start` has a capital in any case, because a sentence begins there."""
    before = text[:start].rstrip(" \"'“«([*-–—•")
    if before.endswith(("Dr.", "Mr.", "Mrs.", "Ms.", "Prof.")):
        return False
    return not before or before[-1] in ".!?:;…؟" or (before[-1].isdigit() and before[:-1].isdigit())


def _trim_to_name(run: str, *, first: bool) -> str:
    """Return a run of capitalised words without the ordinary words at its ends; "" if no name remains.

    `first` says that the run begins a sentence.
    """
    words = run.removesuffix("'s").removesuffix("’s").rstrip("'’-").split()
    if first and words and (len(words) < 2 or words[0].lower() in _COMMON_WORDS or words[1].islower()):
        words = words[1:]
    while words and (_is_ordinary(words[0]) or words[0].lower() in _CONTRACTIONS or _is_counting(words)):
        words = words[1:]
    if len(words) > 1 and words[-2].lower() in _COUNTED_WORDS and words[-1].isdigit():
        words = words[:-2]
    while words and _is_ordinary(words[-1]):
        words = words[:-1]
    name = " ".join(words)
    if len(name) < 3 or name.lower() in _COMMON_WORDS or all(len(word) <= 2 for word in words):
        return ""
    if any("'" in word and word.lower().endswith(("'t", "'m", "'ve", "'re", "'ll", "'d")) for word in words):
        return ""
    return name if not first or len(words) > 1 or (len(words) == 1 and not _is_first_word(run, name)) else ""


def _is_ordinary(word: str) -> bool:
    return word.lower() in _COMMON_WORDS or word.islower()


def _is_counting(words: Sequence[str]) -> bool:
    """Return whether the words begin with a numbered day, page or part, or with the number itself."""
    if words[0].lower() not in _COUNTED_WORDS:
        return words[0].isdigit()
    return len(words) == 1 or words[1].isdigit() or words[1].lower() in _COMMON_WORDS


def _is_first_word(run: str, name: str) -> bool:
    """Return whether the name is the first word of the run, which has a capital only because it began the sentence."""
    return run.split()[0] == name
