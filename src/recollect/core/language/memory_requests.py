"""Recognises what people ask of memory itself: all that it holds, or of one day, and to forget something.

There are rules for English and Arabic. They match whole sentences, so that "What did I tell you about my car?" stays a
question about the car.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Final

from recollect.core.language import sentences
from recollect.core.language.arabic_speech_acts import normalise

MAX_REQUEST_CHARACTERS: Final = 200  # of a message that asks for everything, or of a sentence that asks to forget
_SIGNS: Final = re.compile(r"[^\w']++")

# English, in lower case, without signs
_EN_LEAD: Final = r"(?:(?:so|ok|okay|well|and|now|hey|hi|hello|please|then|tell me|actually) )*+"
_EN_ORDER: Final = (
    r"(?:(?:can|could|would|will) (?:you|u) )?+(?:please )?+"
    r"(?:tell me|show me|give me|remind me(?: of)?+|list|summari[sz]e|repeat|recap|say) (?:again )?+"
)
_EN_DAY: Final = r"(?:today|tonight|yesterday|last night|this (?:morning|afternoon|evening)|earlier today)"
_EN_TAIL: Final = (
    rf"(?: (?:about (?:me|us|myself)|so far|up to now|until now|already|everything|please|again|then|exactly|"
    rf"to you|{_EN_DAY}))*+"
)
_EN_KNOW: Final = r"(?:know|remember|recall|(?:have )?learn(?:ed|t))"
_EN_ALL: Final = r"(?:everything|all|anything|the things|things|what(?:ever| all| else)?+)(?: that)?+"
_EN_TOLD: Final = r"(?:tell (?:you|u)|say(?: to you)?+|mention|share(?: with you)?+)"
_EN_HAVE_TOLD: Final = r"(?:(?:have |'ve )?+(?:told (?:you|u)|said|mentioned|shared(?: with you)?+))"
_EN_EVERYTHING: Final = re.compile(
    rf"{_EN_LEAD}(?:who am i"
    rf"|what(?: all| else)?+ (?:(?:do (?:you|u) |have you |did you |you )?+{_EN_KNOW})"
    rf"|what(?: all| else)?+ did i {_EN_TOLD}|what(?: all| else)?+ have i {_EN_HAVE_TOLD}"
    rf"|what did we (?:talk about|discuss|speak about|chat about)"
    rf"|what have we (?:talked about|discussed)"
    rf"|do (?:you|u) {_EN_KNOW} (?:anything|something|everything)"
    rf"|(?:{_EN_ORDER})?+{_EN_ALL} (?:(?:you|u) {_EN_KNOW}|i ?{_EN_HAVE_TOLD})"
    rf"|{_EN_ORDER}{_EN_ALL}(?= about (?:me|us|myself))"
    rf"){_EN_TAIL}"
)
_EN_FORGET: Final = re.compile(
    r"(?:(?:so|ok|okay|well|and|now|hey|hi|hello|please|then|actually|just|sorry|oh|no|recollect|assistant) )*+"
    r"(?:(?:can|could|would|will) (?:you|u) |(?:you|u) (?:should|must|can|may|need to|have to) "
    r"|i(?:'d like| would like| want| need) (?:you|u) to |i wish (?:you|u) would )?+"
    r"(?:please |now |just |kindly )*+forget(?!\w|'|-)(?! to\b)"
)

# Arabic, in the spelling of `normalise`, without signs
_AR_LEAD: Final = r"(?:(?:طيب|حسنا|اذن|مرحبا|اهلا|من فضلك|لو سمحت|رجاء|يا|هلا|و|بس) )*+"
_AR_ORDER: Final = (
    r"(?:(?:ممكن|هل يمكنك ان|تقدر) )?+(?:ت?اخبر(?:ني|يني)|ت?خبرني|قل لي|قول لي|قولي|قلي|تقول لي|احك لي|احكي لي|احكيلي"
    r"|ذكرني|اعرض(?: لي)?+|اذكر(?: لي)?+|عدد(?: لي)?+|لخص(?: لي)?+|هات|اعطني|عطني|وريني|ورني|ارني) "
)
_AR_WHAT: Final = (
    r"(?:ماذا|ما الذي|شو(?: اللي)?+|وش(?: اللي)?+|وشو|ايش(?: اللي)?+|اش|شنو(?: اللي)?+|شنهو|ايه(?: اللي)?+"
    r"|و?ايش|ماذا كنت)"
)
_AR_ALL: Final = r"(?:ب?كل (?:ما|شيء|شي|اللي|الذي|حاجه)(?: اللي)?+)"
_AR_KNOW: Final = r"(?:ب|كنت )?+(?:تعرف|تتذكر|تذكر|تعلم|تدري|فاكر|عارف|متذكر|تفتكر|حافظ)(?:ين|ي|و|ون)?+(?:ه|ها)?+"
_AR_TOLD: Final = (
    r"(?:(?:كنت )?+(?:قلت|حكيت|ذكرت|كتبت|شاركت)(?:ه|ها|و)?+ (?:لك|لكي|معك)|(?:قلت|حكيت|ذكرت)(?:ه|هو)?+(?:لك|لكي)"
    r"|(?:اخبرت|خبرت|علمت)ك(?: به)?+)"
)
_AR_DAY: Final = r"(?:اليوم|النهارده|الليله|امس|البارحه|امبارح|مبارح|هذا الصباح|(?:اليوم )?+الصبح|هذا المساء|هالصبح)"
_AR_TAIL: Final = (
    rf"(?: (?:عني|عنا|علي|حتي الان|الي الان|لحد الان|لهلا|للحين|من فضلك|لو سمحت|بالضبط|من قبل|كله|{_AR_DAY}))*+"
)
_AR_EVERYTHING: Final = re.compile(
    rf"{_AR_LEAD}(?:من انا|مين انا"
    rf"|(?:{_AR_ORDER})?+{_AR_WHAT} (?:{_AR_KNOW}|{_AR_TOLD})"
    rf"|(?:{_AR_ORDER})?+{_AR_ALL} (?:{_AR_KNOW}|{_AR_TOLD})"
    rf"|{_AR_ORDER}(?:ب?ما|عما) (?:{_AR_KNOW}|{_AR_TOLD})"
    rf"|(?:{_AR_ORDER}){_AR_ALL}(?= عني)"
    rf"|(?:{_AR_KNOW}|{_AR_TOLD}) (?:ايه|ايش|شو|وش|شنو)"
    rf"|(?:هل )?+{_AR_KNOW} (?:شييا|شيءا|شيا|شيء|شي|حاجه|اي شيء|اي شي)(?= عن)"
    rf"|عن ماذا (?:تحدثنا|تكلمنا)|(?:في|ب|عن) ?(?:ايش|شو|ايه) (?:تكلمنا|حكينا)"
    rf"){_AR_TAIL}"
)
_AR_FORGET: Final = re.compile(
    r"(?:(?:طيب|حسنا|اذن|مرحبا|من فضلك|لو سمحت|رجاء|ارجوك|يا|خلاص|بس|اسف|عفوا) )*+"
    r"(?:انس(?:ي|ا|وا|اه|ها|يه|يها)?+"
    r"|(?:(?:ممكن|ياريت|يا ريت|لازم|عليك|يجب|تقدر|هل يمكنك|هل تستطيع|يمكنك|تستطيع|ارجو|اتمني"
    r"|(?:انا )?+(?:اريدك|اريد منك|ابغاك|ابيك|بدي ?اك|بدي ياك|عايزك|عاوزك|اود منك|ودي|احتاجك)) )"
    r"(?:ان )?+تنس(?:ي|ا|اه|ها|يه)?+)(?!\w)"
)
_TODAY: Final = re.compile(
    r"\b(?:today|tonight|this (?:morning|afternoon|evening))\b"
    r"|(?<!\w)(?:اليوم|النهارده|الليله|هذا الصباح|الصبح|هالصبح|هذا المساء)(?!\w)"
)
_YESTERDAY: Final = re.compile(r"\b(?:yesterday|last night)\b|(?<!\w)(?:امس|البارحه|امبارح|مبارح)(?!\w)")


def asks_for_everything(text: str) -> bool:
    """Return whether a short message asks for all that is remembered: "What do you know about me?"."""
    if len(text) > MAX_REQUEST_CHARACTERS:
        return False
    return any(is_for_everything(sentence) for sentence in sentences.split(text))


def is_for_everything(sentence: str) -> bool:
    """Return whether a sentence asks for all that is remembered, or for all that was said on one day."""
    words = _bare_words(sentence)
    return bool(_EN_EVERYTHING.fullmatch(words) or _AR_EVERYTHING.fullmatch(words))


def asked_day(text: str, today: date) -> date | None:
    """Return the day that a question for everything names: `today` or the day before. None if it names none."""
    words = _bare_words(text)
    if _TODAY.search(words):
        return today
    return today - timedelta(days=1) if _YESTERDAY.search(words) else None


def asks_to_forget(text: str) -> bool:
    """Return whether a message has a sentence that asks to forget something."""
    return any(is_to_forget(sentence) for sentence in sentences.split(text[: 10 * MAX_REQUEST_CHARACTERS]))


def is_to_forget(sentence: str) -> bool:
    """Return whether a sentence asks to forget something: "Forget my old address"."""
    words = _bare_words(sentence)
    return bool(_EN_FORGET.match(words) or _AR_FORGET.match(words))


def _bare_words(text: str) -> str:
    """Return the words of a text in lower case and one spelling, with a single space between them."""
    words = _SIGNS.sub(" ", normalise(text[:MAX_REQUEST_CHARACTERS]).lower().replace("’", "'"))
    return words.strip(" '_")
