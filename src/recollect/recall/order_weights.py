"""The numbers of the learned order and of relevance. Written by `python -m bench.order --write`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Weights of the features of a candidate (see features.py).
WEIGHTS: Final[Mapping[str, float]] = {
    "nearest": 0.03337,
    "first": 0.2039,
    "average": 0.01091,
    "nearest_lead": 0.01526,
    "dense_lead": 0.00915,
    "nearest_solo": 0.37398,
    "first_solo": 0.37398,
    "coverage": 0.21767,
    "sure_coverage": 0.16077,
    "nearest_after": 0.14872,
    "words_before": 0.00836,
    "coverage_around": 0.16641,
    "session_nearest": 0.27856,
    "session_coverage": 0.20334,
    "session_rank": -0.02539,
    "session_gap": 0.08715,
    "speaker": 0.18854,
    "date": 0.19548,
    "brief": 0.00141,
    "brief_asked": 0.04996,
    "brief_surely_asked": 0.06536,
    "long": -0.02177,
    "long_asked": 0.10582,
    "few_words": 0.16961,
    "many_words": -0.00193,
    "passages": -0.0513,
    "asks": -0.00177,
    "first_person": 0.04841,
    "name": 0.01858,
    "time": 0.01892,
    "number": 0.02127,
    "when_date": 0.04638,
    "when_time": 0.07241,
    "how_many_number": 0.08784,
    "where_name": 0.10022,
    "who_name": 0.06695,
    "advice_preference": 0.05157,
    "instruction": 0.10641,
    "near_instruction": 0.17072,
    "advice_instruction": 0.16988,
    "sum": 0.1826,
}
# Does anything bear on the question? A logistic model (see relevance.py).
QUESTION: Final[Mapping[str, float]] = {
    "constant": -1.4745,
    "nearest": 7.6282,
    "nearest_lead": -0.7794,
    "nearest_five": 3.9071,
    "sure_coverage": -0.4877,
    "matched": -0.3154,
    "lead": 3.9906,
    "lead_of_ten": 3.4083,
    "session_nearest": 0.4142,
    "speaker": 7.7471,
    "near_instruction": 0.0958,
    "words": -0.2305,
    "unknown": -1.1142,
    "self": 0.66,
    "asks": 0.3135,
    "scope": -0.9853,
}
# Does this message, if any does? A logistic model (see relevance.py).
MESSAGE: Final[Mapping[str, float]] = {
    "constant": -1.5618,
    "gap": -6.7406,
    "lead": 3.6633,
    "rank": -0.4789,
    "crowd": -1.2373,
    "nearest": 0.1845,
    "nearest_lead": 0.0284,
    "coverage": 0.4322,
}
