"""Tells who said what: "Sara needs a doctor", and where that is not safe, her own words: "Sara: …".

Turning "I" and "you" into names is done for English only, by rules that know the verbs they inflect. Whatever a rule
does not know makes it step back, and the words stay as they were said. The words added are those of ADDED.
"""

from __future__ import annotations

import re
from typing import Final

ADDED: Final = frozenset(
    "the user assistant says asks tells to if not is are was were has does doesn't isn't hasn't wasn't will would had "
    "they them their theirs themselves they're they've they'll they'd suggests s code".split()
)
NAME_LIMIT: Final = 60  # characters of a speaker's name

_TOKEN: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|\s+|.", re.S)
_MODALS: Final = frozenset(
    "can could will would should must may might shall can't cannot couldn't won't wouldn't shouldn't mustn't didn't did "
    "had hadn't gotta".split()
)
_PAST_OF: Final = dict(
    pair.split(":")
    for pair in (
        "go:went see:saw take:took get:got make:made say:said think:thought know:knew find:found give:gave tell:told "
        "feel:felt leave:left keep:kept begin:began run:ran write:wrote sit:sat stand:stood lose:lost pay:paid meet:met "
        "understand:understood spend:spent grow:grew win:won teach:taught fall:fell buy:bought send:sent build:built "
        "draw:drew break:broke drive:drove ride:rode eat:ate sleep:slept speak:spoke choose:chose catch:caught wear:wore "
        "throw:threw forget:forgot sell:sold hold:held hear:heard bring:brought come:came become:became sing:sang "
        "swim:swam fly:flew hide:hid lead:led mean:meant wake:woke stick:stuck do:did have:had"
    ).split()
)
_PAST: Final = frozenset({*_PAST_OF.values(), "dreamt", "learnt", "used"}) - {"did", "had"}
_DOUBLED: Final = frozenset("stop plan prefer".split())
_BASE: Final = frozenset(
    "need want like love hate know think believe hope wish feel guess mean see hear say tell ask go come get take make "
    "give find keep let try use work live play eat drink sleep buy pay sell spend cost save owe own drive ride fly walk "
    "run travel move stay leave start stop begin finish plan prefer enjoy remember forget understand agree disagree "
    "doubt suppose expect imagine wonder suggest recommend promise appreciate look watch listen talk speak call write "
    "meet visit help learn study teach practice train wear bring send receive order book cook bake clean wash fix build "
    "create design draw paint sing dance swim smoke weigh suffer miss care worry fear trust respect admire consider "
    "choose decide refuse accept apply join belong come hold carry turn open close sit stand wait stay seem sound "
    "appear become change grow show share add check follow manage handle support teach charge offer provide deliver "
    "accept include contain allow require involve intend happen matter depend tend hurt".split()
) - {"hurt", "cost", "let"}  # the same in the past: not known which
_ORDERS: Final = frozenset(
    "go take come try bring give tell make keep stop turn remember send wait use write create explain help show fix find "
    "add read open close check call ask put get buy list translate summarize summarise describe suggest recommend draft "
    "compare plan rewrite generate calculate build design look listen follow sit stay leave avoid forget say pick set "
    "choose order pay sign fill press click run remove change move meet watch enjoy imagine consider".split()
)
_SMALL: Final = frozenset(
    "also really just always never usually often still already only actually even probably definitely certainly "
    "simply hardly barely truly finally recently currently mostly generally sometimes totally quite both".split()
)
_IRREGULAR: Final = {"have": "has", "do": "does", "go": "goes", "am": "is", "are": "is", "were": "was"} | {
    "haven't": "hasn't", "don't": "doesn't", "aren't": "isn't", "weren't": "wasn't", "ain't": "isn't",
}  # fmt: skip
_PLURAL: Final = {"am": "are", "was": "were", "wasn't": "weren't"}
_CONTRACTED: Final = {"m": "am", "ve": "have", "ll": "will", "re": "are"}
_AUXILIARIES: Final = frozenset(
    "do does am are is was were can could will would should must may might shall have has had did".split()
)
_SUBJECTS: Final = frozenset("i you we he she it they there this that these those".split())
_ASKING: Final = frozenset("what which where when why how who whose whom".split())
_CAUSING: Final = frozenset("let lets let's make makes made help helps see saw hear heard watch have had".split())
_GROUP: Final = {"we": "they", "us": "them", "our": "their", "ours": "theirs", "we're": "they're", "we've": "they've"} | {
    "we'll": "they'll", "we'd": "they'd", "ourselves": "themselves",
}  # fmt: skip
_OTHERS: Final = frozenset("they them their theirs they're they've they'll they'd".split())
_QUOTED: Final = frozenset("myself yourself yourselves thank thanks sorry".split())
_AFTER_OBJECT: Final = frozenset(
    "to for with about on in at from a an the some that this how what when where if and or my by as all it more back off "
    "up out down into any so too very again now tomorrow today tonight soon later here there something anything".split()
)
_BEFORE_OBJECT: Final = frozenset(
    "to for with about on from of by give gives gave tell told show send sent help ask asked bring call teach offer get "
    "want meet see like love miss pick take join between behind beside near let make".split()
)
_AHEAD: Final = frozenset("maybe perhaps today tomorrow yesterday tonight sometimes usually then now lately".split())
_ARTICLES: Final = frozenset("the your my his her their this that".split())
_STARTERS: Final = frozenset(
    "the it there this that these those he she they his her their its a an it's there's that's he's she's they're "
    "some most all many each every both in on at after before since during for with from by".split()
)
_GENERAL: Final = frozenset("when if as once before after than whenever where unless until while".split())
_ADDRESSED: Final = frozenset("i i'm i'll i've i'd my me you you're you'll your".split())
_JOINING: Final = frozenset("and or but".split())
_FILLER: Final = re.compile(
    r"(?:(?:well|oh|ah|aha|um+|uh+|er+|hm+|mm+|mhm|wow|okay|ok|yeah|yep|yup|yes|so|hey|hi|hello|right|alright|sure|now|gosh|"
    r"you know|i mean|let me see|anyway|of course|in fact|certainly|no problem|excuse me|actually|great|cool|really|please|نعم|طيب|حسنا|嗯|好的|哦)\b(?:\s*[,!…،，.]+\s*|\s+-+\s+)"
    r"|(?:and|but|so(?! (?:do|does|am|is|are|can|will|have|has|did|was|would|could|should)\b)|um+|uh+|because|cause)\b,?\s+)+(?=\w)",
    re.I,
)


def trimmed(sentence: str) -> str:
    """Without the sounds and link words it begins with."""
    rest = _FILLER.sub("", sentence, count=1) if _FILLER.match(sentence) else sentence
    return rest[:1].upper() + rest[1:] if rest != sentence else sentence


def quoted(sentence: str, who: str) -> str:
    return f"{_initial(who)}: {sentence}"


def told(sentence: str, who: str, whom: str | None, *, asked: bool) -> str:
    """One sentence in the third person if that is safe, else in the speaker's own words."""
    tokens = _TOKEN.findall(sentence.replace("’", "'"))
    if not sentence.isascii() or '"' in sentence or _QUOTED & {token.lower() for token in tokens}:
        return quoted(sentence, who)
    text = _question(tokens, who, whom) if asked else _order(tokens, who, whom) or _claim(tokens, who, whom)
    return _initial(text) if text else quoted(sentence, who)


def _initial(text: str) -> str:
    return text[:1].upper() + text[1:]


def _claim(tokens: list[str], who: str, whom: str | None) -> str | None:
    lower = [token.lower() for token in tokens]
    first = lower[0]
    if first == "let's":
        turned = _turn(tokens[2:], who, whom)
        return f"{who} suggests they {turned}" if turned and len(lower) > 2 and lower[2] != "see" else None
    turned = _turn(tokens, who, whom)
    if turned is None or first in _ASKING:
        return None
    if first in ("i", "my") or first.startswith("i'") or _is_ahead(lower):
        return turned
    if first in _STARTERS or first in _GROUP or first.startswith("you"):
        return f"{who} says {turned if first.startswith('you') else turned[:1].lower() + turned[1:]}"
    return None


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
    if whom is None or len(rest) < 3 or rest[0].lower() not in _ORDERS or rest[1].lower() in _AUXILIARIES:
        return None
    if not (rest[1][0].isalnum() and rest[1].islower()):
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
    lead, clause = _plain(words)
    turned = _turn(_spaced(clause), who, whom) if clause else None
    asked = _turn(_spaced(lead), who, whom)
    if not turned or not asked:
        return None
    named = f"{whom} " if whom and whom not in turned else ""
    return f"{who} asks {named}{asked} {turned}."


def _plain(words: list[str]) -> tuple[list[str], list[str]]:
    """A question in the order of a clause: "if", "I can watch TV"; no words if it has another form."""
    words = [part for word in words for part in _parted(word)]
    lower = [word.lower() for word in words]
    asking = bool(lower) and lower[0] in _ASKING
    place = next((at for at, word in enumerate(lower[:5]) if word in _AUXILIARIES), None)
    if place is None or (place > 0) != asking or place + 2 > len(words) or "," in words[: place + 2]:
        return [], []
    lead = [lower[0], *words[1:place]] if asking else ["if"]
    helper, subject, rest = lower[place], words[place + 1], words[place + 2 :]
    if subject.lower() not in _SUBJECTS:
        return lead, _about(lead, helper, words[place + 1 :])
    if helper not in ("do", "does", "did"):
        return lead, [subject, helper, *rest] if rest else []
    if not rest or rest[0] not in _BASE:
        return [], []
    verb = rest[0] if helper == "do" else _third(rest[0]) if helper == "does" else _past(rest[0])
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


def _past(verb: str) -> str:
    if verb in _PAST_OF:
        return _PAST_OF[verb]
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else verb[-1] + "ed" if verb in _DOUBLED else "ed")


def _spaced(words: list[str]) -> list[str]:
    return _TOKEN.findall(" ".join(words).replace(" ,", ","))


def _third(verb: str) -> str:
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith(("s", "sh", "ch", "x", "z")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else verb + "s"


def _turn(tokens: list[str], who: str, whom: str | None) -> str | None:
    """The sentence with names for "I" and "you", or nothing where a rule does not know what to do."""
    out: list[str] = []
    lower = [token.lower() for token in tokens]
    grouped = bool(_OTHERS & set(lower))
    inflect: tuple[int, str] | None = None  # the verb that agrees with a name, and its new form
    for at, word in enumerate(lower):
        if inflect and inflect[0] == at:
            out.append(inflect[1])
            inflect = None
            continue
        person, _, short = word.partition("'")
        name = who if person in ("i", "me", "my", "mine") else whom if person in ("you", "your", "yours") else None
        if word in _GROUP:
            if grouped:
                return None
            out.append(_GROUP[word])
        elif name is None:
            if person in ("you", "your", "yours"):
                return None
            out.append(tokens[at])
        elif word in ("my", "your", "mine", "yours"):
            out.append(f"{name}'s")
        elif word == "me" or (word == "you" and _is_object(lower, at)):
            out.append(name)
        elif person in ("i", "you"):
            found = _verb(lower, at, short)
            if found is None:
                return None
            added, inflect = found
            out.append(name + added)
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
    if before >= 0 and (lower[before].endswith("n't") or lower[before] in _AUXILIARIES):
        return False
    if after < 0 or (before >= 0 and lower[before] in _CAUSING and lower[after] in _BASE):
        return True
    if _is_verb(lower[after]) or lower[after].endswith("ed"):
        return False
    return lower[after] in _AFTER_OBJECT or (before >= 0 and lower[before] in _BEFORE_OBJECT)


def _is_verb(word: str) -> bool:
    return word in _MODALS or word in _PAST or word in _BASE or word in _IRREGULAR or word in _PLURAL


def _verb(lower: list[str], at: int, short: str) -> tuple[str, tuple[int, str] | None] | None:
    """What follows the name at once, and which later word changes its form."""
    before = _near(lower, at, -1)
    if before >= 0 and (lower[before] in _AUXILIARIES or lower[before].endswith("n't")):
        return None
    if before >= 0 and lower[before] in _GENERAL and not _ADDRESSED & set(lower[:before]):
        return None
    after = _near(lower, at, 1)
    if short:
        if short == "d":
            return (" would", None) if after >= 0 and lower[after] in _BASE | {"be", "rather"} else None
        word = _CONTRACTED.get(short)
        return word and (f" {_IRREGULAR.get(word, word)}", None)  # type: ignore[return-value]
    if after < 0:
        return None
    word = lower[after]
    if lower[at] == "i" and (word in ("are", "were", "aren't", "weren't") or _is_joined(lower, at, before)):
        return None
    if word in ("was", "wasn't") or word in _MODALS or word in _PAST:
        return "", None
    if word in _IRREGULAR:
        return "", (after, _IRREGULAR[word])
    if word in _BASE:
        return None if _shared(lower, after) else ("", (after, _third(word)))
    return ("", None) if word.endswith("ed") and len(word) > 4 else None


def _is_joined(lower: list[str], at: int, before: int) -> bool:
    """ "My friends and I": the verb belongs to both."""
    if before < 1 or lower[before] not in ("and", "or"):
        return False
    return _near(lower, before, -1) >= 0 and not any(word.startswith("i'") or word == "i" for word in lower[:before])


def _shared(lower: list[str], verb: int) -> bool:
    """Whether a second verb hangs on the same subject: "I work and eat"."""
    for at in range(verb + 1, len(lower) - 2):
        if lower[at] in _JOINING and lower[at + 2] in _BASE:
            return "to" not in lower[verb:at]
        if not (lower[at].isspace() or lower[at][0].isalnum()):
            return False
    return False
