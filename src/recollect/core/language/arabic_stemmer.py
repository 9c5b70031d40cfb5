"""Removes from an Arabic word what is written together with it: conjunctions, prepositions, the article and endings.

A word of the list (`arabic_words`) is found under all its affixes, and its broken plurals are the same word. For other
words only letters decide. Then a first letter that may be a preposition is cut even where it belongs to the root, with
and without the article. So all forms of an unknown word still meet, at the price that two words may become one.

It is written here and not taken from a library, for the reasons of `stemmer`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from recollect.core.language import arabic_words

MIN_ROOT_CHARACTERS: Final = 3
_LONG_ROOT_CHARACTERS: Final = 4  # what must remain if the ending is a single letter that often belongs to the root

# Variants of a letter that are one in all words.
LETTER_FORMS: Final = {
    "أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ؤ": "و", "ئ": "ي", "ی": "ي", "ک": "ك", "ڤ": "ف",
    "گ": "ق", "چ": "ك",  # of the Gulf: گهوة، سمچ
}  # fmt: skip
# «ى» and «ي», «ة» and «ه» become one when a word is stemmed. Before that they tell «على» from the name «علي», and
# «كتابة» from «كتابه».
HAMZA_BEFORE_WAW: Final = re.compile("[ئؤء]و")  # three spellings of one word: مسئول، مسؤول، مسءول
_ONE_FORM: Final = str.maketrans(LETTER_FORMS)

_PRONOUNS: Final = ("ه", "ها", "هم", "هما", "هن", "ك", "كم", "كن", "ي", "نا")
_COMMON_PRONOUNS: Final = ("ه", "ها", "هم", "ك", "كم", "ي", "نا")
_CONJUNCTIONS: Final = ("و", "ف")
_PREFIXES: Final = (
    "و", "ف", "ب", "ل", "ك", "ال", "لل", "وب", "ول", "وك", "فب", "فل", "هال", "وال", "فال", "بال", "كال", "ولل", "فلل",
    "عال", "وبال", "فبال", "وكال", "وهال", "بهال", "لهال",
)  # fmt: skip
_PREFIXES_BY_LETTER: Final = {
    letter: tuple(prefix for prefix in _PREFIXES if prefix[0] == letter) for letter in "وفبلكاهع"
}
_ARTICLES: Final = ("وبال", "فبال", "وكال", "وال", "فال", "بال", "كال", "ولل", "فلل", "ال", "لل")
_EASY_ENDINGS: Final = ("ه", "ات", "ين", "ون")  # that no other word of the list often has as its own letters
# Endings of nouns. Before a pronoun «ة» is written «ت», and a dual or a plural loses its «ن».
_AFTER_T: Final = frozenset((*_PRONOUNS, "ان", "ين", *(link + each for link in "اي" for each in _COMMON_PRONOUNS)))
_NOUN_ENDINGS: Final = frozenset(
    (*_PRONOUNS, "ا", "ات", "ون", "ين", "ان", "تان", "تين", "يه", "يين", "يون", "يات", "ني",
     *(link + each for link in ("ت", "ات", "و", "ي", "ا") for each in _COMMON_PRONOUNS))
)  # fmt: skip
_OBJECTS: Final = ("", "ه", "ها", "هم", "هما", "هن", "ك", "كم", "ني", "نا")
_PERFECT_ENDINGS: Final = frozenset(
    subject + each for subject in ("", "ت", "تم", "تو", "توا", "نا", "وا", "و", "ن", "تي") for each in _OBJECTS
)
_IMPERFECT_ENDINGS: Final = frozenset(
    subject + each for subject in ("", "ون", "ين", "ان", "وا", "و", "ي", "ن") for each in _OBJECTS
)
_LAST_OF_VERBS: Final = frozenset(ending[-1] for ending in _PERFECT_ENDINGS | _IMPERFECT_ENDINGS if ending)
_MAX_ENDING_CHARACTERS: Final = 5
_ENDINGS_BY_LETTER: Final = {
    "ا": ("هما", "ها", "نا"), "م": ("هم", "كم"), "ن": ("ون", "ين", "ان"),
    "ت": ("ات",), "ه": ("ه",), "ي": ("ي",),
}  # fmt: skip
_HAMZA_ENDINGS: Final = ("اء", "اي", "او")
_VERBAL_NOUN: Final = re.compile("[وفبلك]{0,2}ت..ين")  # تخزين
_FUTURE: Final = ("س", "ب", "ح", "ه", "ل")
_PERSONS: Final = "يتنا"

# Broken plurals that their letters give away, and the singular. A pattern is here only if other words rarely have it.
_PLURAL_PATTERNS: Final = (
    (re.compile("ت(.)ا(.)ي(.)"), "ت{0}{1}ي{2}"),  # تقارير
    (re.compile("م(.)ا(.)ي([^نهت])"), "م{0}{1}و{2}"),  # مشاريع
    (re.compile("([^متا])وا(.)ي(.)"), "{0}ا{1}و{2}"),  # قوانين
    (re.compile("([^متاوب])وا([^ي])([^هيات])"), "{0}ا{1}{2}"),  # شوارع
    (re.compile("([^متا])واي([^هيات])"), "{0}اي{1}"),  # فوائد
    (re.compile("([^ا])([^وا])اي([^هيات])"), "{0}{1}ي{2}"),  # وثائق
)
_PLURAL_CHARACTERS: Final = (5, 6)


def normalise(word: str) -> str:
    """Return a word with one form of each letter, without a final hamza."""
    return HAMZA_BEFORE_WAW.sub("و", word).translate(_ONE_FORM).replace("ى", "ي").replace("ة", "ه").removesuffix("ء")


def stem(word: str) -> str:
    """Return the form under which a word is indexed. `word` has passed `analyser.raw_words`."""
    if word[-1] == "ه" and (found := _HIS.get(word) or (_HIS.get(word[1:]) if word[0] in "وفبل" else None)):
        return found  # «كتابه» is "his book", «كتابة» is "writing"
    if word[-1] == "ه" and word not in _NOUNS and (found := _PERFECTS.get(word[:-1])):
        return found  # «بلغه» is a verb, «بلغة» has a preposition
    word = word.replace("ى", "ي").replace("ة", "ه")
    if len(word) > MIN_ROOT_CHARACTERS and word[-1] == "ء":  # often left out, but it tells «غداء» from «غدا»
        return find_listed(word) or find_listed(word[:-1]) or _cut_first_letters(_cut_article(word[:-1]))
    return find_listed(word) or _cut(word)


def is_listed(word: str) -> bool:
    """Return whether a normalised word is in the list as it stands, and not only after something before it."""
    return word in _NOUNS or word in _PERFECTS


def is_noun(word: str) -> bool:
    """Return whether a normalised word is a listed noun, as it stands or as it is written before a pronoun."""
    return word in _NOUNS or word in _BEFORE_ENDINGS


def find_imperfect(word: str) -> str | None:
    """Return the listed verb of an imperfect without its first letter, which tells the person."""
    return _match_verb(word, _IMPERFECTS, _SHORT_IMPERFECTS, _IMPERFECT_ENDINGS)


def has_conjunction(word: str) -> bool:
    """Return whether the first letter of a normalised word is a conjunction, as far as the list tells."""
    if word[:1] not in _CONJUNCTIONS or len(word) <= MIN_ROOT_CHARACTERS or is_listed(word):
        return False
    return not (_find_noun(word) or _find_verb(word)) and find_listed(word[1:]) is not None


def find_listed(word: str) -> str | None:
    """Return the listed word of which this is a form. A form with fewer affixes is preferred."""
    if found := _NOUNS.get(word) or _PERFECTS.get(word):
        return found
    rests = [
        (prefix, rest)
        for prefix in _PREFIXES_BY_LETTER.get(word[0], ())
        if word.startswith(prefix)
        and len(rest := word[len(prefix) :]) >= (2 if prefix in _ARTICLES else MIN_ROOT_CHARACTERS)
    ]
    for prefix, rest in rests:
        if prefix in _ARTICLES and (found := _NOUNS.get(rest)):
            return found
    for ending in _EASY_ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 2 and (found := _NOUNS.get(word[: -len(ending)])):
            return found
    for _, rest in rests:
        if found := _NOUNS.get(rest):
            return found
    if found := _find_noun(word) or _find_verb(word):
        return found
    for prefix, rest in rests:
        if found := _find_noun(rest) or _find_plural(rest):
            return found
        if prefix in _CONJUNCTIONS and (found := _PERFECTS.get(rest) or _find_verb(rest)):
            return found
    return _find_plural(word)


def _find_noun(word: str) -> str | None:
    """Return the listed noun that stands here before an ending. The shortest ending is tried first."""
    if word[-1] not in "هامنكيت":
        return None
    length = len(word)
    for size in range(1, min(_MAX_ENDING_CHARACTERS, length - 2) + 1):
        ending = word[length - size :]
        if ending not in _NOUN_ENDINGS:
            continue
        base = word[: length - size]
        if ending in _AFTER_T and (found := _BEFORE_ENDINGS.get(base)):
            return found
        if ending == "ا" and base[-1] == "ه":  # «عمرها» is no form of «عمرة»
            continue
        if (found := _NOUNS.get(base)) and (len(base) > 2 or ending in _PRONOUNS):
            return found
    return None


def _find_verb(word: str) -> str | None:
    if found := _match_verb(word, _PERFECTS, _SHORT_PERFECTS, _PERFECT_ENDINGS):
        return found
    if word[:1] in _PERSONS:
        return find_imperfect(word[1:])
    if word[:1] in _FUTURE:
        rest = word[2:] if word[1:2] in _PERSONS else word[1:] if word[0] == "ب" and len(word) > 3 else ""
        return find_imperfect(rest)
    return None


def _match_verb(
    word: str, stems: dict[str, str], before_endings: dict[str, str], endings: frozenset[str]
) -> str | None:
    """Return the verb whose stem is followed by one of the endings. `before_endings` has stems that need an ending."""
    if found := stems.get(word):
        return found
    if word[-1:] not in _LAST_OF_VERBS:
        return None
    length = len(word)
    for size in range(1, min(_MAX_ENDING_CHARACTERS, length - 2) + 1):
        ending = word[length - size :]
        if ending in endings:
            base = word[: length - size]
            if (found := stems.get(base)) and (len(base) > 2 or ending[0] != "ي"):
                return found
            if (found := before_endings.get(base)) and (base[-1] == "ا" or ending[0] in "وتني"):
                return found
    return None


def _find_plural(word: str) -> str | None:
    """Return the singular of a word that has the letters of a broken plural, with or without a pronoun."""
    if "ا" not in word[1:4]:
        return None
    for base in (word, *_without_pronoun(word)):
        if len(base) not in _PLURAL_CHARACTERS:
            continue
        for pattern, singular in _PLURAL_PATTERNS:
            if match := pattern.fullmatch(base):
                made = singular.format(*match.groups())
                return _NOUNS.get(made) or _NOUNS.get(made + "ه") or _cut(made)
    return None


def _without_pronoun(word: str) -> Iterator[str]:
    for pronoun in _PRONOUNS:
        if word.endswith(pronoun):
            yield word[: -len(pronoun)]


def _cut(word: str) -> str:
    """Return an unlisted word without what may be an affix, as far as a root remains."""
    return _cut_first_letters(_cut_endings(_cut_article(word)))


def _cut_article(word: str) -> str:
    if word[0] in _PREFIXES_BY_LETTER:
        for article in _ARTICLES:
            if word.startswith(article) and len(word) >= len(article) + MIN_ROOT_CHARACTERS - 1:
                return word[len(article) :]
    return word


def _cut_endings(word: str) -> str:
    had_pronoun = False
    while True:
        if word.endswith(_HAMZA_ENDINGS) and len(word) > _LONG_ROOT_CHARACTERS:  # استثنائي، استثناءات
            return word[:-1]
        shorter = _cut_ending(word)
        if shorter == word:
            break
        had_pronoun, word = word[len(shorter) :] in _PRONOUNS, shorter
    return word[:-1] + "ه" if had_pronoun and word.endswith("ت") and len(word) == MIN_ROOT_CHARACTERS else word


def _cut_ending(word: str) -> str:
    if word[-1] == "ن" and _VERBAL_NOUN.fullmatch(word):
        return word
    for ending in _ENDINGS_BY_LETTER.get(word[-1], ()):
        if word.endswith(ending) and len(word) >= len(ending) + MIN_ROOT_CHARACTERS:
            return word[: -len(ending)]
    return word[:-1] if word[-1] in "تكا" and len(word) > _LONG_ROOT_CHARACTERS else word


def _cut_first_letters(word: str) -> str:
    while len(word) > MIN_ROOT_CHARACTERS:
        is_long = len(word) > _LONG_ROOT_CHARACTERS + 1
        if word[0] in "وبلكفي" or (is_long and word[1:3] == "ست" and word[0] in "اتن"):
            word = word[1:]
        elif is_long and word.startswith("سي"):
            word = word[2:]
        else:
            break
    return word


def _list_nouns() -> tuple[dict[str, str], dict[str, str]]:
    """Return the listed words by their forms, and by the forms that they have only before an ending."""
    nouns: dict[str, str] = {}
    before_endings: dict[str, str] = {}
    stems: dict[str, tuple[str, bool]] = {}
    for entry in arabic_words.NOUNS.split():
        forms = entry.split("/")
        word = normalise(forms[0])
        for form in forms:
            nouns.setdefault(normalise(form), word)
            if form.endswith("ء"):
                nouns.setdefault(normalise(form) + "ء", word)
            before_endings.update(dict.fromkeys(_before_endings(form), word))
        if forms[0].endswith(("ة", "ى")):
            stems[word if forms[0].endswith("ى") else word[:-1]] = (word, len(forms) == 1)
    # «مكتبات» is «مكتبة», although «مكتب» is listed. «مدرسات» is not «مدرسة», which has a broken plural.
    derived = {stem + "ات": word for stem, (word, is_regular) in stems.items() if is_regular or stem not in nouns}
    return derived | nouns, before_endings


def _before_endings(form: str) -> Iterator[str]:
    """Yield how a form is written before a pronoun or the ending of a dual, where it changes."""
    normal = normalise(form)
    if form.endswith("ة"):
        yield normal[:-1] + "ت"
    elif form.endswith("ى"):
        yield normal[:-1] + "ا"
    elif form.endswith("ء"):
        yield from (normal + "ء", normal + "ي", normal + "و")


def _list_verbs() -> tuple[dict[str, str], ...]:
    """Return the listed verbs by perfect, by short perfect, by stem of the imperfect, and by that without its «ي»."""
    perfects: dict[str, str] = {}
    short: dict[str, str] = {}
    imperfects: dict[str, str] = {}
    without_last: dict[str, str] = {}
    for entry in arabic_words.VERBS.split():
        forms = [normalise(form) for form in entry.split("/")]
        verb, present = forms[0], forms[min(1, len(forms) - 1)]
        perfects.setdefault(verb, verb)
        imperfects.setdefault(present, verb)
        for form in forms[2:]:
            short.setdefault(form, verb)
        if len(verb) == 2:  # a doubled last letter: حبيت، أحببت
            short.setdefault(verb + "ي", verb)
            short.setdefault(verb + verb[-1], verb)
        if present.endswith("ي") and len(present) > 2:  # يشترون
            without_last.setdefault(present[:-1], verb)
            short.setdefault(verb[:-1], verb)
            short.setdefault(verb[:-1] + "ا", verb)
    return perfects, short, imperfects, without_last


_NOUNS, _BEFORE_ENDINGS = _list_nouns()
_PERFECTS, _SHORT_PERFECTS, _IMPERFECTS, _SHORT_IMPERFECTS = _list_verbs()


# Written with «ه», these are a noun and "his".
_HIS: Final = {normalise(noun) + "ه": normalise(noun) for noun in arabic_words.OWNED_NOUNS.split()}


def list_stop_words() -> frozenset[str]:
    """Return the Arabic stop words as `analyser.raw_words` writes them, also after a conjunction."""
    plain: set[str] = set()
    for word in arabic_words.STOP_WORDS.split():
        one_form = word.translate(_ONE_FORM)
        plain |= {one_form} if one_form == "على" else {one_form, one_form.replace("ى", "ي")}
    joined = {conjunction + word for word in plain for conjunction in _CONJUNCTIONS}
    return frozenset(plain | {word for word in joined if not (word in _NOUNS or word in _PERFECTS or _find_noun(word))})
