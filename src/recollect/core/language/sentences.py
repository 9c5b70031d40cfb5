"""Splits messages into sentences, in any script, shortens sentences, and reads what kind of sentence one is.

The sentences are for summaries. Markup is removed, code becomes "[code]", and the spaces that transcripts put around
signs are closed. No other word is added. Below are also the English verb forms that summaries need.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

MAX_HEAD_CHARACTERS: Final = 48_000  # so much of a message is read from its start,
MAX_TAIL_CHARACTERS: Final = 16_000  # and from its end: no summary needs more of one message
MAX_SENTENCE_CHARACTERS: Final = 400  # a longer one is cut at a pause, or at a space

_FENCE: Final = re.compile(
    r"^ {0,3}(`{3,}+|~{3,}+)[ \t]*+([\w+#.-]{0,32}+)[^\n]*+\n(?:.*?^ {0,3}\1[`~]*+[ \t]*+$|.*)", re.M | re.S
)
_LEAD_IN: Final = re.compile(r":\s*\n\[(?=[^\]\n]{0,40}code\])")
_IMAGE: Final = re.compile(r"!\[([^\]\n]{0,200})\]\([^)\s]{1,500}\)")
_LINK: Final = re.compile(r"\[([^\]\n]{1,200})\]\([^)\s]{1,500}\)")
_URL: Final = re.compile(
    r"\bhttps?://(?:www\.)?([\w.-]{1,253}\w)(?:[/?#][^\s)>\]\"']*?)?(?=[.,;:!?]*(?:[\s)>\]\"']|$))"
)
_MAX_URL_CHARACTERS: Final = 80
_INLINE: Final = re.compile(r"(?<!`)```.*?(?:```|\Z)", re.S)
_TABLE: Final = re.compile(r"^[ \t]*\|.*\|[ \t]*$\n?", re.M)
_LINE_MARK: Final = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+•‣–][ \t]+|[0-9]{1,3}[.)][ \t]+|\|[ \t]?)", re.M)
_EMPHASIS: Final = re.compile(r"(?<![^\W_])(?:\*{1,3}|~~|`)(?=\S)|(?<=\S)(?:\*{1,3}|~~|`)(?![^\W_])")
_RULE: Final = re.compile(r"^[-=_*|:+ \t]{3,}+$", re.M)
# Transcripts write "that 's" and "No , I haven ' t .".
_SPACED_APOSTROPHE: Final = re.compile(r"(?<=[^\W\d_]) ?(['’]) ?(s|t|m|d|ve|re|ll)\b(?!['’])", re.I)
_SPACE_BEFORE_SIGN: Final = re.compile(r"(?<! ) ++(?=[,;:!?%](?:\s|$)|\.(?:\s|$)|n't\b)")
# Filler sounds and repeated words, in English only: "um" is a word elsewhere. "had had" and "no, no" mean something.
_FILLER: Final = re.compile(
    r"(?<![\w'-])(?:(?:um+|uh+|uhm+|erm+|hmm+|mm+)(?![\w'-])[,.]?\s*"
    r"|(i|you|he|she|it|we|they|the|a|an|to|of|in|on|for|with|and|or|but|so|if|is|are|was|my|your|this|i'm|it's)\s(?=\1\s))",
    re.I,
)
_ENGLISH: Final = re.compile(r"\b(?:the|and|you|it|of|this|that|have|it's|i'm|yeah)\b", re.I)

_ABBREVIATIONS: Final = (
    r"(?<!\bMr)(?<!\bMs)(?<!\bDr)(?<!\bSt)(?<!\bMrs)(?<!\bProf)(?<!\bvs)(?<!\be\.g)(?<!\bi\.e)(?<!\bapprox)(?<!\bNo)"
)
_SENTENCE_END: Final = re.compile(
    r"(?<![.!?…؟۔।])(?:(?<!\b[A-Z])" + _ABBREVIATIONS + r"\.(?!\s[0-9])(?!\w)|[.!?…؟۔।](?<!\.)|\.{2,}+)"
    r"[.!?…؟۔।]*+[\"'”’»)\]]*+(?=\s|$)|[。！？｡]++[」』”’）】]*+|\n+"
)
_POSSIBLE_END: Final = re.compile(r"[.!?…؟۔।。！？｡\n]")  # a quick first search for _SENTENCE_END
_PAUSE: Final = re.compile(r"(?<=[,;:—–])\s|(?<=[、，；：،؛])|\s[–—-]\s")
_SPACE: Final = re.compile(r"\s+")
# Words that reverse or narrow the words before them. A sentence must not be cut in front of them.
_RESTRICTION: Final = re.compile(
    r"\W*(?:but|though|although|unless|except|however|if|until|without|not|no|never|or|only|yet|because|when|while|than"
    r"|لكن|إلا|الا|بدون|إذا|但|但是|可是|除非|如果|aber|sondern|außer|wenn|mais|sauf|si|pero|salvo)\b",
    re.I,
)
_MIN_KEPT_SHARE: Final = 0.5  # a cut at a pause must keep at least this share of what fits
_QUESTION_END_CHARACTERS: Final = 8  # enough to see the question mark
ELLIPSIS: Final = " …"


def split(text: str) -> list[str]:
    """Return the sentences of a message, cleaned, without empty ones. The middle of a very long message is not read."""
    if len(text) > MAX_HEAD_CHARACTERS + MAX_TAIL_CHARACTERS:
        text = f"{text[:MAX_HEAD_CHARACTERS]}\n{text[-MAX_TAIL_CHARACTERS:]}"
    return [piece for sentence in _split_at_ends(_strip_markup(text)) for piece in _split_long(sentence)]


def tidy(text: str) -> str:
    """Return the text on one line, with the spaces that people would write and without filler sounds."""
    text = _SPACE.sub(" ", text).strip()
    if "'" in text or "’" in text:
        text = _SPACED_APOSTROPHE.sub(lambda match: match[1] + match[2].lower(), text)
    text = _SPACE_BEFORE_SIGN.sub("", text)
    return _FILLER.sub("", text).strip() if _FILLER.search(text) and _ENGLISH.search(text) else text


def shorten(text: str, fits: Callable[[str], bool]) -> str:
    """Return the text if it fits, else as much of its start as fits with an ellipsis, or "" if nothing does."""
    if fits(text):
        return text
    borders = [space.start() for space in _SPACE.finditer(text)] or list(range(1, len(text)))
    low, high = 0, len(borders)
    while low < high:
        middle = (low + high) // 2
        if fits(_strip_end(text[: borders[middle]]) + ELLIPSIS):
            low = middle + 1
        else:
            high = middle
    while low and not fits(_strip_end(text[: borders[low - 1]]) + ELLIPSIS):
        low -= 1
    if not low:
        return _shorten_word(text[: borders[0]] if borders else text, fits)
    kept = text[: _last_pause(text, borders[low - 1])]
    opened = kept.rfind(" (")
    return _strip_end(kept if opened < kept.rfind(")") + 1 else kept[:opened]) + ELLIPSIS


def _shorten_word(word: str, fits: Callable[[str], bool]) -> str:
    size = len(word)
    while size and not fits(word[:size] + ELLIPSIS):
        size //= 2
    return word[:size] + ELLIPSIS if size else ""


def _last_pause(text: str, end: int) -> int:
    """Return the last pause before `end` that no restricting word follows, else `end`."""
    for pause in reversed(list(_PAUSE.finditer(text, int(end * _MIN_KEPT_SHARE), end))):
        if not _RESTRICTION.match(text, pause.end()):
            return pause.start()
    return end


def _strip_end(text: str) -> str:
    return text.rstrip(" ,;:—–-、，；：،؛")


def _strip_markup(text: str) -> str:
    if "```" in text or "~~~" in text:
        text = _FENCE.sub(lambda fence: f"[{fence[2]} code]" if fence[2] else "[code]", text)
        text = _LEAD_IN.sub(": [", _INLINE.sub("[code]", text))
    text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text)) if "](" in text else text
    text = _URL.sub(_shorten_url, text) if "://" in text else text
    text = _TABLE.sub("", text) if "|" in text else text
    return _EMPHASIS.sub("", _LINE_MARK.sub("", _RULE.sub("", text)))


def _shorten_url(url: re.Match[str]) -> str:
    """Return a URL whole, or only its host if it is very long."""
    return url[0] if len(url[0]) <= _MAX_URL_CHARACTERS else f"{url[1]}/…"


def _split_at_ends(text: str) -> Iterator[str]:
    start = 0
    for candidate in _POSSIBLE_END.finditer(text):
        if candidate.start() >= start and (end := _SENTENCE_END.match(text, candidate.start())):
            yield text[start : end.end()]
            start = end.end()
    yield text[start:]


def _split_long(text: str) -> Iterator[str]:
    """Yield the sentence, tidied, or its parts if it is too long."""
    text = tidy(text)
    while len(text) > MAX_SENTENCE_CHARACTERS:
        end = _last_pause(text, MAX_SENTENCE_CHARACTERS)
        if end == MAX_SENTENCE_CHARACTERS:
            space = text.rfind(" ", MAX_SENTENCE_CHARACTERS // 2, MAX_SENTENCE_CHARACTERS)
            end = max(space, 0) or MAX_SENTENCE_CHARACTERS
        yield text[:end].strip()
        text = text[end:].strip()
    if text:
        yield text


# Kinds of sentences. The cues are words of English, Arabic and a few other languages; others have no cues.

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
    """Return whether a sentence ends with a question mark."""
    return _QUESTION.search(text[-_QUESTION_END_CHARACTERS:]) is not None


def is_personal(text: str) -> bool:
    """Return whether a sentence speaks of its author."""
    return _PERSONAL.search(text) is not None


def is_intent(text: str) -> bool:
    """Return whether a sentence has a wish, a plan, a decision, a preference or a reason."""
    return _INTENT.search(text) is not None


def is_small_talk(text: str) -> bool:
    """Return whether a sentence has a greeting, thanks, praise or another formula, or only announces what follows."""
    return _SMALL_TALK.search(text) is not None


_MAX_ACKNOWLEDGEMENT_CHARACTERS: Final = 40
_ACKNOWLEDGEMENT: Final = re.compile(
    r"\W*(?:noted|ok(?:ay)?|got it|sure(?: thing)?|understood|done|alright|all right|of course|will do|certainly|right"
    r"|yes|no|yeah|yep|great|perfect|thanks?|thank you|you're welcome"
    r"|حسنا|تمام|طيب|نعم|شكرا|好的?|はい)\W*",
    re.I,
)


def is_acknowledgement(text: str) -> bool:
    """Return whether a text only acknowledges: "ok", "got it"."""
    return len(text) <= _MAX_ACKNOWLEDGEMENT_CHARACTERS and _ACKNOWLEDGEMENT.fullmatch(text) is not None


def count_facts(text: str) -> int:
    """Return the number of figures and names in a sentence."""
    return len(_FACT.findall(text))


# English verbs and clauses, as far as reported speech needs them.


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


VERBS: Final = _word_set(
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
        _word_set(
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
PAST_FORMS: Final = frozenset({*_PAST_OF.values(), "dreamt", "learnt", "used"}) - {"did", "had"}
IRREGULAR_THIRD_PERSON: Final = {"have": "has", "do": "does", "go": "goes", "am": "is", "are": "is", "were": "was"} | {
    "haven't": "hasn't", "don't": "doesn't", "aren't": "isn't", "weren't": "wasn't", "ain't": "isn't",
}  # fmt: skip
AUXILIARIES: Final = _word_set(
    "do does am are is was were can could will would should must may might shall have has had did"
)
QUESTION_WORDS: Final = _word_set("what which where when why how who whose whom")
_SUBJECTS: Final = _word_set("i you we he she it they there this that these those")
_ARTICLES: Final = _word_set("the your my his her their this that")
_DOUBLED: Final = _word_set("stop plan prefer")


def question_to_clause(words: list[str]) -> tuple[list[str], list[str]]:
    """Return a question as a conjunction and a clause: ["if"], ["I", "can", "watch", "TV"].

    Return two empty lists, or an empty clause, for a question of another form.
    """
    words = [part for word in words for part in _split_contraction(word)]
    lower = [word.lower() for word in words]
    has_question_word = bool(lower) and lower[0] in QUESTION_WORDS
    helper_at = next((index for index, word in enumerate(lower[:5]) if word in AUXILIARIES), None)
    if helper_at is None or (helper_at > 0) != has_question_word or helper_at + 2 > len(words):
        return [], []
    if "," in words[: helper_at + 2]:
        return [], []
    lead = [lower[0], *words[1:helper_at]] if has_question_word else ["if"]
    helper, subject, rest = lower[helper_at], words[helper_at + 1], words[helper_at + 2 :]
    if subject.lower() not in _SUBJECTS:
        return lead, _clause_of_thing(lead, helper, words[helper_at + 1 :])
    if helper not in ("do", "does", "did"):
        return lead, [subject, helper, *rest] if rest else []
    if not rest or rest[0] not in VERBS:
        return [], []
    verb = rest[0] if helper == "do" else inflect_third_person(rest[0]) if helper == "does" else inflect_past(rest[0])
    return lead, [subject, verb, *rest[1:]]


def _split_contraction(word: str) -> list[str]:
    return [word[:-2], "is"] if word.lower() in ("what's", "where's", "who's", "when's") else [word]


def _clause_of_thing(lead: list[str], helper: str, thing: list[str]) -> list[str]:
    """Return "the remote is" for "Where is the remote?", or [] for another form."""
    if helper not in ("is", "are", "was", "were") or lead[0] not in ("what", "where", "who", "when", "which"):
        return []
    if thing[0].lower() not in _ARTICLES or not 2 <= len(thing) <= 6 or "like" in thing:
        return []
    return [] if any(word.endswith(("ing", "ed")) for word in thing[2:]) else [*thing, helper]


def inflect_past(verb: str) -> str:
    """Return the past tense of an English verb."""
    if verb in _PAST_OF:
        return _PAST_OF[verb]
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else verb[-1] + "ed" if verb in _DOUBLED else "ed")


def inflect_third_person(verb: str) -> str:
    """Return the form of an English verb or auxiliary that follows "he" or "she"."""
    if verb in IRREGULAR_THIRD_PERSON:
        return IRREGULAR_THIRD_PERSON[verb]
    if verb.endswith(("s", "sh", "ch", "x", "z")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else verb + "s"
