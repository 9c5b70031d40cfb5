"""Finds names in Arabic text: people, places and organisations. Arabic has no capitals, so words and lists decide.

In doubt it finds none. A letter before a name may be a preposition («لمريم»), but not if the whole is another word:
«لدينا» has no «دينا» in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from recollect.core.extract.arabic_name_words import AMBIGUOUS_PLACES, GIVEN_NAMES, PLACES, UNAMBIGUOUS_NAMES
from recollect.core.extract.arabic_words import normalise
from recollect.core.extract.rules import word_set
from recollect.core.language import analyser, arabic_stemmer

_LETTERS: Final = "[\u0620-\u064a]"
_WORD: Final = re.compile(f"{_LETTERS}+")
_NAMES: Final = frozenset(GIVEN_NAMES)
_TITLES: Final = (
    "الدكتوره?|الاستاذه?|السيده?|الشيخه?|المهندسه?|الاميره?|الوزيره?|معالي|سعاده|الاخت?|العميد|القاضي|الحاج"
)
_TITLED_PERSON: Final = re.compile(
    rf"(?<!\w)[ولبف]?(?:{_TITLES})(?: (?:الدكتوره?|السيده?|الشيخه?|الاستاذه?))? ((?!ال){_LETTERS}{{2,15}}"
    rf"(?: (?:بن|بنت|ال|عبد) {_LETTERS}{{2,15}}| ال{_LETTERS}{{2,15}}){{0,3}})"
)
# What may follow a given name: the father's and the family's.
_SURNAME: Final = re.compile(rf"(?: (?:بن|بنت) {_LETTERS}{{2,14}})?(?: ال{_LETTERS}{{3,14}}ي(?!\w))?")
_RULER: Final = rf"(?:السلطان|الملك|الامير|الامام|الشيخ) {_LETTERS}{{3,15}}"
_ORGANISATION: Final = re.compile(
    r"(?<!\w)[وبلف]?((?:وزاره|شركه|جامعه|بنك|موسسه|هييه|مستشفي|مجلس|منظمه|جمعيه|كليه|معهد|متحف"
    r"|(?P<area>مدينه|مطار|محافظه|ولايه|سلطنه|جمهوريه|مملكه|دوله))"
    rf" (?:{_RULER}|(?!ال(?:جديد|كبير|صغير)|من |في |علي |الي |كبير|جديد|صغير|اخري|خاص|لل|تعمل|تقدم|مثل|عن |هذه"
    rf"|تلك|ما ){_LETTERS}{{3,15}}(?: (?:ال|لل){_LETTERS}{{3,15}})?)"
    rf"|(?:نادي|صيدليه|مدرسه|جريده|صحيفه|فندق|قناه)"
    rf" (?:{_RULER}|(?P<known>(?!ال(?:جديد|كبير|صغير|قديم|خاص|حكومي|يوم|امس|حي|قريه|مدينه)){_LETTERS}{{3,15}})"
    rf"(?: (?:ال|لل){_LETTERS}{{3,15}})?))(?!\w)"
)
# Words before a name that are said of people. After them a name that is also another word is a name.
_BEFORE_PEOPLE: Final = word_set(
    """خالتي خالي عمي عمتي اخي اختي اخوي ابني بنتي ابنتي ولدي زوجتي زوجي صديقي صديقتي زميلي زميلتي جاري جارتي جدي جدتي
    ابو ابا ابي ام الحاج العم الخال قابلت قابلنا ساقابل كلم كلمي كلمت ساكلم اكلم اسال اسالي سالت يقول قال قالت تقول عند
    اسمه اسمها اسمي المدعو راسلت زارني زارتني زارنا"""
)
# Verbs that only people follow. After them a word that is in no list is a name.
_MEETINGS: Final = word_set("قابلت قابلنا ساقابل كلمت ساكلم راسلت اسمه اسمها")
_BEFORE_PLACES: Final = word_set("في من الي نحو صوب حق ولايه مدينه سكان زرت زرنا وصلت وصلنا لاهل اهل")
_PLACE_ENDINGS: Final = ("ستان", "لاند", "لاندا", "لندا", "بورغ", "بورج", "فورت", "غراد", "تاون")
_MIN_PLACE_CHARACTERS: Final = 7  # of a place that its ending gives away
_WHOSE_AGE: Final = re.compile(r" (?:ابن|بنت|ولد|زوج|اخ|ام|اب|جد|طفل|ال\w{3})")


def find_arabic_names(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names in a text with Arabic letters and what they name: person, place or organisation."""
    normalised, positions = normalise(text)

    def original(start: int, end: int) -> str:
        return text[positions[start] : positions[end - 1] + 1]

    for match in _TITLED_PERSON.finditer(normalised):
        yield original(*match.span(1)), "person"
    organisations = [match for match in _ORGANISATION.finditer(normalised) if _is_organisation(match)]
    inside = {position for match in organisations if not match["area"] for position in range(*match.span(1))}
    words = list(_WORD.finditer(normalised))
    for slot, find in (("person", _find_person), ("place", _find_place)):
        for index in range(len(words)):
            span = find(normalised, words, index)
            if span is None or span[0] in inside:
                continue
            name = original(*span)
            if not (slot == "person" and _is_other_spelling(name)):
                yield name, slot
    yield from ((original(*match.span(1)), "organisation") for match in organisations)


def _is_organisation(match: re.Match[str]) -> bool:
    """Return whether a name follows a word such as «مدرسة», and not any other word."""
    known = match["known"]
    return known is None or known in PLACES or known.startswith("ال")


def _find_person(text: str, words: Sequence[re.Match[str]], index: int) -> tuple[int, int] | None:
    """Return where a person's name begins and ends that stands in the word at `index`."""
    for start in _possible_starts(words[index]):
        name = text[start : words[index].end()]
        before = words[index - 1][0] if index else ""
        if name not in _NAMES:
            if before in _MEETINGS and start == words[index].start() and _may_be_name(name):
                return start, words[index].end()
            continue
        surname = _SURNAME.match(text, words[index].end())
        end = surname.end() if surname else words[index].end()
        is_introduced = end > words[index].end() or before in _BEFORE_PEOPLE or before[1:] in _BEFORE_PEOPLE
        if is_introduced or (name in UNAMBIGUOUS_NAMES and not _is_other_word(name, before, text[end : end + 8])):
            return start, end
    return None


def _find_place(text: str, words: Sequence[re.Match[str]], index: int) -> tuple[int, int] | None:
    for start in _possible_starts(words[index]):
        end = words[index].end()
        following = words[index + 1] if index + 1 < len(words) else None
        if following and following.start() == end + 1 and text[start : following.end()] in PLACES:
            return start, following.end()
        name = text[start:end]
        before = words[index - 1][0] if index else ""
        if name in PLACES or (name in AMBIGUOUS_PLACES and before in _BEFORE_PLACES):
            return start, end
        is_foreign = len(name) >= _MIN_PLACE_CHARACTERS and name.endswith(_PLACE_ENDINGS)
        if is_foreign and arabic_stemmer.find_listed(name) is None:
            return start, end
    return None


def _may_be_name(word: str) -> bool:
    """Return whether a word is in no list and has neither an article nor the endings of other words."""
    is_known = word in analyser.STOP_WORDS or arabic_stemmer.find_listed(word) is not None
    return not (
        is_known or len(word) < 3 or word.startswith("ال") or word.endswith(("ها", "هم", "ات", "ون", "ين", "ه", "ك"))
    )


def _possible_starts(word: re.Match[str]) -> Iterator[int]:
    """Yield where a name may begin in a word: at its first letter, or after a conjunction or preposition."""
    yield word.start()
    whole = word[0]
    if whole[0] in "وبلف" and whole not in analyser.STOP_WORDS and not arabic_stemmer.is_listed(whole):
        yield word.start() + 1


def _is_other_word(name: str, before: str, after: str) -> bool:
    """Return whether a name is another word here: «كم عمر ابنك», «فيصل إليكم»."""
    if name == "عمر":
        return before in ("كم", "من", "في", "علي") or bool(_WHOSE_AGE.match(after))
    return name == "فيصل" and after[1:].startswith(("الي", "لك", "لنا", "غدا"))


def _is_other_spelling(name: str) -> bool:
    """Return whether a word has the letters of a name, but is written otherwise: «مني» is no «منى»."""
    return name in ("مني", "هدي", "ندي", "على")
