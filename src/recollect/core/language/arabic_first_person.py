"""Finds out whether an Arabic text speaks of its speaker: "I", "we", "my" or "our", mostly a part of another word.

A letter at the end or the beginning of a word is the sign, so the list of `arabic_words` decides: «سيارتي» is "my car",
«كرسي» is a chair; «نسافر» is "we travel", «نتيجة» is a result. Verbs that end in «ت» do not count: "I" and "you" are
written alike there.
"""

from __future__ import annotations

import re
from typing import Final

from recollect.core.language import analyser, arabic_stemmer

_PRONOUN: Final = re.compile(
    r"(?<!\w)[وف]?(?:[أا]نا|[إا]ني|لي|ليا|عندي|عندنا|لديّ?|لدينا|معي|معاي|معنا|وياي|ويانا|فيني|فينا|عني|عنا|عليّ|علينا|مني|منا"
    r"|إلينا|حقي|حقنا|لنا|نفسي|نحن|[إا]?حنا)(?!\w)"
)
_WORD: Final = re.compile("[\u0621-\u064a]+")
_TANWIN: Final = re.compile("ا\u064b|\u064bا")  # an ending of its own: «إعلانًا» is not "our …"
_MARKS: Final = re.compile("[\u0640\u064b-\u0652]")
_ARTICLES: Final = ("ال", "وال", "بال", "لل", "فال", "كال")
_OUR: Final = re.compile("نا(?:ه|ها|هم)?$")
_MIN_VERB_CHARACTERS: Final = 3
_COMPARISON: Final = re.compile("ا(?:فضل|كثر|كبر|صغر|حسن|سوا|هم|قرب|بعد|طول|قصر|جمل|قوي|خير|خف|ثقل|قل|عظم|شهر)")
_NO_VERB: Final = re.compile("ا..ا.*|.*[تاه]")  # plurals such as «أعراض», and nouns with an ending
_MIN_UNLISTED_CHARACTERS: Final = 5  # of a word that only its first or last letters show to be of the first person


def speaks_of_self(text: str) -> bool:
    """Return whether a text has an Arabic word for "I", "we", "my" or "our"."""
    text = _MARKS.sub("", _TANWIN.sub("", text))
    return _PRONOUN.search(text) is not None or any(_is_first_person(word) for word in _WORD.findall(text))


def _is_first_person(word: str) -> bool:
    normal = arabic_stemmer.normalise(word)
    if len(normal) < _MIN_VERB_CHARACTERS or arabic_stemmer.is_listed(normal) or normal in analyser.STOP_WORDS:
        return False
    if normal.startswith(_ARTICLES):
        return False
    return _is_verb(word, normal) or _is_owned(word, normal) or _is_owned(word, normal[1:], first=normal[0])


def _is_verb(word: str, normal: str) -> bool:
    """Return whether a word is an imperfect of the first person, or a verb whose subject or object is."""
    if word.startswith("سأ") or (normal.startswith("سن") and arabic_stemmer.find_imperfect(normal[2:])):
        return True
    if word[0] == "أ" and _COMPARISON.fullmatch(normal):
        return False
    if word[0] == "أ" and arabic_stemmer.find_listed(normal) is None:
        return len(word) >= _MIN_UNLISTED_CHARACTERS and not _NO_VERB.fullmatch(normal)
    return (word[0] == "أ" or normal[0] == "ن") and arabic_stemmer.find_imperfect(normal[1:]) is not None


def _is_owned(word: str, normal: str, first: str = "") -> bool:
    """Return whether a word ends in "my" or "our". `first` is the letter that was taken off, a preposition at best."""
    if first and first not in "وبلف":
        return False
    if word[-1] == "ي" and arabic_stemmer.is_noun(normal[:-1]):
        return not arabic_stemmer.is_listed(normal)
    ours = _OUR.search(normal)
    return ours is not None and len(normal) >= _MIN_UNLISTED_CHARACTERS and not arabic_stemmer.is_listed(normal)
