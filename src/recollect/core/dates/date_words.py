"""The words of dates in English and common Arabic: tables from which `date_rules` builds its patterns.

Words are spelled as `normalise` leaves a text: alef without hamza, "ه" for "ة".
"""

from __future__ import annotations

import re
import unicodedata
from datetime import timedelta
from typing import Final, TypeVar

MAX_READ_CHARACTERS: Final = 2000  # a question names its dates early; pasted text follows
DAY: Final = timedelta(days=1)
_Key = TypeVar("_Key")

_MONTHS: Final = (
    r"jan(?:uary|\.)?|يناير|كانون الثاني",
    r"feb(?:ruary|\.)?|فبراير|شباط",
    r"mar(?:ch|\.)?|مارس|اذار",
    r"apr(?:il|\.)?|ابريل|نيسان",
    # no month: "I may", "may I", "this may help"
    r"(?<!\bi )(?<!you )(?<!we )(?<!they )(?<!he )(?<!\bit )(?:(?-i:May)|(?<!this )may|may(?= ?(?:[?.!,;]|$)))"
    r"(?! (?:i|we|you|be|not|have)\b)|مايو|ايار",
    r"june?|يوني[وه]|حزيران",
    r"july?|يولي[وه]|تموز",
    r"aug(?:ust|\.)?|اغسطس|اب",
    r"sept?(?:ember|\.)?|سبتمبر|ايلول",
    r"oct(?:ober|\.)?|اكتوبر|تشرين الاول",
    r"nov(?:ember|\.)?|نوفمبر|تشرين الثاني",
    r"dec(?:ember|\.)?|ديسمبر|كانون الاول",
)
SEASONS: Final = ("spring|(?:ال)?ربيع", "summer|(?:ال)?صيف", "autumn|fall|(?:ال)?خريف", "winter|(?:ال)?شتاء")
QUARTERS: Final = ("q1|first quarter", "q2|second quarter", "q3|third quarter", "q4|fourth quarter")
WEEKDAYS: Final = {  # by `datetime.weekday()`; the short form comes last
    0: "monday|الاثنين|mon",
    1: "tuesday|الثلاثاء|tues?",
    2: "wednesday|الاربعاء|wed",
    3: "thursday|الخميس|thu(?:rs?)?",
    4: "friday|الجمعه|fri",
    5: "saturday|السبت|sat",
    6: "sunday|الاحد|sun",
}
NAMED_SPANS: Final = {  # words by (first month, number of months)
    **{(month, 1): words for month, words in enumerate(_MONTHS, 1)},
    **{(3 * season, 3): words for season, words in enumerate(SEASONS, 1)},
    **{(3 * quarter - 2, 3): words for quarter, words in enumerate(QUARTERS, 1)},
}
UNITS: Final = {
    "hour": "hours?|ساعه|ساعتين|ساعات",
    "day": "days?|يوما?|يومين|ايام",
    "week": "weeks?|اسبوعا?|اسبوعين|اسابيع",
    "month": "months?|شهرا?|شهرين|اشهر|شهور",
    "quarter": "quarters?",
    "year": "years?|سنه|سنتين|سنوات|سنين|عاما?|عامين|اعوام",
}
CALENDAR: Final = {**UNITS, "weekend": "weekend"}
# Lengths: of units that always last equally long, in months of those that do not, and about, in days.
STEP_LENGTHS: Final = {"hour": DAY / 24, "day": DAY, "week": 7 * DAY}
MONTHS_IN: Final = {"month": 1, "quarter": 3, "year": 12}
UNIT_DAYS: Final = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}
DAY_WORDS: Final = {  # by their distance from today, in days
    -2: "(?:the )?day before yesterday|اول (?:من )?امس|اول ا?مبارح",
    -1: "yesterday|امس|البارحه|ا?مبارح",
    0: "today|this (?:morning|afternoon|evening)|اليوم",
    1: "tomorrow|غدا|بكر[اه]",
    2: "(?:the )?day after tomorrow|بعد غد",
}
NIGHTS: Final = {-1: "last night|ليله امس", 0: "tonight|الليله"}
THIRDS: Final = {0: "early|(?:start|beginning) of|بدايه|اوايل", 1: "mid|middle of|منتصف", 2: "late|end of|نهايه|اواخر"}
_NUMBERS: Final = (  # 1, 2, 3 … in order, with a space between them
    "an?|one|واحد two|اثنين three|ثلاثه? four|اربعه? five|خمسه? six|سته? seven|سبعه? eight|ثمان(?:يه?)? nine|تسعه? "
    "ten|عشره? eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"
)
COUNTS: Final = dict(enumerate(_NUMBERS.split(), 1))
VAGUE: Final = {2: "(?:a )?couple(?: of)?", 4: "(?:a )?few|بضعه?|عده", 6: "several"}
_VOCABULARY: Final = {  # the alternatives that a name in capitals stands for in a pattern
    "REL": "last|this past|past|previous|this coming|coming|this|next",
    # REL after an Arabic noun:
    "WHICH": "(?:قبل )?(?:الماضي|السابق|الفايت|المنصرم|القادم|المقبل|الجاي|الحالي)ه?",
    "NUM": "|".join((r"\d{1,4}", *VAGUE.values(), *COUNTS.values())),
    "UNIT": "|".join(UNITS.values()),
    "MONTH": "|".join(_MONTHS),
    "NAME": "|".join(NAMED_SPANS.values()),
    "WEEKDAY": "|".join(words.rpartition("|")[0] for words in WEEKDAYS.values()),
    "SHORTDAY": "tues?|thu(?:rs?)?|fri|(?-i:Mon|Wed|Sat|Sun)",
    "DAYNO": r"\d{1,2}(?:st|nd|rd|th)?",
    "DAYWORD": "|".join(DAY_WORDS.values()),
    "NIGHT": "|".join(NIGHTS.values()),
    "THIRD": "|".join(THIRDS.values()),
    "CENTURY": "19|20|21",
    # What may stand before a period:
    "SPAN": "(?:in|over|within|during) the|the|this",
    "UPTO": " (?:to|until|till|through|الي|حتي) | ?[-–—] ?",
    "OFYEAR": r"(?:,? |-|/)(?:of |من |عام |سنه ){0,2}(?P<year>\d{4}|(?:last|this|next) year|(?:العام|السنه) WHICH)",
}


def normalise(text: str) -> tuple[str, list[int]]:
    """Return a text in the form that patterns read, and for each of its letters the position in the original.

    Marks are dropped, each letter has one form, and spaces are single. Only the first `MAX_READ_CHARACTERS` are read.
    The list of positions has one more entry: the end of what was read.
    """
    text = text[:MAX_READ_CHARACTERS]
    if text.isascii() and not _SPACES.search(text):  # most questions: no character is dropped or decomposed
        return _SPACE.sub(" ", text), list(range(len(text) + 1))
    letters: list[str] = []
    positions: list[int] = []
    for position, char in enumerate(text):
        for part in unicodedata.normalize("NFKD", char)[:2]:  # some signs decompose into whole sentences
            letter = " " if part.isspace() else part
            if unicodedata.combining(part) or part == "\u0640" or (letter == " " and letters[-1:] == [" "]):
                continue  # marks, tatweel, further spaces
            letters.append(letter)
            positions.append(position)
    return "".join(letters).translate(_ONE_FORM), [*positions, len(text)]


_SPACE: Final = re.compile(r"\s")
_SPACES: Final = re.compile(r"\s\s")
_ONE_FORM: Final = str.maketrans("ةىı’", "هيi'")  # patterns that ignore case take "ı" for an "i"


def find_key(table: dict[_Key, str], word: str) -> _Key:
    """Return the key whose pattern matches the whole word. Pass only words that a pattern of the table has found."""
    return next(key for key, pattern in table.items() if re.fullmatch(pattern, word, re.IGNORECASE))


def expand_pattern(pattern: str) -> str:
    """Replace each name in capitals by the alternatives that it stands for."""
    while re.search("[A-Z]{3}", pattern):
        pattern = re.sub("[A-Z]{3,}", lambda name: f"(?:{_VOCABULARY[name[0]]})", pattern)
    return pattern
