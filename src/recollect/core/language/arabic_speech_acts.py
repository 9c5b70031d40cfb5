"""Rules that read what an Arabic sentence does: tell, ask, greet, thank. They know the commonest dialects.

Every pattern is matched at the start of a sentence. Before that, variants of a letter become one letter and vowel signs
are removed. All words here are in that spelling.
"""

from __future__ import annotations

import re
from typing import Final

from recollect.core.language import sentences
from recollect.core.language.speech_acts import (
    ACKNOWLEDGES,
    ASKS,
    GREETS,
    MAX_FRAGMENT_WORDS,
    MIN_TOLD_WORDS,
    TELLS,
    THANKS,
    UNSURE,
    SpeechAct,
    compile_words,
    split_first_clause,
)

_MARKS: Final = re.compile("[\u0640\u0670\u064b-\u065f\u200c-\u200f]")
_VARIANTS: Final = str.maketrans("أإآٱىةؤئ", "اااايهوي")

_FILLER: Final = compile_words(
    "طيب | حسنا | اذن | يعني | بس | ولكن | لكن | بالمناسبه",
    "من فضلك | لو سمحت | رجاء | ارجوك | والله | يا | اسف | عفوا",
    before="(?:",
    after=r"[ ،:]++)++",
)
_GREETING: Final = compile_words(
    "و?عليكم السلام | السلام عليكم | سلام عليكم | سلام | مرحبا",
    "مرحبتين | اهلا وسهلا | اهلا | اهلين | هلا والله | هلا",
    "هاي | هلو | الو | صباح (?:الخير|النور) | مساء (?:الخير|النور) | يسعد (?:صباحك|مساك|مساءك) | تحيه طيبه | تحياتي",
    after=r"(?: (?:بك|بكم|فيك|بيك|ورحمه الله وبركاته|ورحمه الله))?+(?!\w)",
)
_HOW_ARE_YOU: Final = compile_words(
    "كيف حالك | كيف الحال | كيفك | كيف صحتك | شلونك | شو اخبارك",
    "ايش اخبارك | اخبارك | ازيك | عامل ايه | كيف امورك | شخبارك",
    after=r"[\w\s]{0,20}+$",
)
_FORMULAS: Final = compile_words(
    "تمام | ممتاز | حسنا | طيب | اوكي | اوك | رايع | جميل",
    "حلو | زين | ماشي | نعم | ايوه | لا | فهمت | وصلت | مع السلامه",
    "الي اللقاء | شكرا | الشكر | اشكرك | مشكوره | مشكور",
    "تسلمين | تسلمي | تسلم | يسلمو | الله يعطيك العافيه | يعطيك العافيه",
    "جزاك الله خيرا | جزاك الله خير | ممنون | ممتن | متشكر | بارك الله فيك | كل الشكر | ما قصرت",
    before="(?:",
    after=r"(?> جزيلا| كثيرا| جدا| لكم| لك| علي \w++)*+[\s،,.!]*+)++$",
)
_THANKING: Final = re.compile("شكر|تسلم|يسلمو|العافيه|جزاك|ممنون|ممتن|متشكر|بارك|قصرت")
_REMEMBER: Final = compile_words(
    "تذكر(?:ي|وا)?(?: دايما| جيدا)? ان | تذكر[:،] | لا تنسي | لا تنسا | لا تنس | للعلم | للمعلوميه | للتذكير",
    "ضعي? في (?:اعتبارك|بالك|الحسبان) | خذي? بعين الاعتبار | خلي? (?:في )?بالك",
    "حطي? في بالك | سجلي? | احفظي? | دوني?",
    "اعلم ان | انتبه | ذكرني ان | ذكريني ان",
)
_ASKING: Final = compile_words(
    "هل | ماذا | لماذا | بماذا | لمن | عماذا | متي(?! ما ) | اين",
    "من اين | الي اين | كيف | كم | ايش | اش | شو | وش | شنو",
    "ليش | ليه | وين | فين | منين | امتي | ايمتي",
    "مين | ازاي | كام | قديش | علاش | ايه(?: اسم| هو| هي| اللي) | اي \\w++",
    "ايهما",
    "ما (?:هو|هي|هم|هذا|هذه|الذي|التي) | ما (?:اسم|رقم|عنوان|سبب|رمز|عمر|لون|راي|معني|موعد|نوع|تاريخ|عدد|افضل)\\w*+",
    "من ي(?!وم)\\w++ | من (?:هو|هي|هم|تظن|تكون|الذي|التي|انا|انت|يكون|قال|يعرف|كان) | عن (?:ماذا|اي) | في اي | باي",
    "لاي | منذ متي | الي متي | حتي متي",
    "ايمكن\\w*+ | ايوجد | اهو | اهي | اهذا | اهذه | اليست | اليس | الم [ايتن]\\w++ | الا ت\\w++ | اتعرف | اتذكر",
    "اتتذكر | اتعلم | اتدري | اتستطيع | تتذكر | تعرف | تدري",
    "تفتكر | فاكر | ممكن | تقدر | بتعرف | تستطيع ان",
    before="[وف]?",
)
_EMBEDDED: Final = compile_words(
    "اخبرني | اخبريني | خبرني | قل لي | قول لي | قولي | قلي | احك لي | احكي لي | ذكرني | ذكريني | فكرني | علمني",
    "(?:انا )?(?:اريد|اود|احب|ابغي|ابي|بدي|عايز|عاوز|حاب|نفسي|ودي)(?: ان)? اعرف",
    "نسيت (?:متي|ما|اين|من|كم|كيف|ايش|شو|وين|اسم|رقم) | لا اذكر (?:ما|متي|اين|من|كم)",
)
_REQUEST: Final = compile_words(
    "اكتب | لخص | اقترح | ترجم | اعطني | عطني | اعطيني | ساعدني",
    "انس | رتب | اشرح | اعمل | سوي | سو | جهز | ابحث | دور",
    "اعرض | ارني | ورني | وريني | خطط | احسب | صحح | حول",
    "قارن | اختر | انصحني | دلني | هات | احذف | امسح | ازل | صمم",
    "انشي | حضر | صغ | اختصر | راجع | اكمل | تابع | نظم | ضع لي",
    "اضف | اقرا | رشح | عدد | اذكر | صف | وضح | حلل | عرف",
    "ادرج | احجز | اتصل | ارسل",
    end=r"(?:ي|وا|ها|ه|لي)?+(?!\w)",
)
# Written with hamza these are the speaker's own acts: "I write", "I suggest". Orders are written without it.
_OWN_ACT: Final = compile_words(
    "أكتب | أقترح | أبحث | أشرح | أعمل | أعرض | أحسب | أختار | أحذف | أمسح | أحجز | أتصل | أقرأ | أذكر | أصف | أعرف",
)
_PAST_OR_ORDER: Final = compile_words("ارسل | اتصل | عرف | حضر", after=r"(?! (?:لي|لنا|له|لها|بي)\b)")
_TAG: Final = re.compile(r"(?:اليس كذلك|، ?(?:صحيح|صح|مو كذا|مش كده))$")
_TOLD_START: Final = compile_words(
    "انا | نحن | احنا | عندي | عندنا | لدينا | لدي | اسمي",
    "اعيش | اسكن | ساكن | اعمل | اشتغل | كنت | كنا | اصبحت | صرت",
    "انتقل | سافر | اختي | اخي | زوج | ابني | ابنتي | والد",
    "امي | ابي | ما زلت | ما احب | لا احب | لم | لن | لا  | احب",
    "افضل | سا\\w++ | سن\\w++ | هذا | هذه | غيرت | بدات | معي | معنا | نسكن | نعيش | صار",
    end="",
)
_ADMISSION: Final = compile_words("نسيت | سوال | عفوا | اسف | لو سمحت | من فضلك | لا اذكر | ما اذكر | قل لي | اخبرني")
_EXCLAMATION: Final = compile_words("كم | ما")


def read(sentence: str) -> SpeechAct:
    """Return what an Arabic sentence does."""
    text = normalise(sentence)
    bare, has_mark = text.rstrip(" ؟?!.،"), sentences.is_question(text)
    if _FORMULAS.match(bare):
        return THANKS if _THANKING.search(bare) else ACKNOWLEDGES
    if greeting := _GREETING.match(bare):
        rest = bare[greeting.end() :].strip(" ،,.!")
        if len(rest.split()) <= 1 or _HOW_ARE_YOU.match(rest):
            return GREETS
        return GREETS | read(rest + "؟" * has_mark)
    if _HOW_ARE_YOU.match(bare):
        return GREETS
    filler = _FILLER.match(text)
    text = text[filler.end() :] if filler and filler.end() < len(text) else text
    first, rest = split_first_clause(text)
    if _TAG.search(bare):
        return ASKS
    if has_mark:
        return UNSURE if rest and _is_statement(first) else ASKS
    if _OWN_ACT.match(sentence.strip()):
        return TELLS
    if _PAST_OR_ORDER.match(text):
        return UNSURE
    if _REMEMBER.match(text) or (text.endswith("!") and _EXCLAMATION.match(text)):
        return TELLS
    if _asks(text) or (rest and _ADMISSION.match(first) and _asks(rest)):
        return ASKS
    is_fragment = len(text.split()) < MAX_FRAGMENT_WORDS and not _TOLD_START.match(text)
    return UNSURE if is_fragment and not re.search(r"\d", text) else TELLS


def normalise(text: str) -> str:
    """Return a text with one letter for the variants of a letter, without vowel signs, on one line."""
    return " ".join(_MARKS.sub("", text).translate(_VARIANTS).split()).strip(" \"'«»“”*-_")


def _asks(text: str) -> bool:
    return any(pattern.match(text) is not None for pattern in (_ASKING, _EMBEDDED, _REQUEST))


def _is_statement(clause: str) -> bool:
    if _asks(clause) or _ADMISSION.match(clause):
        return False
    return len(clause.split()) >= MIN_TOLD_WORDS or _TOLD_START.match(clause) is not None
