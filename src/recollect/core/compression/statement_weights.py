"""The parameters by which the built-in summariser weighs statements. Only tuning changes them."""

from __future__ import annotations

from typing import Final, NamedTuple


class StatementWeights(NamedTuple):
    """Parameters of a statement's weight. A bonus b multiplies by 1 + b; a factor multiplies as it is.

    A line is a message with its sentences. A unit is a sentence, or a question with its answer, that may be told.
    They are tuned on DialogSum's dev set and the public halves of QMSum and LoCoMo; see bench/summaries.py.
    """

    # The weight of a word, by the number of lines that have it.
    frequency_exponent: float = 1.1
    frequency_decay: float = 0.13  # lowers that exponent in long dialogues
    rarity_exponent: float = 0.3
    common_share: float = 0.125  # of the lines; a word of more lines is too common to say anything
    common_exponent: float = 3.2  # how sharply the weight falls beyond that share
    # The weight of a unit, from its words.
    mean_exponent: float = 0.66  # 1: the mean of its words counts, 0: their sum
    short_words: float = 7.3  # a unit of fewer content words counts clearly less
    depth_sentences: float = 4.5  # at this index in its message, a sentence counts half
    # Its position: the beginning of a conversation says what it is about, the end what came out of it.
    opening_bonus: float = 1.9
    fade_lines: float = 1.4  # lines after which the bonus of an opening or ending has fallen to a third
    fade_growth: float = 0.8  # how much these lines become more in long dialogues
    ending_bonus: float = 0.12
    # Its content.
    fact_bonus: float = 0.2  # for each number or name, up to three
    personal_bonus: float = 0.36  # what people say of themselves
    intent_bonus: float = 0.8  # wishes, plans, decisions, reasons
    question_factor: float = 1.25  # with or without its answer
    small_talk_factor: float = 0.6
    assistant_factor: float = 0.45  # an assistant without a name: its answers are long and can be asked for again
    # Its size, when it competes for the length.
    size_exponent: float = 0.55  # how sharply the value falls with the share of the length that the unit takes
    size_allowance: float = 0.18  # added to that share, so that sizes of small units hardly differ
    min_value_share: float = 0.21  # of the best value; less is left out once the minimum length is reached


WEIGHTS: Final = StatementWeights()
