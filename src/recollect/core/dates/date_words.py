"""The words of dates in English and common Arabic, as tables from which the patterns of date_rules are made.

They are written as `fold` leaves a text: alef without hamza, "ه" for "ة".
"""

from __future__ import annotations

import re
import unicodedata
from datetime import timedelta
from typing import Final, TypeVar

READ_LIMIT: Final = 2000  # characters; a question says its dates early, and what follows is pasted text
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
WEEKDAYS: Final = {
    0: "monday|الاثنين|mon",
    1: "tuesday|الثلاثاء|tues?",
    2: "wednesday|الاربعاء|wed",
    3: "thursday|الخميس|thu(?:rs?)?",
    4: "friday|الجمعه|fri",
    5: "saturday|السبت|sat",
    6: "sunday|الاحد|sun",
}
NAMED: Final = {  # by their first month and their number of months
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
STEPS: Final = {"hour": DAY / 24, "day": DAY, "week": 7 * DAY}
MONTHS_IN: Final = {"month": 1, "quarter": 3, "year": 12}
WIDTHS: Final = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}  # in days
DAY_WORDS: Final = {
    -2: "(?:the )?day before yesterday|اول (?:من )?امس|اول ا?مبارح",
    -1: "yesterday|امس|البارحه|ا?مبارح",
    0: "today|this (?:morning|afternoon|evening)|اليوم",
    1: "tomorrow|غدا|بكر[اه]",
    2: "(?:the )?day after tomorrow|بعد غد",
}
NIGHTS: Final = {-1: "last night|ليله امس", 0: "tonight|الليله"}
THIRDS: Final = {0: "early|(?:start|beginning) of|بدايه|اوايل", 1: "mid|middle of|منتصف", 2: "late|end of|نهايه|اواخر"}
_NUMBERS: Final = (
    "an?|one|واحد two|اثنين three|ثلاثه? four|اربعه? five|خمسه? six|سته? seven|سبعه? eight|ثمان(?:يه?)? nine|تسعه? "
    "ten|عشره? eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"
)
COUNTS: Final = dict(enumerate(_NUMBERS.split(), 1))
VAGUE: Final = {2: "(?:a )?couple(?: of)?", 4: "(?:a )?few|بضعه?|عده", 6: "several"}
_VOCABULARY: Final = {  # what the capitals in patterns stand for
    "REL": "last|this past|past|previous|this coming|coming|this|next",
    "WHICH": "(?:قبل )?(?:الماضي|السابق|الفايت|المنصرم|القادم|المقبل|الجاي|الحالي)ه?",
    "NUM": "|".join((r"\d{1,4}", *VAGUE.values(), *COUNTS.values())),
    "UNIT": "|".join(UNITS.values()),
    "MONTH": "|".join(_MONTHS),
    "NAME": "|".join(NAMED.values()),
    "WEEKDAY": "|".join(words.rpartition("|")[0] for words in WEEKDAYS.values()),
    "SHORTDAY": "tues?|thu(?:rs?)?|fri|(?-i:Mon|Wed|Sat|Sun)",
    "DAYNO": r"\d{1,2}(?:st|nd|rd|th)?",
    "DAYWORD": "|".join(DAY_WORDS.values()),
    "NIGHT": "|".join(NIGHTS.values()),
    "THIRD": "|".join(THIRDS.values()),
    "CENTURY": "19|20|21",
    "SPAN": "(?:in|over|within|during) the|the|this",
    "UPTO": " (?:to|until|till|through|الي|حتي) | ?[-–—] ?",
    "OFYEAR": r"(?:,? |-|/)(?:of |من |عام |سنه ){0,2}(?P<year>\d{4}|(?:last|this|next) year|(?:العام|السنه) WHICH)",
}


def fold(query: str) -> tuple[str, list[int]]:
    """The query as patterns read it: no marks, one form of each letter, single spaces; and each letter's place."""
    query = query[:READ_LIMIT]
    if query.isascii() and not _SPACES.search(query):  # most questions: nothing unfolds and nothing falls out
        return _SPACE.sub(" ", query), list(range(len(query) + 1))
    letters: list[str] = []
    places: list[int] = []
    for place, char in enumerate(query):
        for part in unicodedata.normalize("NFKD", char)[:2]:  # some signs unfold into sentences
            letter = " " if part.isspace() else part
            if unicodedata.combining(part) or part == "\u0640" or (letter == " " and letters[-1:] == [" "]):
                continue  # marks, tatweel, further spaces
            letters.append(letter)
            places.append(place)
    return "".join(letters).translate(_ONE_FORM), [*places, len(query)]


_SPACE: Final = re.compile(r"\s")
_SPACES: Final = re.compile(r"\s\s")
_ONE_FORM: Final = str.maketrans("ةىı’", "هيi'")  # the third is an "i" to patterns that ignore case


def key_of(table: dict[_Key, str], word: str) -> _Key:
    """The key of the entry that has this word; patterns are made of these tables, so there is one."""
    return next(key for key, words in table.items() if re.fullmatch(words, word, re.IGNORECASE))


def fill(pattern: str) -> str:
    """The pattern with the words that its capitals stand for."""
    while re.search("[A-Z]{3}", pattern):
        pattern = re.sub("[A-Z]{3,}", lambda name: f"(?:{_VOCABULARY[name[0]]})", pattern)
    return pattern
