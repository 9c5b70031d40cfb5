"""Tells who said what and when: "Sara needs a doctor", and where that is not safe, her own words: "Sara: …".

Turning "I" and "you" into names is done for English only, by rules that know the verbs they inflect. Whatever a rule
does not know makes it step back, and the words stay as they were said. The words it may add are those of ADDED.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime
from typing import Final

from recollect.core.dates import day_notes
from recollect.core.language import speech
from recollect.core.language.sentences import ASKING, AUXILIARIES, IRREGULAR, PAST, VERBS, clause, third, tidy
from recollect.core.models import Message
from recollect.core.times import MONTH_NAMES, MONTHS, load_zone

_LABEL: Final = re.compile(rf"\[[0-9]{{1,2}} (?:{'|'.join((*MONTH_NAMES, *MONTHS))})(?: [0-9]{{4}})?\] ")


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


ADDED: Final = _set(
    "the user assistant says asks tells to if not is are was were has have does doesn't isn't hasn't wasn't will would "
    "had they them their theirs themselves they're they've they'll they'd suggests s code"
)
_TOKEN: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|\s+|.", re.S)
_MODALS: Final = _set(
    "can could will would should must may might shall can't cannot couldn't won't wouldn't shouldn't mustn't didn't "
    "did had hadn't gotta"
)
_ORDERS: Final = _set(
    "go take come try bring give tell make keep stop turn remember send wait use write create explain help show fix "
    "find add read open close check call ask put get buy list translate summarize summarise describe suggest "
    "recommend draft compare plan rewrite generate calculate build design look listen follow sit stay leave avoid "
    "forget say pick set choose order pay sign fill press click run remove change move meet watch enjoy imagine "
    "consider"
)
_ORDERED: Final = _set(  # what may follow an order: "change my plan", not "change of plan"
    "the a an my your our his her their this that these those it me us them him to for in on at with some all any both "
    "each every more up out off from about into back down away over how what when where if one two three by no not as "
    "another something everything anything sure again only"
)
_SMALL: Final = _set(
    "also really just always never usually often still already only actually even probably definitely certainly "
    "simply hardly barely truly finally recently currently mostly generally sometimes totally quite both"
)
_CAUSING: Final = _set("let lets let's make makes made help helps see saw hear heard watch have had")
_PLURAL: Final = {"am": "are", "was": "were", "wasn't": "weren't"}
_YOURS: Final = _set("you your yours")
_PERSONS: Final = _YOURS | _set("i me my")
_NUMBERED: Final = _set("war part chapter phase type level stage section volume act")  # "World War I"
_CONTRACTED: Final = {"m": "am", "ve": "have", "ll": "will", "re": "are"}
_GROUP: Final = {"we": "they", "us": "them", "our": "their", "ours": "theirs", "ourselves": "themselves"} | {
    f"we'{ending}": f"they'{ending}" for ending in ("re", "ve", "ll", "d")
}
_OTHERS: Final = _set("they them their theirs they're they've they'll they'd")
_QUOTED: Final = _set("' \" mine myself yourself yourselves thank thanks sorry")
_AFTER_OBJECT: Final = _set(
    "to for with about on in at from a an the some that this how what when where if and or my by as all it more "
    "back off up out down into any so too very again now tomorrow today tonight soon later here there something "
    "anything"
)
_BEFORE_OBJECT: Final = _set(
    "to for with about on from of by give gives gave tell told show send sent help ask asked bring call teach offer "
    "get want meet see like love miss pick take join between behind beside near let make"
)
_AHEAD: Final = _set("maybe perhaps today tomorrow yesterday tonight sometimes usually then now lately")
_STARTERS: Final = _set(
    "the it there this that these those he she they his her their its a an it's there's that's he's she's they're "
    "some most all many each every both in on at after before since during for with from by"
)
_GENERAL: Final = _set("when if as once before after than whenever where unless until while")
_ADDRESSED: Final = _set("i i'm i'll i've i'd my me you you're you'll your")
_JOINING: Final = _set("and or but")
_FILLER: Final = re.compile(
    r"(?:(?:well|oh|ah|aha|um+|uh+|hm+|mm+|mhm|wow|okay|ok|yeah|yep|yup|yes|so|hey|hi|hello|right|alright|sure|now|gosh"
    r"|you know|i mean|let me see|anyway|of course|in fact|certainly|no problem|excuse me|actually|great|cool|really"
    r"|please|نعم|طيب|حسنا|嗯|好的|哦)\b(?:\s*[,!…،，.]+\s*|\s+-+\s+)"
    r"|(?:and|but|because|cause|so(?! (?:do|does|am|is|are|can|will|have|did|was|would|could)\b))\b,?\s+)+(?=\w)",
    re.I,
)


class Days:
    """Local days, told if there is more than one: where they change ("[8 May 2023] ", "[9 May] "), and which is meant
    by "yesterday"."""

    def __init__(self, zone: str, times: Iterable[datetime]) -> None:
        self._name, self._zone = zone, load_zone(zone)
        self._told = len({self.of(moment) for moment in times}) > 1

    def of(self, moment: datetime) -> date:
        return moment.astimezone(self._zone).date()

    def label(self, moment: datetime, before: datetime | None = None) -> str:
        """What stands in front of a statement that follows one of another time."""
        day, last = self.of(moment), None if before is None else self.of(before)
        if not self._told or day == last:
            return ""
        year = "" if last is not None and last.year == day.year else f" {day.year}"
        return f"[{day.day} {MONTH_NAMES[day.month - 1]}{year}] "

    def meant(self, text: str, at: datetime) -> str:
        return day_notes.dated(text, at, self._name) if self._told else text


def undated(text: str) -> str:
    return _LABEL.sub("", text, count=1) if _LABEL.match(text) else text


def speaker(message: Message) -> str:
    """The name, or who it is by the role."""
    name = tidy(speech.speaker(message))
    return name if name != message.role else f"the {message.role}"


def trimmed(sentence: str) -> str:
    """Without the sounds and link words it begins with."""
    filler = _FILLER.match(sentence)
    rest = sentence[filler.end() :] if filler else ""
    if " " not in rest:
        return sentence
    return rest[0].upper() + rest[1:] if rest[0].isascii() and not rest[1:2].isupper() else rest


def quoted(sentence: str, who: str) -> str:
    return f"{_initial(who)}: {sentence}"


def told(sentence: str, who: str, whom: str | None, *, asked: bool) -> str:
    """One sentence in the third person if that is safe, else in the speaker's own words."""
    tokens = _TOKEN.findall(sentence.replace("’", "'"))
    if not sentence.isascii() or _QUOTED & {token.lower() for token in tokens}:
        return quoted(sentence, who)
    text = _question(tokens, who, whom) if asked else _order(tokens, who, whom) or _claim(tokens, who, whom)
    return _initial(text) if text else quoted(sentence, who)


def _initial(text: str) -> str:
    return "T" + text[1:] if text.startswith("the ") else text


def _claim(tokens: list[str], who: str, whom: str | None) -> str | None:
    lower = [token.lower() for token in tokens]
    first = lower[0]
    if first == "let's":
        turned = _turn(tokens[2:], who, whom)
        return f"{who} suggests they {turned}" if turned and len(lower) > 2 and lower[2] != "see" else None
    turned = _turn(tokens, who, whom)
    if turned is None or first in ASKING:
        return None
    if first in ("i", "my") or first.startswith("i'") or _is_ahead(lower):
        return turned
    if first in _STARTERS or (first in _GROUP and tokens[0] != "US"):
        return f"{who} says {turned[:1].lower() + turned[1:]}"
    return f"{who} says {turned}" if first.partition("'")[0] in _YOURS else None


def _is_ahead(lower: list[str]) -> bool:
    """Whether only a short adverbial stands before the "I" of the main clause."""
    subject = next((at for at, word in enumerate(lower[:14]) if word.partition("'")[0] == "i"), 0)
    ahead = [word for word in lower[:subject] if not word.isspace()]
    if ahead[-1:] == [","]:
        return 2 < len(ahead) <= 6 and ahead.count(",") == 1 and ahead[0] not in _GENERAL
    return len(ahead) == 1 and ahead[0] in _AHEAD


def _order(tokens: list[str], who: str, whom: str | None) -> str | None:
    """ "Take it twice a day" → "Sara tells Tom to take it twice a day"."""
    words = [token for token in tokens if not token.isspace()]
    polite = words[0].lower() == "please"
    words = words[1:] if polite else words
    negated = bool(words) and words[0].lower() in ("don't", "never")
    rest = words[1:] if negated else words
    if whom is None or len(rest) < 3 or rest[0].lower() not in _ORDERS or rest[1].lower() in AUXILIARIES:
        return None
    if rest[1].lower() not in _ORDERED:
        return None
    start = next(at for at, token in enumerate(tokens) if token is rest[0])
    turned = _turn([rest[0].lower(), *tokens[start + 1 :]], who, whom)
    return turned and f"{who} {'asks' if polite else 'tells'} {whom} {'not ' if negated else ''}to {turned}"


def _question(tokens: list[str], who: str, whom: str | None) -> str | None:
    """ "What time do you want to go?" → "Sara asks what time Tom wants to go."."""
    words = [token for token in tokens if not token.isspace()]
    while words and not words[-1][0].isalnum():
        words.pop()
    if any(not word[0].isalnum() and word != "," for word in words):
        return None
    lead, rest = clause(words)
    turned = _turn(_spaced(rest), who, whom) if rest else None
    asked = _turn(_spaced(lead), who, whom)
    if not turned or not asked:
        return None
    named = f"{whom} " if whom and whom not in turned else ""
    return f"{who} asks {named}{asked} {turned}."


def _spaced(words: list[str]) -> list[str]:
    return _TOKEN.findall(" ".join(words).replace(" ,", ","))


def _turn(tokens: list[str], who: str, whom: str | None) -> str | None:
    """The sentence with names for "I" and "you", or nothing where a rule does not know what to do."""
    out: list[str] = []
    lower = [token.lower() for token in tokens]
    others = bool(_OTHERS & set(lower))
    alone = not others and not any(word in _GROUP or word.partition("'")[0] in _YOURS for word in lower)
    named = False  # then "they" is nobody else
    forms: dict[int, str] = {}  # of verbs that agree with a name
    for at, word in enumerate(lower):
        person, _, short = word.partition("'")
        name = who if person in ("i", "me", "my") else whom
        if at in forms or (person not in _PERSONS and word not in _GROUP) or tokens[at] == "US":
            out.append(forms.get(at, tokens[at]))
            continue
        again, named = named and alone, named or name == who
        if word in _GROUP and not others:
            out.append(_GROUP[word])
        elif name is None or word in _GROUP:
            return None
        elif word in ("my", "your", "yours"):
            out.append("their" if again else f"{name}'s")
        elif word == "me" or (word == "you" and _is_object(lower, at)):
            out.append("them" if again else name)
        elif found := _verb(lower, at, short, plural=again):
            out.append(("they" if again else name) + found[0])
            forms.update(found[1])
        else:
            return None
    return "".join(out)


def _near(lower: list[str], at: int, step: int) -> int:
    """Where the next word is, over spaces and small adverbs; -1 if a sign or the end comes first."""
    at += step
    while 0 <= at < len(lower) and (lower[at].isspace() or (step > 0 and lower[at] in _SMALL)):
        at += step
    return at if 0 <= at < len(lower) and lower[at][0].isalnum() else -1


def _is_object(lower: list[str], at: int) -> bool:
    """Whether "you" is no subject; where that is not known, the verb will not be found either."""
    after, before = _near(lower, at, 1), _near(lower, at, -1)
    if before >= 0 and (lower[before].endswith("n't") or lower[before] in AUXILIARIES):
        return False
    if after < 0 or (before >= 0 and lower[before] in _CAUSING and lower[after] in VERBS):
        return True
    if _is_verb(lower[after]) or lower[after].endswith("ed"):
        return False
    return lower[after] in _AFTER_OBJECT or (before >= 0 and lower[before] in _BEFORE_OBJECT)


def _is_verb(word: str) -> bool:
    return word in _MODALS or word in PAST or word in VERBS or word in IRREGULAR or word in _PLURAL


def _verb(lower: list[str], at: int, short: str, *, plural: bool) -> tuple[str, dict[int, str]] | None:
    """What follows the subject at once, and which later word changes its form."""
    before, after = _near(lower, at, -1), _near(lower, at, 1)
    link = lower[before] if before >= 0 else ""
    if link in AUXILIARIES or link.endswith("n't") or (link in _GENERAL and not _ADDRESSED & set(lower[:before])):
        return None
    if at > 2 and lower[at] == "i" and link in _NUMBERED:
        return None
    if short == "d":
        return (" would", {}) if after >= 0 and lower[after] in VERBS | {"be", "rather"} else None
    if short:
        word = _CONTRACTED.get(short, "")
        form = _PLURAL.get(word, word) if plural else IRREGULAR.get(word, word)
        return None if not word or (not plural and _shared(lower, at)) else (f" {form}", {})
    word = lower[after] if after >= 0 else ""
    if lower[at] == "i" and (word in ("are", "were", "aren't", "weren't") or _is_joined(lower, before)):
        return None
    if plural:
        return ("", {after: _PLURAL.get(word, word)}) if _is_verb(word) or word.endswith("ed") else None
    if word in ("was", "wasn't") or word in _MODALS or word in PAST:
        return "", {}
    if word in IRREGULAR or word in VERBS:
        return None if _shared(lower, after) else ("", {after: third(word)})
    return ("", {}) if word.endswith("ed") and len(word) > 4 else None


def _is_joined(lower: list[str], before: int) -> bool:
    """ "My friends and I": the verb belongs to both."""
    if before < 1 or lower[before] not in ("and", "or"):
        return False
    return _near(lower, before, -1) >= 0 and not any(word.startswith("i'") or word == "i" for word in lower[:before])


def _shared(lower: list[str], verb: int) -> bool:
    """Whether a second verb hangs on the same subject: "I work and eat"."""
    for at in range(verb + 1, len(lower) - 2):
        if lower[at] in _JOINING and lower[at + 2] in VERBS:
            return "to" not in lower[verb:at]
        if not (lower[at].isspace() or lower[at][0].isalnum()):
            return False
    return False
