"""The numbers of the learned order and of relevance. Written by `python -m bench.order --write`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Weights of the features of a candidate (see features.py).
WEIGHTS: Final[Mapping[str, float]] = {
    "first": 0.02822,
    "average": 0.0912,
    "nearest_lead": 0.02092,
    "dense_lead": 0.03963,
    "coverage": 0.09026,
    "sure_coverage": 0.20373,
    "led_coverage": 0.112,
    "nearest_after": 0.10099,
    "words_after": 0.00337,
    "coverage_around": 0.20243,
    "session_nearest": 0.39396,
    "session_coverage": 0.17124,
    "session_rank": -0.02646,
    "session_gap": 0.09261,
    "speaker": 0.13322,
    "date": 0.2132,
    "code": 0.01987,
    "brief_asked": 0.06143,
    "brief_surely_asked": 0.0873,
    "long": -0.00989,
    "long_asked": 0.16495,
    "few_words": 0.17052,
    "some_words": 0.01414,
    "many_words": -0.01241,
    "passages": -0.04399,
    "first_person": 0.05194,
    "name": 0.02907,
    "time": 0.02357,
    "number": 0.02823,
    "when_date": 0.05637,
    "when_time": 0.08329,
    "how_many_number": 0.08165,
    "where_name": 0.10501,
    "who_name": 0.066,
    "advice_preference": 0.05587,
    "now_change": 0.00427,
    "instruction": 0.05297,
    "near_instruction": 0.43467,
    "advice_instruction": 0.074,
    "sum": 0.10964,
}
# Does anything bear on the question? A logistic model (see relevance.py).
QUESTION: Final[Mapping[str, float]] = {
    "constant": -4.4212,
    "nearest": 24.758,
    "nearest_lead": -1.0952,
    "nearest_five": -5.3715,
    "sure_coverage": 3.7122,
    "matched": -1.8948,
    "lead": 0.0388,
    "lead_of_ten": 7.7531,
    "session_nearest": -4.7392,
    "speaker": 5.1077,
    "near_instruction": 2.3434,
    "asked": -1.2404,
}
# Does this message, if any does? A logistic model (see relevance.py).
MESSAGE: Final[Mapping[str, float]] = {
    "constant": -3.0228,
    "gap": -8.927,
    "lead": 4.3292,
    "nearest": -0.3173,
    "coverage": 0.5607,
}
