"""The word lists of the Arabic rules, in normalised spelling, and the normalisation itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from recollect.core.extract import arabic_name_words
from recollect.core.extract.rules import word_set

_IGNORED_MARKS: Final = frozenset(
    "\u0640\u0670\u200c\u200d\u200e\u200f\u00ad" + "".join(map(chr, range(0x064B, 0x0660)))
)
_LETTER_VARIANTS: Final = str.maketrans("أإآٱىةؤئ", "اااايهوي")


def normalise(text: str) -> tuple[str, list[int]]:
    """Return the text for matching, and for each of its characters the index in the original text.

    Vowel marks and invisible characters are dropped, and variants of a letter become one letter.
    """
    positions = [position for position, character in enumerate(text) if character not in _IGNORED_MARKS]
    return "".join(text[position] for position in positions).translate(_LETTER_VARIANTS), positions


def _alternatives(words: str) -> str:
    return "|".join(words.split())


RELATIVES: Final = (
    r"(?:اخي|اخوي|اخويا|اختي|امي|ابي(?= ي| ال)|ابوي|ابويا|والدي|والدتي|زوجي|زوجتي|مرتي|حرمتي|ابني"
    r"|ولدي|ابنتي|بنتي|صديقي|صديقتي|رفيقي|ربيعي|عمي|عمتي|خالي|خالتي"
    r"|جدي|جدتي|زميلي|زميلتي|خطيبتي|خطيبي|قطتي|كلبي|اولادي|عيالي|بناتي|توامي|جاري|طفلي|طفلتي)\b"
)
JOBS: Final = (
    r"(?:مهندس|طبيب|ممرض|معلم|مدرس|محامي|محاسب|مبرمج|مطور|مصمم|طالب|صحفي|كاتب|مدير|محلل|استاذ"
    r"|دكتور|صيدلي|صيدلاني|سايق|شرطي|باحث|مترجم|موظف"
    r"|رييس|مساعد|مستشار|مشرف|فني|طباخ|خباز|نجار|كهربايي|مصور|فنان|مهندس|تاجر|مزارع|عالم|قاضي|ضابط"
    r"|جندي|متقاعد|متدرب|امين|منسق|مراجع|مدقق|مذيع|كيميايي|مراسل|مسوق|اخصايي)(?:ا|ه|ا?ن|ين)?"
)
HEALTH: Final = (
    r"(?:ال)?(?:سكري|سكر|ربو|ضغط|صرع|اكتيياب|قلق مزمن|شقيقه|صداع نصفي|روماتيزم|انيميا|سرطان|ارق|صدفيه"
    r"|اكزيما|قولون|كوليسترول|فقر)"
)
OWNED: Final = (
    r"(?:سياره|سيارتين|سيارات|دراجتين|بيتين|قط|قطه|قطتين|كلب|كلبين|بيت|شقه|مزرعه|طفل|ولد|بنت|ابن|ابنه"
    r"|اولاد|اطفال|طفلان|طفلين|بنتين|بنتان|ولدين|ولدان|ابنان|ابنتان|اخ\b|اخت|اخوه|اخوات|خيل|حصان|عصفور"
    r"|ببغاء|دراجه|عيال|بنات|توام)"
)
LANGUAGES: Final = (
    r"(?:ال)?(?:عربيه|عربي|انجليزيه|انجليزي|انقليزي|فرنسيه|فرنسي|المانيه|الماني|اسبانيه|اسباني|ايطاليه"
    r"|ايطالي|اورديه|اردو|هنديه|هندي|فارسيه|فارسي|تركيه|تركي|صينيه|صيني|روسيه|روسي|سواحيليه|سواحيلي"
    r"|بلوشيه|بلوشي|بنغاليه|برتغاليه)"
)
NUMBERS: Final = _alternatives(
    """واحد واحده اثنان اثنين اثنتان اثنتين ثلاث ثلاثه اربع اربعه خمس خمسه ست سته سبع سبعه ثمان ثماني ثمانيه تسع تسعه
    عشر عشره عشرون عشرين ثلاثون ثلاثين اربعون اربعين خمسون خمسين ستون ستين سبعون سبعين ثمانون ثمانين تسعون تسعين
    ميه مايه مييه ميتين الف الفان الفين الاف مليون مليار نصف ربع احدي احد اثنا اثنتا"""
)
TIMES: Final = _alternatives(
    """يناير فبراير مارس ابريل مايو يونيو يوليو اغسطس سبتمبر اكتوبر نوفمبر ديسمبر كانون شباط اذار نيسان ايار حزيران
    تموز اب ايلول تشرين محرم صفر ربيع جمادي رجب شعبان رمضان شوال ذو الاحد الاثنين الثلاثاء الاربعاء الخميس
    الجمعه السبت يوم غدا بكره باجر اليوم الاسبوع الشهر السنه الساعه الاول الثاني الثالث الرابع الخامس السادس
    السابع الثامن التاسع العاشر الحادي السابعه الثامنه التاسعه العاشره الواحده الثانيه الثالثه الرابعه الخامسه
    السادسه منتصف نهايه اخر بدايه اول الربيع الصيف الخريف الشتاء"""
)
GIVEN_NAMES: Final = "|".join(arabic_name_words.GIVEN_NAMES)
# Abbreviations in the patterns of the rules, replaced in this order.
SHORTHAND: Final = {
    "~": r"(?:(?:حاليا|الان|الحين|دايما|دايم|عاده|جدا|كثيرا|وايد|مره|واجد|موخرا|كمان|ايضا|فعلا) ){0,2}",
    "IN": r"(?:في |ب(?=[\u0620-\u064a]{3}))",
    "TO": r"(?:الي |حق |علي |ل(?=[\u0620-\u064a]{3}))",
    "IS": r"(?: هو| هي| الان| الحين| حاليا| الجديد| الجديده| كان| يكون| صار| صارت| اصبح| اصبحت|:){0,3} ",
    "WHO": rf"(?: (?P<who>{GIVEN_NAMES}))?",
    "REL": rf"(?P<rel>{RELATIVES})",
    "NUM": rf"(?:[\d٠-٩]|{NUMBERS})",
    "TIME": rf"(?:[\d٠-٩]|{TIMES})",
    "<JOBS>": JOBS,
    "<GIVEN>": GIVEN_NAMES,
    "<HEALTH>": HEALTH,
    "<OWNED>": OWNED,
    "<LANGUAGES>": LANGUAGES,
}

_NOT_A_THING: Final = word_set("ان انك اني هذا هذه ذلك لو اذا كل ما شي شيء فيك منك")
_REQUEST: Final = re.compile(
    r"(?:ان )?(?:اعرف|اسال|اقول|اشكر|افهم|اعتذر|معرفه|اسالك|اخبر|منك|انك|سوال|مساعد|تساعد|تعرف"
    r"|انام|اكل|اروح|اشوف|تكتب|تترجم|ترجمه|كلمه|اسم\b|فكره|وصفه|شرح|تشرح|الاجابه|ذلك|هذا)"
)


def is_thing(value: str) -> bool:
    """Return whether a value names a thing, and is not only a pronoun."""
    words = normalise(value)[0].split()
    return words[0] not in _NOT_A_THING and (len(words) > 1 or not words[0].endswith(("ها", "هم", "هما")))


def is_wish(value: str) -> bool:
    """Return whether a value is a wish of the speaker, and not a request to the assistant."""
    return len(value.split()) >= 2 and not _REQUEST.match(normalise(value)[0])


# By the marks of the rules.
CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "few": lambda value: len(value.split()) <= 4,
    "full": lambda value: len(value.split()) >= 2,
    "short": lambda value: len(value.split()) <= 6,
    "thing": is_thing,
    "wish": is_wish,
}
