"""Fractions, dates and ratios with a stroke."""

import pytest

from gateway.text import normalize

CASES = [
    ("1/2", "one half"),
    ("3/4", "three quarters"),
    ("7/8", "seven eighths"),
    ("2 1/2", "two and one half"),
    ("a 2-1/2 inch nail", "a two and one half inch nail"),
    ("2½", "two and a half"),
    ("½", "one half"),
    ("1 ½ cups", "one and a half cups"),
    ("3/8-inch", "three eighths inch"),
    ("a 1/2-inch pipe", "a one half inch pipe"),
    ("1/2-price", "one half price"),
    ("3/4-mile walk", "three quarters mile walk"),
    ("5/8 in", "five eighths inch"),
    ("5/8 in thick", "five eighths inch thick"),
    ("2 1/2 in.", "two and one half inches."),
    ('A 3/4" pipe', "A three quarters inch pipe"),
    ("a ½ in. drill", "a one half inch drill"),
    ('½"', "one half inch"),
    ('He said "I ate 1/2" then.', 'He said "I ate one half" then.'),
    ("1/2 in the morning", "one half in the morning"),
    ("2/3rds", "two thirds"),
    ("3/4ths", "three quarters"),
    ("1/4th", "one quarter"),
    ("1/3 of people", "one third of people"),
    ("9/10 of the time", "nine tenths of the time"),
    ("1/100 of a second", "one hundredth of a second"),
    ("1/1000 of the cost", "one thousandth of the cost"),
    ("1/60 s", "one sixtieth of a second"),
    ("1/250 sec", "one two hundred fiftieth of a second"),
    ("4/5 stars", "four out of five stars"),
    ("10/10", "ten out of ten"),
    ("8/10", "eight out of ten"),
    ("Page 3/10", "Page three of ten"),
    ("slide 2 of 3", "slide two of three"),
    ("page 10/3", "page ten over three"),
    ("question 1/20", "question one of twenty"),
    ("step 1/2", "step one of two"),
    ("1/2 and 3/4", "one half and three quarters"),
    ("120/80", "one hundred twenty over eighty"),
    ("24/7/365", "twenty-four seven three hundred sixty-five"),
    ("3/5/2024", "March fifth, twenty twenty-four"),
    ("and/or", "and or"),
    ("1/2/3", "one two three"),
    ("10/2 = 5", "ten divided by two equals five"),
    ("7 / 2", "seven divided by two"),
    ("km/h", "kilometres per hour"),
    ("home/user", "home user"),
]


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[written for written, _ in CASES])
def test_fractions_are_read_as_a_person_would(written, spoken):
    assert normalize(written, language="en") == spoken
