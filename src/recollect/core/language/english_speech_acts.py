"""Rules that read what an English sentence does: tell, ask, greet, thank.

Every pattern is matched at the start of a sentence in lower case.
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

MIN_SUBORDINATE_WORDS: Final = 5  # "when I was ten I broke my arm" tells; "where the keys are" asks

_FILLER: Final = compile_words(
    "so | well | okay | ok | and | but | hmm | um",
    "oh | also | actually | please | pls | anyway | now | alright | right",
    "hey | quick question | sorry | excuse me | by the way | btw",
    before="(?:",
    after=r"[\s,:.!]*+)++",
)
_GREETING: Final = compile_words(
    "hiya | hi | hello | hey | howdy | greetings | yo | good (?:morning|afternoon|evening|day) | welcome back",
    after=r"(?: (?:there|again|all|everyone|everybody|recollect|assistant|friend))?+(?![\w'])",
)
_HOW_ARE_YOU: Final = compile_words(
    "how are you | how's it going | how is it going | what's up | how do you do", after=r"[\w\s]{0,20}+$"
)
_APPROVAL: Final = (
    "(?>okay|ok|great|cool|nice|perfect|awesome|super|good|got it|alright|sounds good|that helps|brilliant)"
)
_THANKS: Final = compile_words(
    "many thanks | thanks | thank you | thx | ty | cheers | much appreciated",
    before=rf"(?:{_APPROVAL}[\s,.!]*+)*+",
    after=r"(?: (?:so|very) much| a lot| again)?+(?:,? (?:for|to) [\w\s']{1,40}+| \w{1,20}+)?+[\s.!]*+$",
)
_ACKNOWLEDGED: Final = compile_words(
    "okay | ok | k | great | cool | nice | perfect",
    "awesome | super | goodbye | good night | good | got it | alright",
    "all right | sounds good | sure | fine | yes | yeah | yep | nope | no | right | understood | will do | bye",
    "see you later | see you | never mind | nevermind | lol | haha",
    before="(?:",
    after=r"[\s,.!]*+)++$",
)
_REMEMBER: Final = compile_words(
    "(?:please |kindly )?(?:remember|note|keep in mind|bear in mind|don't forget|do not forget|make a note|take note)",
    "save this | just so you know | for the record | fyi | for your information | remind me (?:to|that)",
    "let me tell you | i (?:want|need) you to (?:know|remember) | you should know",
)
_WH: Final = "(?:what|who|whom|whose|where|when|which|why|how)"
_ASKING: Final = compile_words(
    rf"(?:do you |can you |could you |did you |you )?(?:remember|know|recall) (?:{_WH}|if|whether|my|our|anything)",
    "(?:can|could|would|will|won't|can't|couldn't) (?:you|u|we|i)",
    "(?:do|did|have|don't|didn't|haven't) (?:you|u|i|we|they|he|she|it|my|our|any|anyone|the)",
    r"(?:isn't|is|aren't|are|am|wasn't|was|weren't|were|doesn't|does|hasn't|has|shouldn't|should|would|could)"
    r" (?!what\b|is\b)\w+",
    "(?:will|may|might|shall|can|must|had) (?:i|you|u|we|he|she|it|they|there|this|that|my|your|our|his|her|their|the)",
    "(?:tell|show|remind|give|send|get|let) me | any (?:idea|clue|chance|news|thoughts)",
    "i(?:'d| would) (?:like|love) to know | i (?:want|need) to know | i(?:'m| am) (?:curious|asking)",
    rf"i(?:'ve| have)? (?:forgotten|forgot|forget|(?:can't|don't|do not|cannot) remember) {_WH}",
    "what about | how about | how come | (?:what|who|where|when|how)'?s | who're | where're",
)
_WH_WORD: Final = compile_words(_WH, before="(?:(?:to|for|from|with|in|on|at|about|of|by|since|until) )?+")
_EXCLAMATION: Final = compile_words(
    "what an? | how (?:nice|lovely|great|sad|awful|cool|wonderful)(?! (?:is|are|was|were))"
)
_SUBORDINATE: Final = compile_words(
    "(?:when|where|how|what|who|why|whenever|wherever) (?:i|you|we|he|she|it|they|my|our|his|her|their|the)"
)
# "When Sami goes home, he reads": a clause, its comma, and no helping verb at its start.
_TIME_CLAUSE: Final = re.compile(
    r"when(?:ever)? (?!(?:am|is|are|was|were|do|does|did|can|could|will|would|should|has|have|had)\b)[^,]{1,100}+, \w"
)
_FINITE: Final = re.compile(
    r"(?:\w{1,20}+')?(?:am|is|are|was|were|has|have|had|will|does|did|isn't|wasn't|s|m|re|ve|ll|d)\W?"
)
_IMPERATIVE: Final = compile_words(
    "plan | write | summari[sz]e | give | translate | help | show | draft | list | create | make | find | suggest",
    "recommend | explain | describe | compare | generate | forget",
    "delete | erase | remove | search | look | calculate",
    "compute | convert | fix | rewrite | rephrase | shorten | check | send | set | add | book | recap | sort | read",
    "continue | tell | answer | propose | prepare | organi[sz]e",
    "schedule | order | call | open | play | draw | design",
    "outline | review | edit | correct | proofread | count",
    "name | define | teach | imagine | pretend | repeat | stop",
    "start | choose | pick | build | code | implement | update | change | print | let's | let us | go on",
)
_ADMISSION: Final = compile_words(
    "i (?:forgot|forget|wonder|was wondering|am wondering|can't remember|don't remember|have a question)",
    "i'm wondering | you know | tell me | just curious | remind me | question | one more thing | sorry",
)
_CERTAIN_TAG: Final = compile_words(
    "right | correct | okay | ok | no | yes | huh | eh",
    "(?:is|are|was|were|do|does|did|can|ca|could|will|wo|would|should|has|have|had|am)(?:n't)? "
    "(?:i|you|he|she|it|we|they|there)",
    after=r"\W*+$",
)
_CONDITION: Final = compile_words("if | when | as | since | after | before | because | for")
_OWN_SUBJECT: Final = compile_words("i | we | my | our | it | he | she | they | no | yes")


def read(sentence: str) -> SpeechAct:
    """Return what an English sentence does."""
    text = sentence.replace("’", "'").casefold().strip(" \t\"'“”*-_")
    has_mark = sentences.is_question(text)
    if _THANKS.match(text):
        return THANKS
    if _ACKNOWLEDGED.match(text):
        return ACKNOWLEDGES
    if greeting := _GREETING.match(text):
        rest = text[greeting.end() :].strip(" ,.!?-–")
        if len(rest.split()) <= 1 or _HOW_ARE_YOU.match(rest):
            return GREETS
        return GREETS | read(rest + "?" * has_mark)
    if _HOW_ARE_YOU.match(text.rstrip(" ?!.")):
        return GREETS
    filler = _FILLER.match(text)
    text = text[filler.end() :] if filler and filler.end() < len(text) else text
    if has_mark:
        return _read_question(text)
    if _REMEMBER.match(text) or _EXCLAMATION.match(text):
        return TELLS
    return ASKS if _is_question(text) or _is_request(text) else _read_rest(text)


def _read_question(text: str) -> SpeechAct:
    """Read a sentence with a question mark. A clause before the question may tell something."""
    first, rest = split_first_clause(text)
    return UNSURE if rest and not _CERTAIN_TAG.match(rest) and _is_statement(first) else ASKS


def _is_statement(clause: str) -> bool:
    is_asking = _ADMISSION.match(clause) or _is_question(clause) or _is_request(clause)
    return len(clause.split()) >= MIN_TOLD_WORDS and not is_asking and not _CONDITION.match(clause)


def _is_question(text: str) -> bool:
    """Return whether a sentence without a question mark asks."""
    if _ASKING.match(text):
        return True
    if _WH_WORD.match(text):
        is_subordinate = _SUBORDINATE.match(text) and len(text.split()) >= MIN_SUBORDINATE_WORDS
        return not is_subordinate and not _TIME_CLAUSE.match(text)
    first, rest = split_first_clause(text)
    if rest and _CERTAIN_TAG.match(rest):
        return True
    return bool(rest and _ADMISSION.match(first) and len(first.split()) <= MIN_TOLD_WORDS and _is_question(rest))


def _is_request(text: str) -> bool:
    """Return whether a sentence begins with an order. "Plan B is to wait" does not: it has a verb of its own."""
    return _IMPERATIVE.match(text) is not None and not any(_FINITE.fullmatch(word) for word in text.split()[1:3])


def _read_rest(text: str) -> SpeechAct:
    words = text.split()
    is_short = len(words) <= MAX_FRAGMENT_WORDS and not _OWN_SUBJECT.match(text)
    has_verb = any(_FINITE.fullmatch(word) for word in words)
    return UNSURE if is_short and not has_verb and not re.search(r"\d", text) else TELLS
