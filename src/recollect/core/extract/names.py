"""Names by their shape: people, places, organisations, products, handles, addresses. Rather none than a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from recollect.core.compression.ledger import ENTITY
from recollect.core.extract.arabic_words import GIVEN, NAMES, PLACES, fold
from recollect.core.extract.rules import Finding, words
from recollect.core.extract.texts import Sentence
from recollect.core.language.identifiers import is_code_question

MOST: Final = 24

_CAPITAL: Final = r"(?:[A-Z\u00c0-\u00de\u0410-\u042f\u0391-\u03a9][\w'’&-]{1,30}|[A-Z]\.)"
_RUN: Final = re.compile(
    rf"(?<![\w@#./\\-])({_CAPITAL}(?:(?: (?:of|de|del|la|von|van|der|bin|bint|ibn|al|the|for) "
    rf"| ){_CAPITAL}){{0,5}}(?: \d{{1,4}}\b)?)(?![\w(@/\\]|\.\w|::)"
)
_HANDLE: Final = re.compile(r"(?<![\w@.])@[A-Za-z]\w{2,30}\b(?!\.)")
_MAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,60}(?:\.[\w-]{2,30}){1,3}")
_PHONE: Final = re.compile(r"(?<![\w.,/+-])\+\d[\d ()-]{7,18}\d(?![\w-])")
_CAMEL: Final = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)+")
_AR_TITLE: Final = re.compile(
    r"(?<![\w])(?:و|ل|ب|ف)?(?:الدكتورة?|الأستاذة?|الاستاذة?|السيدة?|الشيخة?|المهندسة?|الأميرة?"
    r"|الوزيرة?|معالي|سعادة|الأخت?|العميد|القاضي)"
    r"(?: (?:الدكتورة?|السيدة?|الشيخة?|الأستاذة?))? ([\u0620-\u064a]{2,15}(?: (?:بن|بنت|آل"
    r"|عبد) [\u0620-\u064a]{2,15}| ال[\u0620-\u064a]{2,15}){0,3})"
)
_AR_KIND: Final = re.compile(
    r"(?<![\w])[وبلف]?((?:وزارة|شركة|جامعة|مدينة|بنك|مؤسسة|هيئة|مستشفى|مطار|محافظة|ولاية|سلطنة"
    r"|جمهورية|مملكة|دولة|مجلس|منظمة|جمعية|كلية|معهد|متحف)"
    r" (?!ال(?:جديد|كبير|صغير)|من |في |على |إلى |كبير|جديد|صغير|أخرى|خاص|لل|تعمل|تقدم|مثل|عن |هذه"
    r"|تلك|ما )[\u0620-\u064a]{3,15}(?: ال[\u0620-\u064a]{3,15})?)"
)
_AR_LETTER: Final = re.compile("[\u0620-\u064a]")
_AR_PERSON: Final = re.compile(
    rf"(?<!\w)[وبلف]?((?:{NAMES}|(?:{GIVEN}) (?=ال))(?: ?(?:بن|بنت) [\u0620-\u064a]{{2,14}})?"
    rf"(?: ?ال[\u0620-\u064a]{{3,14}}ي)?)(?<! )(?!\w)"
)
_AR_PLACE: Final = re.compile(rf"(?<!\w)[وبلف]?({PLACES})(?!\w)")
_COMMON: Final = words(
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
_COUNTED: Final = words(  # ordinary alone and before a number, but also the end of a name: "Doris Day"
    "day week month year part step option version chapter section figure table page example"
)
_CONTRACTED: Final = words("what's here's there's that's it's who's where's how's let's she's he's")


def names(told: Sequence[Sentence]) -> Iterator[Finding]:
    seen: dict[str, None] = {}
    for sentence in told:
        for name, slot in _in_sentence(sentence.text):
            key = name.casefold()
            if key in seen:
                continue
            if len(seen) >= MOST:
                return
            seen[key] = None
            yield Finding(ENTITY, slot, name, name)


def _in_sentence(text: str) -> Iterator[tuple[str, str]]:
    if "@" in text:
        yield from ((match[0], "handle") for match in _HANDLE.finditer(text))
        yield from ((match[0], "e-mail") for match in _MAIL.finditer(text))
    if "+" in text:
        yield from ((match[0], "phone") for match in _PHONE.finditer(text))
    yield from ((match[1], "person") for match in _AR_TITLE.finditer(text))
    if _AR_LETTER.search(text):
        yield from _arabic(text)
    yield from ((match[1], "organisation") for match in _AR_KIND.finditer(text))
    words = [word for word in text.split() if word != "I"]
    capitals = sum(word[:1].isupper() for word in words)
    if not capitals or (len(words) > 3 and capitals > 0.75 * len(words)) or text.isupper():
        return
    for match in _RUN.finditer(text):
        name = _name(match[1], first=_is_first(text, match.start(1)))
        if name and not (_CAMEL.fullmatch(name) and is_code_question(text)):
            yield name, "name"


def _arabic(text: str) -> Iterator[tuple[str, str]]:
    folded, places = fold(text)
    for pattern, slot in ((_AR_PERSON, "person"), (_AR_PLACE, "place")):
        for match in pattern.finditer(folded):
            yield text[places[match.start(1)] : places[match.end(1) - 1] + 1], slot


def _is_first(text: str, start: int) -> bool:
    """Whether a capital is expected here anyway."""
    before = text[:start].rstrip(" \"'“«([*-–—•")
    if before.endswith(("Dr.", "Mr.", "Mrs.", "Ms.", "Prof.")):
        return False
    return not before or before[-1] in ".!?:;…؟" or (before[-1].isdigit() and before[:-1].isdigit())


def _name(run: str, *, first: bool) -> str:
    """The run without the ordinary words at its ends; nothing if no name remains."""
    words = run.removesuffix("'s").removesuffix("’s").rstrip("'’-").split()
    if first and words and (len(words) < 2 or words[0].lower() in _COMMON or words[1].islower()):
        words = words[1:]
    while words and (_is_ordinary(words[0]) or words[0].lower() in _CONTRACTED or _is_counting(words)):
        words = words[1:]
    if len(words) > 1 and words[-2].lower() in _COUNTED and words[-1].isdigit():
        words = words[:-2]
    while words and _is_ordinary(words[-1]):
        words = words[:-1]
    name = " ".join(words)
    if len(name) < 3 or name.lower() in _COMMON or all(len(word) <= 2 for word in words):
        return ""
    if any("'" in word and word.lower().endswith(("'t", "'m", "'ve", "'re", "'ll", "'d")) for word in words):
        return ""
    return name if not first or len(words) > 1 or (len(words) == 1 and not _is_plain(run, name)) else ""


def _is_ordinary(word: str) -> bool:
    return word.lower() in _COMMON or word.islower()


def _is_counting(words: Sequence[str]) -> bool:
    """A day, a page or a part by its number, or what is left of it."""
    if words[0].lower() not in _COUNTED:
        return words[0].isdigit()
    return len(words) == 1 or words[1].isdigit() or words[1].lower() in _COMMON


def _is_plain(run: str, name: str) -> bool:
    """A lone capitalised word that only began the sentence."""
    return run.split()[0] == name
