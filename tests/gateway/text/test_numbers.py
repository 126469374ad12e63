"""Numbers that count, name a version or touch letters."""

import pytest

from gateway.text import normalize

CASES = [
    ("7 cats", "seven cats"),
    ("21 cats", "twenty-one cats"),
    ("100 cats", "one hundred cats"),
    ("105 cats", "one hundred five cats"),
    ("1,250 cats", "one thousand two hundred fifty cats"),
    ("12,345,678 cats", "twelve million three hundred forty-five thousand six hundred seventy-eight cats"),
    ("1000000 cats", "one million cats"),
    ("3.14", "three point one four"),
    ("0.5", "zero point five"),
    ("Add .5 now.", "Add point five now."),
    ("10.0", "ten point zero"),
    ("-5", "minus five"),
    ("007", "zero zero seven"),
    ("0042", "zero zero four two"),
    ("It has 276983 rows.", "It has two hundred seventy-six thousand nine hundred eighty-three rows."),
    (
        "1234567890123456789",
        "one two three four five six seven eight nine zero one two three four five six seven eight nine",
    ),
    (
        "123,456,789,012,345",
        "one hundred twenty-three trillion four hundred fifty-six billion seven hundred eighty-nine million "
        "twelve thousand three hundred forty-five",
    ),
    ("MP3", "MP three"),
    ("B2B", "B two B"),
    ("F-16", "F-sixteen"),
    ("COVID-19", "COVID-nineteen"),
    ("a 3D film", "a three D film"),
    ("5G", "five G"),
    ("an iPhone15 case", "an iPhone fifteen case"),
    ("version 2.0", "version two point zero"),
    ("v1.2.3", "version one point two point three"),
    ("v2 is out", "version two is out"),
    ("Python 3.11.7", "Python three point eleven point seven"),
    ("192.168.0.1", "one hundred ninety-two dot one hundred sixty-eight dot zero dot one"),
    ("1st", "first"),
    ("2nd", "second"),
    ("the 3rd man", "the third man"),
    ("21st", "twenty-first"),
    ("100th", "one hundredth"),
    ("112th", "one hundred twelfth"),
    ("1,000th", "one thousandth"),
    ("5-year-old", "five-year-old"),
    ("10x faster", "ten times faster"),
    ("10k followers", "ten thousand followers"),
    ("4K video", "four K video"),
    ("Only 1.", "Only one."),
    ("1.5 million", "one point five million"),
    ("3 thousand", "three thousand"),
    ("Route 66.", "Route sixty-six."),
    ("Top 10!", "Top ten!"),
    ("1, 2, 3.", "one, two, three."),
    ("(5)", "(five)"),
    ("'5'", "'five'"),
    ("5;6", "five;six"),
    ("ten 10s", "ten ten seconds"),
    ("2's", "two's"),
    ("½ cup", "one half cup"),
    ("1½ cups", "one and a half cups"),
    ("3 ¾ miles", "three and three quarters miles"),
    ("No digits here.", "No digits here."),
]


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[written for written, _ in CASES])
def test_numbers_are_read_as_a_person_would(written, spoken):
    assert normalize(written, language="en") == spoken
