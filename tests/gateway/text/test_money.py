"""Money."""

import pytest

from gateway.text import normalize

CASES = [
    ("$1", "one dollar"),
    ("$2", "two dollars"),
    ("$3m", "three million dollars"),
    ("$3M", "three million dollars"),
    ("$3.5bn", "three point five billion dollars"),
    ("$1.2 billion", "one point two billion dollars"),
    ("$5k", "five thousand dollars"),
    ("$0.99", "ninety-nine cents"),
    ("$0.01", "one cent"),
    ("$1.01", "one dollar and one cent"),
    ("$3.50", "three dollars and fifty cents"),
    ("$10.00", "ten dollars"),
    ("$3.456", "three point four five six dollars"),
    ("£4.50", "four pounds and fifty pence"),
    ("£0.05", "five pence"),
    ("£1m", "one million pounds"),
    ("€1,250", "one thousand two hundred fifty euros"),
    ("€ 5", "five euros"),
    ("5 €", "five euros"),
    ("¥500", "five hundred yen"),
    ("₹200", "two hundred rupees"),
    ("50¢", "fifty cents"),
    ("1¢", "one cent"),
    ("USD 20", "twenty US dollars"),
    ("20 USD", "twenty US dollars"),
    ("GBP 1.50", "one pound and fifty pence"),
    ("US$5", "five US dollars"),
    ("A$10", "ten Australian dollars"),
    ("-$5", "minus five dollars"),
    ("$5-10", "five to ten dollars"),
    ("$5-$10", "five to ten dollars"),
    ("$1m-$2m", "one million to two million dollars"),
    ("$20/hour", "twenty dollars per hour"),
    ("$9.99/month", "nine dollars and ninety-nine cents per month"),
    ("a $5 bill", "a five dollar bill"),
    ("a $3 million house", "a three million dollar house"),
    ("$1 million", "one million dollars"),
    ("It cost $5.", "It cost five dollars."),
    ("$$$", ""),
    ("100 $", "one hundred dollars"),
    ("CHF 40", "forty Swiss francs"),
    ("$1,234.56", "one thousand two hundred thirty-four dollars and fifty-six cents"),
    ("$5/kg", "five dollars per kilogram"),
    ("in £", "in pounds"),
    ("$5 to 10 people", "five dollars to ten people"),
    ("$.50", "fifty cents"),
    ("$1.2M (+15%)", "one point two million dollars (plus fifteen percent)"),
]


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[written for written, _ in CASES])
def test_money_are_read_as_a_person_would(written, spoken):
    assert normalize(written, language="en") == spoken
