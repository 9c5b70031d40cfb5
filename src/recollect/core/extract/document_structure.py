"""Finds the structure that a person wants for a document: its sections, chapters or columns, in their order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from recollect.core.compression.ledger import STRUCTURE
from recollect.core.extract.prose import Sentence
from recollect.core.extract.rules import RuleMatch

_DOCUMENT: Final = (
    r"(?:document|report|paper|essay|thesis|dissertation|article|presentation|slides?|deck|memo"
    r"|book|website|site|page|letter|proposal|plan"
    r"|newsletter|brief|summary|outline|handbook|manual|spreadsheet|table|readme|cv|resume"
    r"|template|study|chapter|review|post|guide|talk|agenda|pitch)"
)
_ANY_DOCUMENT: Final = re.compile(rf"\b{_DOCUMENT}\b", re.IGNORECASE)
_PART_NOUNS: Final = r"(?:sections?|chapters?|parts?|headings?|slides?|columns?|fields?|pages?|tabs?|modules?)"
_SHOULD_HAVE: Final = re.compile(
    rf"(?:[\w' ]{{0,40}}?\b)?(?:my|the|this|our|each|every|a|your) (?:[\w-]+ ){{0,3}}?(?P<doc>{_DOCUMENT}) "
    r"(?:should|must|needs? to|has to|have to|will|shall|ought to) (?:also )?"
    rf"(?:have|be|contain|include|consist of|start with|begin with|end with|open with|close with"
    rf"|cover|follow|list|get|come with|use|go|run)"
    rf" (?:the (?:following )?)?(?:(?:\w+ )?(?P<part>{_PART_NOUNS})(?: (?:for|called|named|on|about"
    rf"|titled|like))?:? )?(?P<list>.{{3,400}})",
    re.IGNORECASE,
)
_CONSISTS_OF: Final = re.compile(
    rf"(?:my|the|this|our|each|every) (?:[\w-]+ ){{0,3}}?{_DOCUMENT} (?:has|contains|consists of"
    rf"|is divided into|is split into|is structured in|comprises) "
    rf"(?:\w+ )?(?P<part>{_PART_NOUNS}) ?: ?(?P<list>.{{3,400}})"
    rf"|(?:please )?(?:start|begin|open|end|finish|close) (?:the|each|every|my|our) "
    rf"(?:[\w-]+ ){{0,2}}?{_DOCUMENT} with (?P<list2>.{{3,200}})",
    re.IGNORECASE,
)
_ADD_PARTS: Final = re.compile(
    rf"(?:please )?(?:add|include|use|create|make|I (?:want|need|would like|'d like)|we (?:want"
    rf"|need)|with|split (?:it|the \w+) into|divide (?:it|the \w+) into|put in|structure (?:it"
    rf"|the \w+) (?:as|into|with))"
    rf" (?:the (?:following )?|these |separate |an? )?(?:\w+ )?(?P<part>{_PART_NOUNS})(?: (?:for|called"
    rf"|named|on|about|titled))?:? (?P<list>.{{3,400}})",
    re.IGNORECASE,
)
_LABELLED_LIST: Final = re.compile(
    r"(?:(?:the|my|our|proposed|final|here(?:'s| is) the) )?(?:(?:document|report|paper|thesis"
    r"|article|essay|presentation|book|page|chapter|proposed|planned) )?"
    r"(?P<part>structure|outline|sections|chapters|parts|headings|slides|columns|fields"
    r"|table of contents|toc|layout|agenda)"
    r"(?: (?:of|for) (?:the|my|our|this) [\w ]{2,40}?)?(?: is| are| will be| should be)?: ?(?P<list>.{0,400})",
    re.IGNORECASE,
)
_PUT_PART: Final = re.compile(
    r"(?:please )?(?:put|place|move|keep|add|insert) (?P<list>(?:the |an? )?(?:references"
    r"|bibliography|appendix|appendices|abstract|summary|executive summary|conclusion"
    r"|table of contents|acknowledge?ments|glossary|index|charts?|figures|tables"
    r"|footnotes)\b.{2,120})",
    re.IGNORECASE,
)
_ARABIC_LABELLED_LIST: Final = re.compile(
    r"(?P<part>عناصر|هيكل|هيكلة|بنية|الهيكل|أقسام|الأقسام|اقسام|الاقسام|فصول|الفصول|محاور|المحاور"
    r"|محتويات|المحتويات|عناوين|العناوين|الأعمدة|أعمدة|الشرائح|شرائح)"
    r"(?: (?:ال)?\w+){0,2} ?: ?(?P<list>.{0,400})"
)
_ARABIC_SHOULD_HAVE: Final = re.compile(
    r"(?:و|ف)?(?:يجب|ينبغي|لازم|أريد|اريد|أبغى|ابغى|أبي|ابي|نريد|المطلوب|من المفترض|أرغب|لا بد)"
    r"(?: في)?(?: من)?(?: أن| ان)? ?"
    r"(?:(?:ال)?\w+ ){0,2}?(?:ت|ي|ن)?(?:حتوي|تضمن|شمل|تكون|كون|ضم|نقسم|قسم|بدأ|بدا|ختتم)"
    r"(?: (?:ال)?(?:تقرير|وثيق|مستند|ورق|بحث|رسال|عرض|مذكر|كتاب|مقال|دراس|خط)[\u0620-\u064a]{0,3}(?= ))?"
    r"(?:(?: [\u0620-\u064a]+){0,3}? (?:على|علي|من|إلى|الى))? (?:(?:ال)?(?:أقسام|اقسام|فصول|أجزاء"
    r"|عناصر|محاور|أبواب)(?: التالية| الآتية)?:? )?(?P<list>.{3,400})"
)
_ARABIC_CONSISTS_OF: Final = re.compile(
    r"(?:و)?(?:ال)?(?:وثيق|مستند|تقرير|ورق|بحث|رسال|عرض|مذكر|كتاب|موقع|مقال|دراس"
    r"|خط)[\u0620-\u064a]{0,3} (?:يتكون|تتكون|مكونة?|يحتوي|تحتوي|يضم|تضم|ينقسم|تنقسم|يشمل|تشمل"
    r"|يتضمن|تتضمن)"
    r"(?: (?:من|على|إلى|الى|في))? (?:[\u0620-\u064a]+ )?(?:فصول|أقسام|اقسام|أجزاء|محاور|أبواب"
    r"|شرائح) ?: ?(?P<list>.{3,400})"
    r"|(?:قس[ّ]?م|قسمي|قسّم|اقسم) (?:ال)?[\u0620-\u064a]+ (?:إلى|الى) (?P<list2>.{3,300})|(?:أضف"
    r"|اضف|أضيفي|زد) (?:قسم|فصل|جدول|ملحق|صفحة|فقرة)[اًا]{0,2} (?:عن|حول|ل|في) ?"
    r"(?P<list3>.{3,200})"
)
_ARABIC_DOCUMENT: Final = re.compile(
    r"وثيق|مستند|تقرير|ورق[ةه]|بحث|رسال[ةه]|عرض|مذكر|كتاب|موقع|صفح|مقال|دراس|خط[ةه]|قسم|أقسام"
    r"|اقسام|فصل|فصول|شرائح|ملخص|دليل|نشر[ةه]"
)
_ARABIC_PUT_PART: Final = re.compile(
    r"(?:ضع|ضعي|حط|اجعل|خل|خلي|أضف|اضف|انقل) (?P<list>(?:المراجع|المصادر|الخاتمة|الملخص|الملاحق"
    r"|الفهرس|الجداول|الرسوم|المقدمة|الهوامش|جدول المحتويات)\b.{2,120})"
)
_ITEM_JOINT: Final = re.compile(
    r",? (?:and|then|plus|followed by|&)(?: then)? (?:an? |the )?|[,;،] ?(?:an? |the )?| (?:->|→|>"
    r"|/|\|) | ?\b\d{1,2}[.)] | و(?=[\u0620-\u064a]{3,})"
)
_LIST_END: Final = re.compile(
    r"(?<!\d)[.!?؟](?:\s|$)|\s[-–—]+\s|[()]| (?:because|so that|but|since|where each|in that order"
    r"|please|with each|لأن|لكن|بحيث|حسب)\b",
    re.IGNORECASE,
)
_ITEM_LEAD: Final = re.compile(
    r"(?:an?|the|following|these|three|four|five|\d+|for|on|sections?|chapters?|parts?|its"
    r"|at least|only|أقسام|اقسام|ثم) |لل(?=[\u0620-\u064a]{3})|[:\d.]+ ",
    re.IGNORECASE,
)
_TRIMMED: Final = " .,;:!?،؛؟\"'“”()[]*-–—"
_PART_NAME: Final = re.compile(
    r"\b(?:introduction|intro|methods?|methodology|results|conclusions?|abstract|summary|appendi(?:x|ces)|references"
    r"|bibliography|chapters?|sections?|headings?|slides?|pages?|paragraphs?|columns?"
    r"|table of contents|glossary|index"
    r"|footnotes|recommendations|background|discussion|findings|agenda|cover|title page|q&a|body|greeting|signature"
    r"|sources|figures|charts?|tables?|bullets?|subheadings?|preface|literature review|next steps|risks|budget)\b",
    re.IGNORECASE,
)
_ARABIC_PART_NAME: Final = re.compile(
    r"مقدمة|خاتمة|ملخص|منهجية|نتائج|توصيات|فصل|فصول|أقسام|اقسام|قسم|شرائح|شريحة|صفح|عناوين|عنوان"
    r"|ملاحق|ملحق|مراجع|مصادر"
    r"|فهرس|جدول|فقر|أعمدة|عمود|غلاف|تمهيد|هوامش|خلفية|مناقشة|تحليل|خطوات|أسئلة|رسوم|تحية|توقيع"
)
_BUILD_ORDER: Final = re.compile(
    r"(?:(?:please|and|also|then|so|ok|yes|now),? )*(?:put|place|add|include|start|begin|open|end"
    r"|close|finish|split|divide"
    r"|structure|organi[sz]e|order|arrange|number|move|insert|format|lay out|group)\b"
    r"|(?:(?!\b(?:I|we|you|he|she|they)\b).){3,80}?\b(?:should|must|needs?|has to|have to|ought to"
    r"|(?:opens?|closes?|starts?|begins?|ends?) with|goes? (?:at|in|on|to|before"
    r"|after|first|last)|comes? (?:first|last|at|after|before)|consists? of|is (?:divided|split"
    r"|structured|organi[sz]ed)"
    r"|will (?:have|start|end|open|contain|include|follow|consist))\b|(?:I|we)(?:'d| would)? "
    r"(?:want|like|need) (?:the|an?|my)\b",
    re.IGNORECASE,
)
_ARABIC_BUILD_ORDER: Final = re.compile(
    r"(?:و|ف)?(?:ضع|ضعي|اجعل|ابدأ|ابدا|اختم|اختتم|أضف|اضف|قسم|قسّم|رتب|خل|خلي|حط|استخدم|أدرج|ادرج|انقل|رقم)\b"
    r"|.{0,60}?(?:يجب|ينبغي|لازم|يبدأ|تبدأ|يبدا|ينتهي|تنتهي|يتكون|تتكون|يحتوي|تحتوي|ينقسم|تنقسم|مكون|يتضمن|تتضمن|يشمل"
    r"|تشمل|تأتي|يأتي|يتألف|تتألف)\b|(?:أريد|اريد|أبي|ابي|أبغى|ابغى|نريد|نبي) (?:ال)?(?:تقرير|بحث"
    r"|عرض|مذكر|كتاب|مقال|رسال|ورق)"
)
_AT_AN_END: Final = re.compile(
    r"\bat the (?:very )?(?:end|start|beginning|top|bottom)\b|في (?:نهاية|بداية|أول|آخر|أعلى|أسفل)"
)
_LIST_INTRODUCTION: Final = re.compile(
    r"^.{0,80}?\b(?:have|has|include|contain|needs?|put|place|add|consists? of|follows:)\s+"
    r"(?:an?\s+|the\s+)?",
    re.IGNORECASE,
)
_MAX_ITEMS: Final = 32
_MAX_ITEM_WORDS: Final = 12
_MAX_ITEM_CHARS: Final = 120
_MAX_LOOSE_CHARS: Final = 300  # longer sentences that only mention parts are ignored


def find_structure(sentence: Sentence) -> Iterator[RuleMatch]:
    """Yield an entry for each part of a document that a sentence names. The text of each names all parts."""
    text = sentence.text
    if text.endswith(("?", "؟")):
        return
    is_arabic = any("\u0620" <= c <= "\u064a" for c in text)
    match = _match_arabic(text) if is_arabic else _match_english(text)
    if match is None:
        yield from _find_loose_order(text, is_arabic)
        return
    slot = _find_slot(match.groupdict().get("part") or "", text)
    group = next(name for name, value in match.groupdict().items() if name.startswith("list") and value is not None)
    listed = match.groupdict().get(group) or ""
    end = _LIST_END.search(listed)
    listed = listed[: end.start()] if end else listed
    items = [item for item in sentence.items if item] if sentence.items else _split_items(listed)
    if not items:
        return
    whole = ", ".join(items) if sentence.items else text[: match.start(group) + len(listed)].strip(_TRIMMED)
    for item in items:
        yield RuleMatch(STRUCTURE, slot, item[:_MAX_ITEM_CHARS], whole)


def _find_loose_order(text: str, is_arabic: bool) -> Iterator[RuleMatch]:
    """Yield the parts of a document that a sentence gives orders about, in words of its own."""
    part_name = _ARABIC_PART_NAME if is_arabic else _PART_NAME
    parts = {match[0].lower() for match in part_name.finditer(text)}
    document = (_ARABIC_DOCUMENT if is_arabic else _ANY_DOCUMENT).search(text)
    min_parts = 1 if (document and document[0].lower() not in parts) or _AT_AN_END.search(text) else 2
    if len(parts) < min_parts or len(text) > _MAX_LOOSE_CHARS:
        return
    if (_ARABIC_BUILD_ORDER if is_arabic else _BUILD_ORDER).match(text):
        whole = text.strip(_TRIMMED)
        items = [item for item in _split_items(_LIST_INTRODUCTION.sub("", whole)) if part_name.search(item)]
        for item in items if len(items) > 1 else [whole]:
            yield RuleMatch(STRUCTURE, _find_slot("", text), item[:_MAX_ITEM_CHARS], whole)


def _match_english(text: str) -> re.Match[str] | None:
    should_have = _SHOULD_HAVE.match(text)
    if should_have and (should_have["part"] or _is_structure(should_have["list"])):
        return should_have
    return _CONSISTS_OF.match(text) or _LABELLED_LIST.match(text) or _ADD_PARTS.match(text) or _PUT_PART.match(text)


def _match_arabic(text: str) -> re.Match[str] | None:
    labelled_list = _ARABIC_LABELLED_LIST.match(text)
    if labelled_list:
        return labelled_list
    should_have = _ARABIC_SHOULD_HAVE.match(text)
    if should_have and _ARABIC_DOCUMENT.search(text):
        return should_have
    return _ARABIC_CONSISTS_OF.match(text) or _ARABIC_PUT_PART.match(text)


def _is_structure(listed: str) -> bool:
    """Return whether a list names two parts at least, or a size such as "two pages"."""
    return (
        len(_split_items(listed)) > 1
        or re.search(rf"\b(?:\w+ pages?|one-\w+|{_PART_NOUNS})\b", listed, re.IGNORECASE) is not None
    )


def _split_items(listed: str) -> list[str]:
    items: list[str] = []
    for item in _ITEM_JOINT.split(listed)[:_MAX_ITEMS]:
        while lead := _ITEM_LEAD.match(item):
            item = item[lead.end() :]
        item = item.strip(_TRIMMED)
        if item and len(item.split()) <= _MAX_ITEM_WORDS:
            items.append(item)
    return items


def _find_slot(part: str, text: str) -> str:
    """Return the slot by the noun for the parts, or by the text if there is no such noun; "sections" in doubt."""
    part = part.lower()
    for name in ("chapter", "slide", "column", "field", "page", "agenda"):
        if name in part or (
            not part and re.search(rf"\b{name}s?\b", text, re.IGNORECASE) and name in ("slide", "chapter", "column")
        ):
            return name + ("" if name == "agenda" else "s")
    for name, slot in (("فصول", "chapters"), ("شرائح", "slides"), ("أعمدة", "columns")):
        if name in part:
            return slot
    return "sections"
