"""Writes a sentence with its speaker and its day: "Sara needs a doctor", or quoted, "Sara: …", where that is unsafe.

"I" and "you" become names in English only, by rules that know the verbs they inflect. If a rule does not know a form,
the sentence is quoted as it was said. The rules add no words but ADDED_WORDS.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime
from typing import Final

from recollect.core.dates import day_notes
from recollect.core.language import speech
from recollect.core.language.sentences import (
    AUXILIARIES,
    IRREGULAR_THIRD_PERSON,
    PAST_FORMS,
    QUESTION_WORDS,
    VERBS,
    inflect_third_person,
    question_to_clause,
    tidy,
)
from recollect.core.language.utterances import Language
from recollect.core.message import Message
from recollect.core.times import ARABIC_MONTH_NAMES, MONTH_NAMES, SHORT_MONTH_NAMES, load_zone

_MONTHS: Final = "|".join((*MONTH_NAMES, *SHORT_MONTH_NAMES, *ARABIC_MONTH_NAMES))
_DAY_LABEL: Final = re.compile(rf"\[[0-9]{{1,2}} (?:{_MONTHS})(?: [0-9]{{4}})?\] ")


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


ADDED_WORDS: Final = _word_set(
    "the user assistant says asks tells to if not is are was were has have does doesn't isn't hasn't wasn't will would "
    "had they them their theirs themselves they're they've they'll they'd suggests s code المستخدم المساعد"
)
_ARABIC_LABELS: Final = {"the user": "المستخدم", "the assistant": "المساعد"}
_ARABIC_LETTER: Final = re.compile("[\u0621-\u064a]")
_TOKEN: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|\s+|.", re.S)
_MODALS: Final = _word_set(
    "can could will would should must may might shall can't cannot couldn't won't wouldn't shouldn't mustn't didn't "
    "did had hadn't gotta"
)
_IMPERATIVES: Final = _word_set(
    "go take come try bring give tell make keep stop turn remember send wait use write create explain help show fix "
    "find add read open close check call ask put get buy list translate summarize summarise describe suggest "
    "recommend draft compare plan rewrite generate calculate build design look listen follow sit stay leave avoid "
    "forget say pick set choose order pay sign fill press click run remove change move meet watch enjoy imagine "
    "consider"
)
_AFTER_IMPERATIVE: Final = _word_set(  # "change my plan" is an order, "change of plan" is none
    "the a an my your our his her their this that these those it me us them him to for in on at with some all any both "
    "each every more up out off from about into back down away over how what when where if one two three by no not as "
    "another something everything anything sure again only"
)
_ADVERBS: Final = _word_set(
    "also really just always never usually often still already only actually even probably definitely certainly "
    "simply hardly barely truly finally recently currently mostly generally sometimes totally quite both"
)
# Verbs after which "you" is the object of a bare verb: "let you go".
_BEFORE_BARE_VERB: Final = _word_set("let lets let's make makes made help helps see saw hear heard watch have had")
_PLURAL_FORMS: Final = {"am": "are", "was": "were", "wasn't": "weren't"}
_SECOND_PERSON: Final = _word_set("you your yours")
_PERSONAL_PRONOUNS: Final = _SECOND_PERSON | _word_set("i me my")
# Words after which "I" is a numeral: "World War I".
_BEFORE_NUMERAL: Final = _word_set("war part chapter phase type level stage section volume act")
_CONTRACTIONS: Final = {"m": "am", "ve": "have", "ll": "will", "re": "are"}
_WE_TO_THEY: Final = {"we": "they", "us": "them", "our": "their", "ours": "theirs", "ourselves": "themselves"} | {
    f"we'{ending}": f"they'{ending}" for ending in ("re", "ve", "ll", "d")
}
_THEY_FORMS: Final = _word_set("they them their theirs they're they've they'll they'd")
# A sentence with one of these is quoted.
_QUOTE_ALWAYS: Final = _word_set("' \" mine myself yourself yourselves thank thanks sorry")
# Words that show that a "you" before or after them is an object.
_AFTER_OBJECT: Final = _word_set(
    "to for with about on in at from a an the some that this how what when where if and or my by as all it more "
    "back off up out down into any so too very again now tomorrow today tonight soon later here there something "
    "anything"
)
_BEFORE_OBJECT: Final = _word_set(
    "to for with about on from of by give gives gave tell told show send sent help ask asked bring call teach offer "
    "get want meet see like love miss pick take join between behind beside near let make"
)
_LEADING_ADVERBS: Final = _word_set("maybe perhaps today tomorrow yesterday tonight sometimes usually then now lately")
# First words of a sentence that can follow "Sara says".
_CLAIM_STARTERS: Final = _word_set(
    "the it there this that these those he she they his her their its a an it's there's that's he's she's they're "
    "some most all many each every both in on at after before since during for with from by"
)
# Words after which "you" may mean anybody: "when you bake it".
_BEFORE_GENERIC_YOU: Final = _word_set("when if as once before after than whenever where unless until while")
# Earlier words of a sentence which show that its "you" is the listener.
_DIALOGUE_WORDS: Final = _word_set("i i'm i'll i've i'd my me you you're you'll your")
_CONJUNCTIONS: Final = _word_set("and or but")
_FILLER: Final = re.compile(
    r"(?:(?:well|oh|ah|aha|um+|uh+|hm+|mm+|mhm|wow|okay|ok|yeah|yep|yup|yes|so|hey|hi|hello|right|alright|sure|now|gosh"
    r"|you know|i mean|let me see|anyway|of course|in fact|certainly|no problem|excuse me|actually|great|cool|really"
    r"|please|نعم|طيب|حسنا|嗯|好的|哦)\b(?:\s*[,!…،，.]+\s*|\s+-+\s+)"
    r"|(?:and|but|because|cause|so(?! (?:do|does|am|is|are|can|will|have|did|was|would|could|far|much|many|long|that)"
    r"\b))\b,?\s+)+(?=\w)",
    re.I,
)


class DayLabels:
    """Labels of local days. They are empty if all times fall on one day.

    A label is put in front of a statement where the day changes: "[8 May 2023] ", then "[9 May] ".
    """

    def __init__(self, zone: str, times: Iterable[datetime], language: Language = "en") -> None:
        """Take the times of all statements that may be shown together, and the language of the talk."""
        self._months = ARABIC_MONTH_NAMES if language == "ar" else MONTH_NAMES
        self._zone_name, self._zone = zone, load_zone(zone)
        self._has_several_days = len({self.local_date(moment) for moment in times}) > 1

    def local_date(self, moment: datetime) -> date:
        """Return the date of a moment in the zone."""
        return moment.astimezone(self._zone).date()

    def label(self, moment: datetime, before: datetime | None = None) -> str:
        """Return the label of a statement that follows one of the time `before`; "" if the day is the same."""
        day, last_day = self.local_date(moment), None if before is None else self.local_date(before)
        if not self._has_several_days or day == last_day:
            return ""
        year = "" if last_day is not None and last_day.year == day.year else f" {day.year}"
        return f"[{day.day} {self._months[day.month - 1]}{year}] "

    def resolve(self, text: str, at: datetime) -> str:
        """Return a text said at `at` with dates after words like "yesterday"."""
        return day_notes.add_dates(text, at, self._zone_name) if self._has_several_days else text


def strip_day_label(text: str) -> str:
    """Return a statement's text without the label that `DayLabels` put in front of it."""
    return _DAY_LABEL.sub("", text, count=1) if _DAY_LABEL.match(text) else text


def speaker_label(message: Message) -> str:
    """Return the speaker's name, or "the user" and "the assistant" for speakers without a name."""
    name = tidy(speech.speaker_name(message))
    return name if name != message.role else f"the {message.role}"


def strip_fillers(sentence: str) -> str:
    """Return a sentence without the interjections and conjunctions it begins with ("Well, …", "And …")."""
    filler = _FILLER.match(sentence)
    rest = sentence[filler.end() :] if filler else ""
    if " " not in rest:
        return sentence
    return rest[0].upper() + rest[1:] if rest[0].isascii() and not rest[1:2].isupper() else rest


def quote(sentence: str, speaker: str) -> str:
    """Return the sentence as it was said, after the speaker's name and a colon.

    A speaker without a name is called by a word of the sentence's language, if that is Arabic.
    """
    is_arabic = _ARABIC_LETTER.search(sentence) is not None
    label = _ARABIC_LABELS.get(speaker, speaker) if is_arabic else _capitalise_article(speaker)
    return f"{label}: {sentence}"


def to_third_person(sentence: str, speaker: str, listener: str | None, *, asked: bool) -> str:
    """Return the sentence in the third person if that is safe, else quoted.

    `listener` is the person "you" stands for, or None if that is not known. `asked` says that it is a question.
    """
    tokens = _TOKEN.findall(sentence.replace("’", "'"))
    if not sentence.isascii() or _QUOTE_ALWAYS & {token.lower() for token in tokens}:
        return quote(sentence, speaker)
    if asked:
        text = _report_question(tokens, speaker, listener)
    else:
        text = _report_order(tokens, speaker, listener) or _report_claim(tokens, speaker, listener)
    return _capitalise_article(text) if text else quote(sentence, speaker)


def _capitalise_article(text: str) -> str:
    return "T" + text[1:] if text.startswith("the ") else text


def _report_claim(tokens: list[str], speaker: str, listener: str | None) -> str | None:
    """Report a claim: "You should rest." → "Sara says Tom should rest." Return None where no rule is safe."""
    lower = [token.lower() for token in tokens]
    first = lower[0]
    if first == "let's":
        replaced = _replace_pronouns(tokens[2:], speaker, listener)
        return f"{speaker} suggests they {replaced}" if replaced and len(lower) > 2 and lower[2] != "see" else None
    replaced = _replace_pronouns(tokens, speaker, listener)
    if replaced is None or first in QUESTION_WORDS:
        return None
    if first in ("i", "my") or first.startswith("i'") or _has_short_lead(lower):
        return replaced
    if first in _CLAIM_STARTERS or (first in _WE_TO_THEY and tokens[0] != "US"):
        return f"{speaker} says {replaced[:1].lower() + replaced[1:]}"
    return f"{speaker} says {replaced}" if first.partition("'")[0] in _SECOND_PERSON else None


def _has_short_lead(lower: list[str]) -> bool:
    """Return whether only a short adverbial stands before the "I" of the main clause."""
    subject = next((index for index, word in enumerate(lower[:14]) if word.partition("'")[0] == "i"), 0)
    lead = [word for word in lower[:subject] if not word.isspace()]
    if lead[-1:] == [","]:
        return 2 < len(lead) <= 6 and lead.count(",") == 1 and lead[0] not in _BEFORE_GENERIC_YOU
    return len(lead) == 1 and lead[0] in _LEADING_ADVERBS


def _report_order(tokens: list[str], speaker: str, listener: str | None) -> str | None:
    """Report an order: "Take it twice a day" → "Sara tells Tom to take it twice a day". Return None if it is none."""
    words = [token for token in tokens if not token.isspace()]
    polite = words[0].lower() == "please"
    words = words[1:] if polite else words
    negated = bool(words) and words[0].lower() in ("don't", "never")
    rest = words[1:] if negated else words
    if listener is None or len(rest) < 3 or rest[0].lower() not in _IMPERATIVES or rest[1].lower() in AUXILIARIES:
        return None
    if rest[1].lower() not in _AFTER_IMPERATIVE:
        return None
    start = next(index for index, token in enumerate(tokens) if token is rest[0])
    replaced = _replace_pronouns([rest[0].lower(), *tokens[start + 1 :]], speaker, listener)
    return replaced and f"{speaker} {'asks' if polite else 'tells'} {listener} {'not ' if negated else ''}to {replaced}"


def _report_question(tokens: list[str], speaker: str, listener: str | None) -> str | None:
    """Report a question: "When do you go?" → "Sara asks when Tom goes." Return None where no rule is safe."""
    words = [token for token in tokens if not token.isspace()]
    while words and not words[-1][0].isalnum():
        words.pop()
    if any(not word[0].isalnum() and word != "," for word in words):
        return None
    question_words, clause_words = question_to_clause(words)
    clause = _replace_pronouns(_to_tokens(clause_words), speaker, listener) if clause_words else None
    lead = _replace_pronouns(_to_tokens(question_words), speaker, listener)
    if not clause or not lead:
        return None
    addressed = f"{listener} " if listener and listener not in clause else ""
    return f"{speaker} asks {addressed}{lead} {clause}."


def _to_tokens(words: list[str]) -> list[str]:
    return _TOKEN.findall(" ".join(words).replace(" ,", ","))


def _replace_pronouns(tokens: list[str], speaker: str, listener: str | None) -> str | None:
    """Return the sentence with names for "I" and "you" and verbs that agree; None where no rule knows the form."""
    out: list[str] = []
    lower = [token.lower() for token in tokens]
    has_they = bool(_THEY_FORMS & set(lower))
    # No other person occurs, so a "they" after the name can only mean the speaker.
    is_alone = not has_they and not any(
        word in _WE_TO_THEY or word.partition("'")[0] in _SECOND_PERSON for word in lower
    )
    is_named = False
    verb_forms: dict[int, str] = {}  # by token index, of verbs that agree with a name
    for index, word in enumerate(lower):
        pronoun, _, contraction = word.partition("'")
        name = speaker if pronoun in ("i", "me", "my") else listener
        if (
            index in verb_forms
            or (pronoun not in _PERSONAL_PRONOUNS and word not in _WE_TO_THEY)
            or tokens[index] == "US"
        ):
            out.append(verb_forms.get(index, tokens[index]))
            continue
        use_they, is_named = is_named and is_alone, is_named or name == speaker
        if word in _WE_TO_THEY and not has_they:
            out.append(_WE_TO_THEY[word])
        elif name is None or word in _WE_TO_THEY:
            return None
        elif word in ("my", "your", "yours"):
            out.append("their" if use_they else f"{name}'s")
        elif word == "me" or (word == "you" and _is_object(lower, index)):
            out.append("them" if use_they else name)
        elif agreement := _agree_verb(lower, index, contraction, plural=use_they):
            out.append(("they" if use_they else name) + agreement[0])
            verb_forms.update(agreement[1])
        else:
            return None
    return "".join(out)


def _find_neighbour(lower: list[str], index: int, step: int) -> int:
    """Return the index of the next word, past spaces and (forwards) adverbs; -1 before punctuation or at the end."""
    index += step
    while 0 <= index < len(lower) and (lower[index].isspace() or (step > 0 and lower[index] in _ADVERBS)):
        index += step
    return index if 0 <= index < len(lower) and lower[index][0].isalnum() else -1


def _is_object(lower: list[str], index: int) -> bool:
    """Return whether the "you" at this index is an object.

    Unclear cases count as subjects. `_agree_verb` then finds no verb for them, and the sentence is quoted.
    """
    after, before = _find_neighbour(lower, index, 1), _find_neighbour(lower, index, -1)
    if before >= 0 and (lower[before].endswith("n't") or lower[before] in AUXILIARIES):
        return False
    if after < 0 or (before >= 0 and lower[before] in _BEFORE_BARE_VERB and lower[after] in VERBS):
        return True
    if _is_verb(lower[after]) or lower[after].endswith("ed"):
        return False
    return lower[after] in _AFTER_OBJECT or (before >= 0 and lower[before] in _BEFORE_OBJECT)


def _is_verb(word: str) -> bool:
    return (
        word in _MODALS
        or word in PAST_FORMS
        or word in VERBS
        or word in IRREGULAR_THIRD_PERSON
        or word in _PLURAL_FORMS
    )


def _agree_verb(lower: list[str], index: int, contraction: str, *, plural: bool) -> tuple[str, dict[int, str]] | None:
    """Return the verb of the subject pronoun at `index` in the third person; None where no rule knows it.

    The first part replaces a contraction ("'m" → " is"). The second maps token indexes to new verb forms.
    """
    before, after = _find_neighbour(lower, index, -1), _find_neighbour(lower, index, 1)
    link = lower[before] if before >= 0 else ""
    if link in AUXILIARIES or link.endswith("n't"):
        return None
    if link in _BEFORE_GENERIC_YOU and not _DIALOGUE_WORDS & set(lower[:before]):
        return None
    if index > 2 and lower[index] == "i" and link in _BEFORE_NUMERAL:
        return None
    if contraction == "d":
        return (" would", {}) if after >= 0 and lower[after] in VERBS | {"be", "rather"} else None
    if contraction:
        verb = _CONTRACTIONS.get(contraction, "")
        form = _PLURAL_FORMS.get(verb, verb) if plural else IRREGULAR_THIRD_PERSON.get(verb, verb)
        return None if not verb or (not plural and _has_second_verb(lower, index)) else (f" {form}", {})
    verb = lower[after] if after >= 0 else ""
    if lower[index] == "i" and (verb in ("are", "were", "aren't", "weren't") or _is_joined(lower, before)):
        return None
    if plural:
        return ("", {after: _PLURAL_FORMS.get(verb, verb)}) if _is_verb(verb) or verb.endswith("ed") else None
    if verb in ("was", "wasn't") or verb in _MODALS or verb in PAST_FORMS:
        return "", {}
    if verb in IRREGULAR_THIRD_PERSON or verb in VERBS:
        return None if _has_second_verb(lower, after) else ("", {after: inflect_third_person(verb)})
    return ("", {}) if verb.endswith("ed") and len(verb) > 4 else None


def _is_joined(lower: list[str], before: int) -> bool:
    """Return whether the "I" shares its verb with another subject: "My friends and I"."""
    if before < 1 or lower[before] not in ("and", "or"):
        return False
    return _find_neighbour(lower, before, -1) >= 0 and not any(
        word.startswith("i'") or word == "i" for word in lower[:before]
    )


def _has_second_verb(lower: list[str], verb_index: int) -> bool:
    """Return whether a second verb has the same subject: "I work and eat"."""
    for index in range(verb_index + 1, len(lower) - 2):
        if lower[index] in _CONJUNCTIONS and lower[index + 2] in VERBS:
            return "to" not in lower[verb_index:index]
        if not (lower[index].isspace() or lower[index][0].isalnum()):
            return False
    return False
