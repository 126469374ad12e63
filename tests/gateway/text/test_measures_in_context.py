"""Measures and money before a noun, and m for million."""

import pytest

from gateway.text import normalize

CASES = [
    ("5 m dollars", "five million dollars"),
    ("5 m people", "five metres people"),
    ("3m people", "three million people"),
    ("5 m", "five metres"),
    ("The 5 V rail", "The five volt rail"),
    ("the 5 V rails", "the five volts rails"),
    ("a 5 V rail", "a five volt rail"),
    ("the 5 km of road", "the five kilometres of road"),
    ("the 5 km we ran", "the five kilometres we ran"),
    ("The 10 km run", "The ten kilometre run"),
    ("this 8 GB card", "this eight gigabyte card"),
    ("my 8 GB cards", "my eight gigabytes cards"),
    ("each 5 kg bag", "each five kilogram bag"),
    ("the 10 cm glass", "the ten centimetre glass"),
    ("the 100 m sprint", "the one hundred metre sprint"),
    ("the 20 km remaining", "the twenty kilometres remaining"),
    ("the 5 kg lifted", "the five kilograms lifted"),
    ("the $5 bill", "the five dollar bill"),
    ("The $5 goes to charity.", "The five dollars goes to charity."),
    ("the $20 he owes", "the twenty dollars he owes"),
    ("their $3 million house", "their three million dollar house"),
    ("the $5 million", "the five million dollars"),
    ("every 30 s interval", "every thirty second interval"),
    ("code a1b2c3", "code A one B two C three"),
    ("at 5 min. intervals", "at five minutes intervals"),
    ("the 5 m long pole", "the five metres long pole"),
    ("the 5 m and", "the five metres and"),
    ("5 V", "five volts"),
]


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[written for written, _ in CASES])
def test_measures_in_context_are_read_as_a_person_would(written, spoken):
    assert normalize(written, language="en") == spoken
