"""Cuts what people write into sentences, in any script, and shortens one that is too long.

Sentences are read for a summary, not kept by position: markup goes, code becomes a short mention, and spaces that a
transcript puts around signs are closed again. No word is added but "code".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

HEAD: Final = 48_000  # characters of a message that are read from its start; nobody tells more of one message
TAIL: Final = 16_000  # and from its end
LONG: Final = 400  # characters without an end of a sentence; cut at a pause, or at a space

_FENCE: Final = re.compile(
    r"^ {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]{0,32})[^\n]*\n(?:.*?^ {0,3}\1[`~]*[ \t]*$|.*)", re.M | re.S
)
_LEAD_IN: Final = re.compile(r":\s*\n\[(?=[^\]\n]{0,40}code\])")
_IMAGE: Final = re.compile(r"!\[([^\]\n]{0,200})\]\([^)\s]{1,500}\)")
_LINK: Final = re.compile(r"\[([^\]\n]{1,200})\]\([^)\s]{1,500}\)")
_URL: Final = re.compile(
    r"\bhttps?://(?:www\.)?([\w.-]{1,253}\w)(?:[/?#][^\s)>\]\"']*?)?(?=[.,;:!?]*(?:[\s)>\]\"']|$))"
)
_LONG_ADDRESS: Final = 80
_INLINE: Final = re.compile(r"(?<!`)```.*?(?:```|\Z)", re.S)
_TABLE: Final = re.compile(r"^[ \t]*\|.*\|[ \t]*$\n?", re.M)
_LINE_MARK: Final = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+•‣–][ \t]+|[0-9]{1,3}[.)][ \t]+|\|[ \t]?)", re.M)
_EMPHASIS: Final = re.compile(r"(?<![^\W_])(?:\*{1,3}|~~|`)(?=\S)|(?<=\S)(?:\*{1,3}|~~|`)(?![^\W_])")
_RULE: Final = re.compile(r"^[ \t]*[-=_*|:+ \t]{3,}$", re.M)
# Transcripts write "that 's" and "No , I haven ' t .".
_SPACED: Final = re.compile(r"(?<=[^\W\d_]) ?(['’]) ?(s|t|m|d|ve|re|ll)\b(?!['’])", re.I)
_GAP: Final = re.compile(r" +(?=[,;:!?%](?:\s|$)|\.(?:\s|$)|n't\b)")
# Sounds of thinking and words said twice. "um" is a word in other languages, and "had had" and "no, no" mean something.
_HALTING: Final = re.compile(
    r"(?<![\w'-])(?:(?:um+|uh+|uhm+|erm+|hmm+|mm+)(?![\w'-])[,.]?\s*"
    r"|(i|you|he|she|it|we|they|the|a|an|to|of|in|on|for|with|and|or|but|so|if|is|are|was|my|your|this|i'm|it's)\s(?=\1\s))",
    re.I,
)
_ENGLISH: Final = re.compile(r"\b(?:the|and|you|it|of|this|that|have|it's|i'm|yeah)\b", re.I)

_ABBREVIATIONS: Final = (
    r"(?<!\bMr)(?<!\bMs)(?<!\bDr)(?<!\bSt)(?<!\bMrs)(?<!\bProf)(?<!\bvs)(?<!\be\.g)(?<!\bi\.e)(?<!\bapprox)(?<!\bNo)"
)
_END: Final = re.compile(
    r"(?<![.!?…؟۔।])(?:(?<!\b[A-Z])" + _ABBREVIATIONS + r"\.(?!\s[0-9])(?!\w)|[.!?…؟۔।](?<!\.)|\.{2,})"
    r"[.!?…؟۔।]*+[\"'”’»)\]]*+(?=\s|$)|[。！？｡]++[」』”’）】]*+|\n+"
)
_STOP: Final = re.compile(r"[.!?…؟۔।。！？｡\n]")  # where an end may be; found much faster than the end itself
_PAUSE: Final = re.compile(r"(?<=[,;:—–])\s|(?<=[、，；：،؛])|\s[–—-]\s")
_SPACE: Final = re.compile(r"\s+")
# What follows such a word turns round or narrows what was said before it: there is no border in front of it.
_TURNING: Final = re.compile(
    r"\W*(?:but|though|although|unless|except|however|if|until|without|not|no|never|or|only|yet|because|when|while|than"
    r"|لكن|إلا|الا|بدون|إذا|但|但是|可是|除非|如果|aber|sondern|außer|wenn|mais|sauf|si|pero|salvo)\b",
    re.I,
)
_LEAST_KEPT: Final = 0.5  # of what fits: a shorter start is not worth its clean border
_ENDING: Final = 8  # characters in which a question shows itself
ELLIPSIS: Final = " …"


def split(text: str) -> list[str]:
    """The sentences of a message, cleaned, without empty ones."""
    if len(text) > HEAD + TAIL:
        text = f"{text[:HEAD]}\n{text[-TAIL:]}"
    return [piece for found in _ended(_clean(text)) for piece in _pieces(found)]


def tidy(text: str) -> str:
    """On one line, with the spaces people would write."""
    text = _SPACE.sub(" ", text).strip()
    if "'" in text or "’" in text:
        text = _SPACED.sub(lambda found: found[1] + found[2].lower(), text)
    text = _GAP.sub("", text)
    return _HALTING.sub("", text).strip() if _HALTING.search(text) and _ENGLISH.search(text) else text


def shorten(text: str, fits: Callable[[str], bool]) -> str:
    """As much of the start as fits with a sign that something is missing; nothing if nothing does."""
    if fits(text):
        return text
    borders = [found.start() for found in _SPACE.finditer(text)] or list(range(1, len(text)))
    low, high = 0, len(borders)
    while low < high:
        middle = (low + high) // 2
        if fits(_bare(text[: borders[middle]]) + ELLIPSIS):
            low = middle + 1
        else:
            high = middle
    while low and not fits(_bare(text[: borders[low - 1]]) + ELLIPSIS):
        low -= 1
    if not low:
        return _characters(text[: borders[0]] if borders else text, fits)
    kept = text[: _pause(text, borders[low - 1])]
    opened = kept.rfind(" (")
    return _bare(kept if opened < kept.rfind(")") + 1 else kept[:opened]) + ELLIPSIS


def _characters(word: str, fits: Callable[[str], bool]) -> str:
    size = len(word)
    while size and not fits(word[:size] + ELLIPSIS):
        size //= 2
    return word[:size] + ELLIPSIS if size else ""


def _pause(text: str, end: int) -> int:
    """The last pause before `end` behind which nothing turns the meaning, else `end`."""
    for found in reversed(list(_PAUSE.finditer(text, int(end * _LEAST_KEPT), end))):
        if not _TURNING.match(text, found.end()):
            return found.start()
    return end


def _bare(text: str) -> str:
    return text.rstrip(" ,;:—–-、，；：،؛")


def _clean(text: str) -> str:
    if "```" in text or "~~~" in text:
        text = _FENCE.sub(lambda found: f"[{found[2]} code]" if found[2] else "[code]", text)
        text = _LEAD_IN.sub(": [", _INLINE.sub("[code]", text))
    text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text)) if "](" in text else text
    text = _URL.sub(_address, text) if "://" in text else text
    text = _TABLE.sub("", text) if "|" in text else text
    return _EMPHASIS.sub("", _LINE_MARK.sub("", _RULE.sub("", text)))


def _address(found: re.Match[str]) -> str:
    """Whole, unless it is very long."""
    return found[0] if len(found[0]) <= _LONG_ADDRESS else f"{found[1]}/…"


def _ended(text: str) -> Iterator[str]:
    start = 0
    for stop in _STOP.finditer(text):
        if stop.start() >= start and (end := _END.match(text, stop.start())):
            yield text[start : end.end()]
            start = end.end()
    yield text[start:]


def _pieces(text: str) -> Iterator[str]:
    """The sentence, or its parts if it goes on and on."""
    text = tidy(text)
    while len(text) > LONG:
        end = _pause(text, LONG)
        if end == LONG:
            end = max(text.rfind(" ", LONG // 2, LONG), 0) or LONG
        yield text[:end].strip()
        text = text[end:].strip()
    if text:
        yield text


# What a sentence is. The words are those of English, Arabic and a few others; elsewhere the cues are just missing.

_QUESTION: Final = re.compile(r"[?？؟][\W_]*$")
_FACT: Final = re.compile(r"[0-9]+(?:[.,:][0-9]+)*|(?<=[a-z,;] )[A-Z][\w'-]+")
_PERSONAL: Final = re.compile(
    r"\b(?:i|i'm|i've|i'll|i'd|my|me|mine|ich|mein|meine|je|mon|ma|yo|mi)\b|أنا|انا|عندي|لدي|我|私|僕", re.I
)
_INTENT: Final = re.compile(
    r"\b(?:want|need|would like|plan|planning|decided?|going to|have to|prefer|suggest|recommend|agree|must|should"
    r"|let's|i'll|i'd like|why don't|how about|what about|invite|allergic|hate|love|because)\b"
    r"|أريد|اريد|أحتاج|يجب|قررت|سوف|أفضل|حساسية|想|要|需要|决定|過敏|过敏|喜欢",
    re.I,
)
_SMALL_TALK: Final = re.compile(
    r"\b(?:hello|hi|hey|bye|goodbye|good-bye|thanks?|thank you|welcome|good (?:morning|afternoon|evening|night|luck)"
    r"|how are you|how do you do|see you|nice to|take care|you're right|sounds (?:good|great)|no problem|excuse me"
    r"|great to hear|happy to help|glad (?:to|you)|congrat\w*|that's (?:great|awesome|amazing|wonderful|cool|nice|so)"
    r"|(?:looks|sounds) (?:like|so|really|cool|amazing|awesome|fun)|keep (?:it )?up|let me know if"
    r"|feel free|sorry|language model)\b|[:：]$"
    r"|شكرا|مرحبا|السلام عليكم|صباح الخير|مع السلامة|谢谢|你好|再见|ありがとう|こんにちは",
    re.I,
)


def is_question(text: str) -> bool:
    return _QUESTION.search(text[-_ENDING:]) is not None


def is_personal(text: str) -> bool:
    return _PERSONAL.search(text) is not None


def is_intent(text: str) -> bool:
    return _INTENT.search(text) is not None


def is_small_talk(text: str) -> bool:
    return _SMALL_TALK.search(text) is not None


_ACKNOWLEDGED: Final = re.compile(
    r"\W*(?:noted|ok(?:ay)?|got it|sure(?: thing)?|understood|done|alright|all right|of course|will do|certainly|right"
    r"|yes|no|yeah|yep|great|perfect|thanks?|thank you|you're welcome"
    r"|حسنا|تمام|طيب|نعم|شكرا|好的?|はい)\W*",
    re.I,
)


def is_acknowledgement(text: str) -> bool:
    """Whether it says no more than that something was heard."""
    return len(text) <= 40 and _ACKNOWLEDGED.fullmatch(text) is not None


def facts(text: str) -> int:
    """How many numbers and names it has."""
    return len(_FACT.findall(text))


# English verbs and clauses, as far as telling needs them.


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


VERBS: Final = _set(
    "need want like love hate know think believe hope wish feel guess mean see hear say tell ask go come get take "
    "make give find keep try use work live play eat drink sleep buy pay sell spend save owe own drive ride fly walk "
    "run travel move stay leave start stop begin finish plan prefer enjoy remember forget understand agree disagree "
    "doubt suppose expect imagine wonder suggest recommend promise appreciate look watch listen talk speak call "
    "write meet visit help learn study teach practice train wear bring send receive order book cook bake clean wash "
    "fix build create design draw paint sing dance swim smoke weigh suffer miss care worry fear trust respect "
    "admire consider choose decide refuse accept apply join belong hold carry turn open close sit stand wait seem "
    "sound appear become change grow show share add check follow manage handle support charge offer provide deliver "
    "include contain allow require involve intend happen matter depend tend"
)
_PAST_OF: Final = dict(
    pair.split(":")
    for pair in sorted(
        _set(
            "go:went see:saw take:took get:got make:made say:said think:thought know:knew find:found give:gave "
            "tell:told feel:felt leave:left keep:kept begin:began run:ran write:wrote sit:sat stand:stood "
            "lose:lost pay:paid meet:met understand:understood spend:spent grow:grew win:won teach:taught "
            "fall:fell buy:bought send:sent build:built draw:drew break:broke drive:drove ride:rode eat:ate "
            "sleep:slept speak:spoke choose:chose catch:caught wear:wore throw:threw forget:forgot sell:sold "
            "hold:held hear:heard bring:brought come:came become:became sing:sang swim:swam fly:flew hide:hid "
            "lead:led mean:meant wake:woke stick:stuck do:did have:had"
        )
    )
)
PAST: Final = frozenset({*_PAST_OF.values(), "dreamt", "learnt", "used"}) - {"did", "had"}
IRREGULAR: Final = {"have": "has", "do": "does", "go": "goes", "am": "is", "are": "is", "were": "was"} | {
    "haven't": "hasn't", "don't": "doesn't", "aren't": "isn't", "weren't": "wasn't", "ain't": "isn't",
}  # fmt: skip
AUXILIARIES: Final = _set(
    "do does am are is was were can could will would should must may might shall have has had did"
)
ASKING: Final = _set("what which where when why how who whose whom")
_SUBJECTS: Final = _set("i you we he she it they there this that these those")
_ARTICLES: Final = _set("the your my his her their this that")
_DOUBLED: Final = _set("stop plan prefer")


def clause(words: list[str]) -> tuple[list[str], list[str]]:
    """A question in the order of a clause: "if", "I can watch TV"; no words if it has another form."""
    words = [part for word in words for part in _parted(word)]
    lower = [word.lower() for word in words]
    asking = bool(lower) and lower[0] in ASKING
    place = next((at for at, word in enumerate(lower[:5]) if word in AUXILIARIES), None)
    if place is None or (place > 0) != asking or place + 2 > len(words) or "," in words[: place + 2]:
        return [], []
    lead = [lower[0], *words[1:place]] if asking else ["if"]
    helper, subject, rest = lower[place], words[place + 1], words[place + 2 :]
    if subject.lower() not in _SUBJECTS:
        return lead, _about(lead, helper, words[place + 1 :])
    if helper not in ("do", "does", "did"):
        return lead, [subject, helper, *rest] if rest else []
    if not rest or rest[0] not in VERBS:
        return [], []
    verb = rest[0] if helper == "do" else third(rest[0]) if helper == "does" else past(rest[0])
    return lead, [subject, verb, *rest[1:]]


def _parted(word: str) -> list[str]:
    return [word[:-2], "is"] if word.lower() in ("what's", "where's", "who's", "when's") else [word]


def _about(lead: list[str], helper: str, thing: list[str]) -> list[str]:
    """ "Where is the remote?" → "the remote is"."""
    if helper not in ("is", "are", "was", "were") or lead[0] not in ("what", "where", "who", "when", "which"):
        return []
    if thing[0].lower() not in _ARTICLES or not 2 <= len(thing) <= 6 or "like" in thing:
        return []
    return [] if any(word.endswith(("ing", "ed")) for word in thing[2:]) else [*thing, helper]


def past(verb: str) -> str:
    if verb in _PAST_OF:
        return _PAST_OF[verb]
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else verb[-1] + "ed" if verb in _DOUBLED else "ed")


def third(verb: str) -> str:
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if verb.endswith(("s", "sh", "ch", "x", "z")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else verb + "s"
