"""Date expressions in questions, read at a fixed moment: Wednesday 15 May 2024, ten o'clock in the morning in UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.dates import date_rules, date_words
from recollect.core.dates import periods as dates
from recollect.core.dates.date_words import MAX_READ_CHARACTERS
from recollect.core.dates.periods import MAX_PERIODS, Period, asks_for_time, find_periods
from recollect.core.errors import InvalidInput
from recollect.core.times import EARLIEST, day_bounds
from support.growth import assert_linear

NOW = datetime(2024, 5, 15, 10, tzinfo=UTC)

# The question, then its periods as first day and the day after the last one.
CASES = """
what did I say yesterday? | 2024-05-14 2024-05-15
What is on today | 2024-05-15 2024-05-16
earlier this morning | 2024-05-15 2024-05-16
what happens tomorrow | 2024-05-16 2024-05-17
the day before yesterday | 2024-05-13 2024-05-14
the day after tomorrow | 2024-05-17 2024-05-18
before yesterday | 1900-01-01 2024-05-14
3 days ago | 2024-05-12 2024-05-13
three days ago | 2024-05-12 2024-05-13
two days back | 2024-05-13 2024-05-14
10 days ago | 2024-05-04 2024-05-07
five hours ago | 2024-05-15 2024-05-16
12 hours ago | 2024-05-14 2024-05-15
a week ago | 2024-05-05 2024-05-12
What did I buy two weeks ago? | 2024-04-28 2024-05-05
a couple of weeks ago | 2024-04-24 2024-05-09
a couple of days ago | 2024-05-12 2024-05-15
a few days ago | 2024-05-09 2024-05-14
several weeks ago | 2024-03-13 2024-04-25
a month ago | 2024-03-31 2024-05-01
three months ago | 2024-01-31 2024-03-02
a year ago | 2022-11-14 2023-11-14
two weeks from now | 2024-05-26 2024-06-02
two Fridays ago | 2024-05-03 2024-05-04
last week | 2024-05-06 2024-05-13
this week | 2024-05-13 2024-05-20
next week | 2024-05-20 2024-05-27
the week before last | 2024-04-29 2024-05-06
last month's plan | 2024-04-01 2024-05-01
this month | 2024-05-01 2024-06-01
next month | 2024-06-01 2024-07-01
the month before last | 2024-03-01 2024-04-01
last year | 2023-01-01 2024-01-01
this year | 2024-01-01 2025-01-01
next year | 2025-01-01 2026-01-01
last quarter | 2024-01-01 2024-04-01
last weekend | 2024-05-11 2024-05-13
this past weekend | 2024-05-11 2024-05-13
this weekend | 2024-05-18 2024-05-20
next weekend | 2024-05-25 2024-05-27
at the weekend | 2024-05-11 2024-05-13
last Tuesday | 2024-05-14 2024-05-15
last Wednesday | 2024-05-08 2024-05-09
on Tuesday | 2024-05-14 2024-05-15
on Wednesday | 2024-05-15 2024-05-16
on Thursday | 2024-05-09 2024-05-10
on Fri | 2024-05-10 2024-05-11
last Sun | 2024-05-12 2024-05-13
this past Friday | 2024-05-10 2024-05-11
this Friday | 2024-05-17 2024-05-18
next Monday | 2024-05-20 2024-05-21
Tuesday of last week | 2024-05-07 2024-05-08
on Tuesday 10:30 | 2024-05-14 2024-05-15
on Friday, 3 May | 2024-05-03 2024-05-04
in May | 2024-05-01 2024-06-01
in may | 2024-05-01 2024-06-01
in June | 2023-06-01 2023-07-01
what about September | 2023-09-01 2023-10-01
in Mar. | 2024-03-01 2024-04-01
in May 2023 | 2023-05-01 2023-06-01
May 2023 | 2023-05-01 2023-06-01
may of 2023 | 2023-05-01 2023-06-01
in May last year | 2023-05-01 2023-06-01
last May | 2023-05-01 2023-06-01
last March | 2024-03-01 2024-04-01
next May | 2025-05-01 2025-06-01
what is planned this May? | 2024-05-01 2024-06-01
early May | 2024-05-01 2024-05-11
mid-May | 2024-05-11 2024-05-21
in late May 2023 | 2023-05-21 2023-06-01
the end of April | 2024-04-21 2024-05-01
late 2023 | 2023-09-01 2024-01-01
late last night | 2024-05-14T17 2024-05-15T06
last night | 2024-05-14T17 2024-05-15T06
tonight | 2024-05-15T17 2024-05-16T06
in May and June | 2024-05-01 2024-06-01, 2023-06-01 2023-07-01
in 2023 | 2023-01-01 2024-01-01
the year 2021 | 2021-01-01 2022-01-01
summer 2022 | 2022-06-01 2022-09-01
the summer of 2022 | 2022-06-01 2022-09-01
in the summer | 2023-06-01 2023-09-01
last summer | 2023-06-01 2023-09-01
this summer | 2024-06-01 2024-09-01
in the fall | 2023-09-01 2023-12-01
winter 2022 | 2021-12-01 2022-03-01, 2022-12-01 2023-03-01
Q1 2023 | 2023-01-01 2023-04-01
in Q3 | 2023-07-01 2023-10-01
the first quarter of 2023 | 2023-01-01 2023-04-01
the 1990s | 1990-01-01 2000-01-01
in the 80s | 1980-01-01 1990-01-01
on 7 May | 2024-05-07 2024-05-08
on 20 May | 2023-05-20 2023-05-21
May 7 | 2024-05-07 2024-05-08
the 7th of May | 2024-05-07 2024-05-08
7 May 2023 | 2023-05-07 2023-05-08
May 7th, 2023 | 2023-05-07 2023-05-08
Sept. 3, 2022 | 2022-09-03 2022-09-04
29 February | 2024-02-29 2024-03-01
Feb 29 last year |
31 June 2023 |
2023-05-07 | 2023-05-07 2023-05-08
2023-05-07T10:30:00Z | 2023-05-07 2023-05-08
in 2023-05 | 2023-05-01 2023-06-01
07/05/2023 | 2023-05-07 2023-05-08, 2023-07-05 2023-07-06
25/05/2023 | 2023-05-25 2023-05-26
05/25/2023 | 2023-05-25 2023-05-26
5/5/23 | 2023-05-05 2023-05-06
7.5.2023 | 2023-05-07 2023-05-08, 2023-07-05 2023-07-06
99/99/2023 |
from 9999-12-31 to May |
7 May 0000 |
2024 years ago |
since May | 2024-05-01 2024-05-16
since last Tuesday | 2024-05-14 2024-05-16
before June 2023 | 1900-01-01 2023-06-01
until March | 1900-01-01 2024-04-01
after last week | 2024-05-13 2024-05-16
after next week | 2024-05-27 2200-01-01
since 2020 | 2020-01-01 2024-05-16
between May and July | 2023-05-01 2023-08-01
between November and February | 2023-11-01 2024-03-01
between May and July 2022 | 2022-05-01 2022-08-01
from May 2022 to July | 2022-05-01 2022-08-01
from May 2022 to March | 2022-05-01 2023-04-01
from early May to late July 2023 | 2023-05-01 2023-08-01
from 3 to 5 May | 2024-05-03 2024-05-06
May 3-5, 2023 | 2023-05-03 2023-05-06
from 28 April to 3 May | 2024-04-28 2024-05-04
from Friday to Monday | 2024-05-10 2024-05-14
between 2019 and 2021 | 2019-01-01 2022-01-01
in 2019-2021 | 2019-01-01 2022-01-01
between 01/02/2023 and 03/04/2023 | 2023-02-01 2023-04-04, 2023-01-02 2023-03-05
in the last two weeks | 2024-05-01 2024-05-16
the last 3 days | 2024-05-12 2024-05-16
past month | 2024-04-15 2024-05-16
in the last week | 2024-05-08 2024-05-16
in the past few days | 2024-05-09 2024-05-16
over the past couple of months | 2024-02-15 2024-05-16
in the next three days | 2024-05-15 2024-05-19
yesterday and last week, yesterday | 2024-05-14 2024-05-15, 2024-05-06 2024-05-13
ماذا قلت أمس؟ | 2024-05-14 2024-05-15
ما خطة اليوم | 2024-05-15 2024-05-16
سأسافر غداً | 2024-05-16 2024-05-17
أول أمس | 2024-05-13 2024-05-14
قبل أسبوعين | 2024-04-28 2024-05-05
قبل ٣ أيام | 2024-05-12 2024-05-13
منذ ثلاثة أشهر | 2024-01-31 2024-03-02
قبل سنة | 2022-11-14 2023-11-14
قبل بضعة أيام | 2024-05-09 2024-05-14
بعد أسبوعين | 2024-05-26 2024-06-02
الأسبوع الماضي | 2024-05-06 2024-05-13
الاسبوع الماضى | 2024-05-06 2024-05-13
الشهر الماضي | 2024-04-01 2024-05-01
السنة الماضية | 2023-01-01 2024-01-01
هذا الشهر | 2024-05-01 2024-06-01
الأسبوع القادم | 2024-05-20 2024-05-27
يوم الثلاثاء | 2024-05-14 2024-05-15
الجمعة الماضية | 2024-05-10 2024-05-11
في أيار | 2024-05-01 2024-06-01
في ايار 2023 | 2023-05-01 2023-06-01
في مايو ٢٠٢٣ | 2023-05-01 2023-06-01
في شهر آب | 2023-08-01 2023-09-01
كانون الثاني ٢٠٢٣ | 2023-01-01 2023-02-01
٧ أيار ٢٠٢٣ | 2023-05-07 2023-05-08
في عام 2023 | 2023-01-01 2024-01-01
صيف 2022 | 2022-06-01 2022-09-01
الصيف الماضي | 2023-06-01 2023-09-01
منذ أيار | 2024-05-01 2024-05-16
منذ عام 2020 | 2020-01-01 2024-05-16
قبل حزيران 2023 | 1900-01-01 2023-06-01
بين أيار وتموز | 2023-05-01 2023-08-01
من أيار إلى تموز 2022 | 2022-05-01 2022-08-01
آخر ثلاثة أيام | 2024-05-12 2024-05-16
"""

NO_DATES = """
may I ask something
May I come in?
I may go in
you may 2 times
this may help
this may take a while
maybe tomorrowland
they march forward
the march was long
sun cream
he sat down and wed
a second opinion
the Marina in del Mar
2023 items
room 2023
of 2000 people
it costs $2023
version 1.2.23
call 555-2023
for two weeks
it takes three days
How long ago did we meet?
how many days ago was that
years ago
every Monday
every other Monday
on Mondays
did April call June?
spring water and a fall
an august person
the last week of school
10.10.2023.1
1/2 cup
20:30
في البيت مع أب
هل مارس الرياضة
أسبوعين
since then
"""

ASKING = [
    *["When did I move?", "when was that", "What date was the party?", "what's the date of it", "How long ago was it?"],
    *["what year did we meet", "Which day works", "how many weeks ago did it end", "It ended when?", "When’s the exam"],
    *["متى سافرت؟", "متي", "في أي يوم كان ذلك", "منذ متى", "ما تاريخ الاجتماع"],
]
NOT_ASKING = [
    "When I was young I swam",
    "whenever",
    "how long is it",
    "what did I say yesterday",
    "a date palm",
    "ماذا قلت",
]


def read(lines: str) -> list[tuple[str, list[tuple[datetime, datetime]]]]:
    """Return the rows of a table above. Days stand for their midnights."""
    rows = []
    for line in lines.strip().splitlines():
        question, _, expected = line.partition("|")
        pairs = [pair.split() for pair in expected.split(",") if pair.strip()]
        rows.append((question.strip(), [(moment(start), moment(stop)) for start, stop in pairs]))
    return rows


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def bounds(periods: list[Period]) -> list[tuple[datetime, datetime]]:
    return [(period.start, period.stop) for period in periods]


@pytest.mark.parametrize(("question", "expected"), read(CASES))
def test_words_become_their_periods(question: str, expected: list[tuple[datetime, datetime]]) -> None:
    assert bounds(find_periods(question, now=NOW)) == expected
    assert bounds(find_periods(f"Tell me: {question}.", now=NOW)) == expected


@pytest.mark.parametrize("question", NO_DATES.strip().splitlines())
def test_words_that_are_no_dates_give_no_periods(question: str) -> None:
    assert find_periods(question, now=NOW) == []


@pytest.mark.parametrize(
    ("question", "quote"),
    [
        ("what did I say in  May\n2023?", "May\n2023"),
        ("SINCE May, please", "SINCE May"),
        ("all between May and July!", "between May and July"),
        ("in early May", "early May"),
        ("سافرتُ أَمْسِ مساءً", "أَمْسِ"),
        ("القائمة بين أيار وتموز؟", "بين أيار وتموز"),
    ],
)
def test_a_period_quotes_the_query(question: str, quote: str) -> None:
    assert [period.text for period in find_periods(question, now=NOW)] == [quote]


@pytest.mark.parametrize(
    ("question", "now", "zone", "first", "last"),
    [
        # already Thursday in Riyadh, still Tuesday in New York
        ("today", "2024-05-15T22:00", "Asia/Riyadh", date(2024, 5, 16), date(2024, 5, 16)),
        ("أمس", "2024-05-15T22:00", "Asia/Riyadh", date(2024, 5, 15), date(2024, 5, 15)),
        ("yesterday", "2024-05-15T02:00", "America/New_York", date(2024, 5, 13), date(2024, 5, 13)),
        ("on Wednesday", "2024-05-15T02:00", "America/New_York", date(2024, 5, 8), date(2024, 5, 8)),
        ("in June", "2024-06-01T01:00", "America/New_York", date(2023, 6, 1), date(2023, 6, 30)),
        ("in June", "2024-05-31T22:00", "Asia/Riyadh", date(2024, 6, 1), date(2024, 6, 30)),
        # clocks change on 10 March and 3 November
        ("10 March", "2024-05-15T10:00", "America/New_York", date(2024, 3, 10), date(2024, 3, 10)),
        ("last week", "2024-11-06T10:00", "America/New_York", date(2024, 10, 28), date(2024, 11, 3)),
        ("in March", "2024-05-15T10:00", "America/New_York", date(2024, 3, 1), date(2024, 3, 31)),
    ],
)
def test_days_are_those_of_the_zone(question: str, now: str, zone: str, first: date, last: date) -> None:
    periods = find_periods(question, now=moment(now), zone=zone)
    assert bounds(periods) == [(day_bounds(first, zone)[0], day_bounds(last, zone)[1])]


def test_tonight_after_midnight_is_still_the_evening_before() -> None:
    periods = find_periods("tonight", now=moment("2024-05-15T02:00"))
    assert bounds(periods) == [(moment("2024-05-14T17:00"), moment("2024-05-15T06:00"))]


def test_a_naive_now_is_read_in_the_zone() -> None:
    naive = datetime(2024, 5, 16, 1)
    assert find_periods("today", now=naive, zone="Asia/Riyadh") == find_periods(
        "today", now=moment("2024-05-15T22:00"), zone="Asia/Riyadh"
    )


def test_a_day_that_a_zone_skipped_gives_no_period() -> None:
    assert find_periods("30 December 2011", now=NOW, zone="Pacific/Apia") == []


def test_there_are_at_most_eight_periods() -> None:
    query = ", ".join(f"{day} May 2023" for day in range(1, 29))
    periods = find_periods(query, now=NOW)
    assert [period.text for period in periods] == [f"{day} May 2023" for day in range(1, MAX_PERIODS + 1)]


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(InvalidInput):
        find_periods("today", now=NOW, zone="Mars/Olympus")


@pytest.mark.parametrize("question", ASKING)
def test_questions_for_a_time_are_recognised(question: str) -> None:
    assert asks_for_time(question)


@pytest.mark.parametrize("question", NOT_ASKING)
def test_other_questions_ask_for_no_time(question: str) -> None:
    assert not asks_for_time(question)


VOCABULARY = """
the last past next this in on of since before after until between from to and - , . / : early mid end a few couple
several two 0 3 29 31 99 1900 2023 9999 0001 0000 days weeks month months year years ago back now weekend quarter Q1
May may march February Feb. winter summer Tuesday Sun fri yesterday tonight 1990s 30/02/2023 9999-12-31 0001-01-01
12/31/9999 قبل منذ بعد بين من أيار آب أسبوعين ٣ أيام الماضي الأسبوع هذا و İ ı ½ ﷺ
"""
WORDS = st.sampled_from([*VOCABULARY.split(), "\u0651", " ", ""])
NOWS = st.datetimes(datetime(1900, 1, 3), datetime(2199, 12, 29), timezones=st.just(UTC))


@given(
    query=st.one_of(
        st.text(st.characters(codec=None, exclude_categories=()), max_size=200),
        st.lists(WORDS, max_size=14).map(" ".join),
        st.lists(WORDS, max_size=8).map("".join),
    ),
    now=NOWS,
    zone=st.sampled_from(sorted(available_timezones())),
)
def test_any_text_gives_few_distinct_forward_periods(query: str, now: datetime, zone: str) -> None:
    periods = find_periods(query, now=now, zone=zone)
    assert len(set(bounds(periods))) == len(periods) <= MAX_PERIODS
    for period in periods:
        assert period.start < period.stop
        assert period.start.tzinfo is period.stop.tzinfo is UTC
        assert period.text and period.text in query
    assert asks_for_time(query) in (True, False)


@given(now=NOWS, zone=st.sampled_from(["UTC", "Asia/Riyadh", "America/New_York"]), back=st.integers(0, 4000))
def test_a_date_written_out_is_that_local_day(now: datetime, zone: str, back: int) -> None:
    day = max(now.astimezone(ZoneInfo(zone)).date() - timedelta(days=back), EARLIEST.date() + timedelta(days=1))
    expected = [day_bounds(day, zone)]
    for text in (day.isoformat(), f"{day:%d %B %Y}", f"{day:%B} {day.day}, {day.year}"):
        assert bounds(find_periods(text, now=now, zone=zone)) == expected


@pytest.mark.parametrize("n", [MAX_READ_CHARACTERS // 4, 250_000])
@pytest.mark.parametrize(
    "piece",
    [
        "a",
        " ",
        "1",
        "may ",
        "last ",
        "in May ",
        "3 days ",
        "between ",
        "1/",
        "the ",
        "ﷺ",
        "من ",
        "1-",
        "٣ ",
        "of 2023 ",
    ],
)
def test_a_repeated_piece_is_read_in_linear_time(piece: str, n: int) -> None:
    def find(query: str) -> None:
        dates.forget()  # else it is read once
        find_periods(query, now=NOW)

    assert_linear(find, lambda n: piece * (n // len(piece)), n)


def test_dates_beyond_the_reading_limit_are_not_found() -> None:
    assert find_periods("x" * MAX_READ_CHARACTERS + " yesterday", now=NOW) == []


MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
SHORT_MONTHS = ["Jan", "Feb", "Mar", "Apr", "Jun", "Jul", "Aug", "Sep", "Sept", "Oct", "Nov", "Dec"]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
UNITS = ["hour", "day", "week", "month", "quarter", "year"]
IN_ENGLISH = [
    "the day before yesterday", "yesterday", "today", "this morning", "this afternoon", "this evening", "tomorrow",
    "the day after tomorrow", "last night", "tonight", "the weekend", "last weekend", "the week before last",
    "2024-03-05", "2024/3/5", "2024-03", "5.3.2024", "05/03/24", "3-5-2024", "in 2023", "the 1990s", "the 80s",
    *(f"3 {unit}s ago" for unit in UNITS), *(f"a couple of {unit}s back" for unit in UNITS),
    *(f"over the last {unit}" for unit in UNITS), *(f"the past {unit}" for unit in UNITS),
    *(f"last {unit}" for unit in UNITS[2:]), *(f"in {name} 2023" for name in (*MONTHS, *SHORT_MONTHS)),
    *(f"on 5 {name}" for name in (*MONTHS, *SHORT_MONTHS)), *(f"{name} 5th" for name in (*MONTHS, *SHORT_MONTHS)),
    *(f"last {name}" for name in WEEKDAYS), *(f"two {name}s ago" for name in WEEKDAYS),
    *(f"on {name}" for name in ("Mon", "Tue", "Tues", "Wed", "Thu", "Thurs", "Fri", "Sat", "Sun")),
    *(f"in {name}" for name in ("spring 2023", "summer 2023", "the autumn of 2023", "last fall", "winter 2023")),
    *(f"in {name} 2023" for name in ("Q1", "q2", "third quarter", "fourth quarter")),
]  # fmt: skip


@pytest.mark.parametrize("said", IN_ENGLISH)
def test_every_date_has_a_hint_that_lets_the_rules_read_it(said: str) -> None:
    """Texts without a hint of a time skip the rules, so every text in which the rules find a date needs a hint."""
    for text in (f"What did we say {said}?", f"what did we say {said}".lower(), said.upper()):
        normalised = date_words.normalise(text)[0]
        if any(pattern.search(normalised) for _, pattern in date_rules.RULES):
            assert dates._HINT.search(normalised), normalised
    assert any(pattern.search(date_words.normalise(f"We said {said}.")[0]) for _, pattern in date_rules.RULES)
