"""Says what a message holds, by its words: a question, a date, a number, a preference, and so on.

Recall compares these flags with the kind of a question: "when" asks for a date, "how many" for a number. They are
found once, when a message is indexed. A flag is a hint and no more: a message without it can still be the answer.
"""

from __future__ import annotations

import re
from typing import Final

from recollect.core.language import analyser

MAX_CHARACTERS: Final = 600  # a message says at its beginning what it is; a long text would have every flag

QUESTION: Final = 1 << 0  # it asks something
FIRST_PERSON: Final = 1 << 1  # somebody speaks of themselves
RELATIVE_TIME: Final = 1 << 2  # "yesterday", "two weeks ago"
DATE: Final = 1 << 3  # a month, a weekday, a year
NUMBER: Final = 1 << 4
NAME: Final = 1 << 5  # a capital letter within a sentence
PREFERENCE: Final = 1 << 6
CHANGE: Final = 1 << 7  # something is different from before
INSTRUCTION: Final = 1 << 8  # it asks for something always, or never
FLAG_COUNT: Final = 9

_WORDS: Final = {
    FIRST_PERSON: """i im ive id ill my me we our us mine myself were weve
        أنا نحن عندي لدي لي عندنا لدينا لنا""",
    RELATIVE_TIME: """yesterday today tonight tomorrow ago recently since weekend week weeks month months year years
        day days last next morning evening
        أمس البارحة اليوم غدا باكر بكرة الأسبوع أسبوع الشهر شهر السنة سنة العام الماضي القادم قبل منذ يوم أيام""",
    DATE: """january february march april june july august september october november december jan feb apr aug sept
        oct nov dec monday tuesday wednesday thursday friday saturday sunday
        يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر محرم صفر رجب شعبان رمضان شوال
        السبت الأحد الاثنين الثلاثاء الأربعاء الخميس الجمعة""",
    NUMBER: """one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty hundred
        thousand million dozen half twice once couple
        واحد اثنان اثنين ثلاثة أربعة خمسة ستة سبعة ثمانية تسعة عشرة عشرون عشرين ثلاثين مئة ألف مليون مرتين نصف""",
    PREFERENCE: """prefer prefers preferred favorite favourite love loves loved like likes enjoy enjoys enjoyed hate
        dislike rather allergic vegetarian vegan interested passionate fan
        أفضل أحب يحب تحب أكره مفضل المفضل المفضلة يعجبني حساسية أبغى ودي""",
    CHANGE: """now changed instead actually switched updated anymore moved increased decreased new replaced postponed
        الآن الحين تغير غيرنا بدلا صار صارت انتقلت نقلنا جديد تأجل رفع""",
}
_FLAG_WORDS: Final = {flag: frozenset(analyser.raw_words(words)) for flag, words in _WORDS.items()}
_DIGIT: Final = re.compile(r"\d")
_YEAR: Final = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_NAME: Final = re.compile(r"[A-Z](?<=[a-z,;] .)[a-z]")
_INSTRUCTION: Final = re.compile(
    r"(?:^|[.!?\n؟]\s{0,3})(?:please,? |and |also,? )?(?:always|never|from now on|whenever|every time|going forward"
    r"|in (?:the )?future)\b|(?:^|[.!?\n؟]\s{0,3})(?:دائم[اً]{1,2}|من الآن فصاعد|كلما|لا تستخدم أبد|من اليوم)",
    re.IGNORECASE,
)


def find_flags(text: str) -> int:
    """Return the flags of a message as bits of one number."""
    head = text[:MAX_CHARACTERS]
    words = set(analyser.raw_words(head))
    flags = 0
    for flag, own_words in _FLAG_WORDS.items():
        if not own_words.isdisjoint(words):
            flags |= flag
    if "?" in head or "؟" in head:
        flags |= QUESTION
    if _DIGIT.search(head):
        flags |= NUMBER | (DATE if _YEAR.search(head) else 0)
    if _NAME.search(head):
        flags |= NAME
    if _INSTRUCTION.search(head):
        flags |= INSTRUCTION
    return flags
