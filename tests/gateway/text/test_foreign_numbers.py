"""Numbers as they are written outside English."""

import pytest

from gateway.text import normalize

CASES = [
    ("3,50 €", "three euros and fifty cents"),
    ("€3,50", "three euros and fifty cents"),
    ("€ 3,50", "three euros and fifty cents"),
    ("3,50 EUR", "three euros and fifty cents"),
    ("CHF 12,90", "twelve point nine zero Swiss francs"),
    ("12,99€", "twelve euros and ninety-nine cents"),
    ("€1.234,56", "one thousand two hundred thirty-four euros and fifty-six cents"),
    ("1.234,56 €", "one thousand two hundred thirty-four euros and fifty-six cents"),
    ("12 345,67 €", "twelve thousand three hundred forty-five euros and sixty-seven cents"),
    ("1.234,56", "one thousand two hundred thirty-four point five six"),
    ("1 000 000", "one million"),
    ("1 000 000 people", "one million people"),
    ("10 000 steps", "ten thousand steps"),
    ("5 000", "five thousand"),
    ("1 250 €", "one thousand two hundred fifty euros"),
    ("12 500 km", "twelve thousand five hundred kilometres"),
    ("0,5 l", "zero point five litres"),
    ("0,75", "zero point seven five"),
    ("3,5 %", "three point five percent"),
    ("1,5 km", "one point five kilometres"),
    ("13,5 cm", "thirteen point five centimetres"),
    ("1'000'000", "one million"),
    ("CHF 1'250", "one thousand two hundred fifty Swiss francs"),
    ("€1.000.000", "one million euros"),
    ("€10 000", "ten thousand euros"),
    ("2,5 million", "two point five million"),
    ("1,5", "one,five"),
    ("(0,1)", "(zero,one)"),
    ("1,2,3", "one,two,three"),
    ("I have 3, 4 or 5.", "I have three, four or five."),
    ("1,234", "one thousand two hundred thirty-four"),
    ("$1,234", "one thousand two hundred thirty-four dollars"),
    ("1,234.56", "one thousand two hundred thirty-four point five six"),
    ("3,500 km", "three thousand five hundred kilometres"),
    ("1,000 kg", "one thousand kilograms"),
    ("room 5 200", "room five two hundred"),
    ("in 1998 200 people", "in nineteen ninety-eight two hundred people"),
    ("10 000 0000", "ten zero zero zero zero zero zero zero"),
    ("5'11\"", "five feet eleven inches"),
    ("3.500", "three point five zero zero"),
    ("code 276 983", "code two seven six, nine eight three"),
    ("in 2024, 15 km away", "in twenty twenty-four, fifteen kilometres away"),
    ("3,14", "three,fourteen"),
    ("on May 5, 10 km", "on May fifth, ten kilometres"),
]


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[written for written, _ in CASES])
def test_foreign_numbers_are_read_as_a_person_would(written, spoken):
    assert normalize(written, language="en") == spoken
