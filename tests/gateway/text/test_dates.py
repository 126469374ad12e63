"""Dates, years and decades."""

import pytest

from gateway.text import normalize

CASES = [
    ("2024-03-05", "March fifth, twenty twenty-four"),
    ("on 2024-12-31.", "on December thirty-first, twenty twenty-four."),
    ("3/5/2024", "March fifth, twenty twenty-four"),
    ("31/12/1999", "December thirty-first, nineteen ninety-nine"),
    ("3/5/24", "March fifth, twenty twenty-four"),
    ("12/25/98", "December twenty-fifth, nineteen ninety-eight"),
    ("5.3.2024", "March fifth, twenty twenty-four"),
    ("March 3rd, 2024", "March third, twenty twenty-four"),
    ("March 3, 2024", "March third, twenty twenty-four"),
    ("Mar. 3", "March third"),
    ("Jan 1st", "January first"),
    ("3 March 2024", "the third of March twenty twenty-four"),
    ("the 3rd of March", "the third of March"),
    ("5th of November 1605", "the fifth of November sixteen oh five"),
    ("March 2024", "March twenty twenty-four"),
    ("Sept. 11, 2001", "September eleventh, two thousand one"),
    ("March 3-5", "March third to fifth"),
    ("May 5", "May fifth"),
    ("1999", "nineteen ninety-nine"),
    ("in 1905", "in nineteen oh five"),
    ("in 2000", "in two thousand"),
    ("in 2005", "in two thousand five"),
    ("since 2010", "since twenty ten"),
    ("by 2024.", "by twenty twenty-four."),
    ("1900", "nineteen hundred"),
    ("the year 1066", "the year ten sixty-six"),
    ("1990s", "nineteen nineties"),
    ("the 1990s", "the nineteen nineties"),
    ("the '90s", "the nineties"),
    ("the 90s", "the nineties"),
    ("in his 30s", "in his thirties"),
    ("the 2000s", "the two thousands"),
    ("the 2010s", "the twenty tens"),
    ("1914-1918", "nineteen fourteen to nineteen eighteen"),
    ("1990–95", "nineteen ninety to ninety-five"),
    ("1500 people", "one thousand five hundred people"),
    ("2024 people", "two thousand twenty-four people"),
    ("in 2024 sales rose", "in twenty twenty-four sales rose"),
    ("2000 mAh", "two thousand milliamp hours"),
    ("1999 dollars", "one thousand nine hundred ninety-nine dollars"),
    ("2024-03-05T14:05:30Z", "March fifth, twenty twenty-four at fourteen oh five and thirty seconds UTC"),
    ("2024-03-05 14:05", "March fifth, twenty twenty-four fourteen oh five"),
    ("You may 5 times.", "You may five times."),
    ("500 BC", "five hundred BC"),
    ("2030", "twenty thirty"),
    ("Q1 2024 results", "Q one twenty twenty-four results"),
    ("the '60s and 70s", "the sixties and seventies"),
    ("in the 1800s", "in the eighteen hundreds"),
    ("12th-century", "twelfth-century"),
]


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[written for written, _ in CASES])
def test_dates_are_read_as_a_person_would(written, spoken):
    assert normalize(written, language="en") == spoken
