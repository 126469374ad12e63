"""Times of day and ratios."""

import pytest

from gateway.text import normalize

CASES = [
    ("7:30 pm", "seven thirty PM"),
    ("7:30pm", "seven thirty PM"),
    ("7:30 PM", "seven thirty PM"),
    ("7:30 p.m. sharp", "seven thirty PM sharp"),
    ("7:30 p.m.", "seven thirty PM."),
    ("At 9 a.m. He left.", "At nine AM. He left."),
    ("at 9 a.m. he left", "at nine AM he left"),
    ("9am", "nine AM"),
    ("12 PM", "twelve PM"),
    ("14:05", "fourteen oh five"),
    ("09:30", "nine thirty"),
    ("14:00", "fourteen hundred"),
    ("12:00", "twelve o'clock"),
    ("0:45", "zero forty-five"),
    ("7:05", "seven oh five"),
    ("7:00 pm", "seven PM"),
    ("14:05:30", "fourteen oh five and thirty seconds"),
    ("14:05:01", "fourteen oh five and one second"),
    ("9am-5pm", "nine AM to five PM"),
    ("9-5pm", "nine to five PM"),
    ("3:1", "three to one"),
    ("16:9", "sixteen to nine"),
    ("John 3:16", "John three sixteen"),
    ("at 24:00", "at twenty-four hundred"),
    ("10 am Monday", "ten AM Monday"),
    ("3:45pm EST", "three forty-five PM EST"),
    ("I am 5.", "I am five."),
    ("45:30", "forty-five thirty"),
    ("9 a.m. Monday", "nine AM Monday"),
    ("5 to 6pm", "five to six PM"),
    ("10:30-11:45", "ten thirty to eleven forty-five"),
]


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[written for written, _ in CASES])
def test_times_are_read_as_a_person_would(written, spoken):
    assert normalize(written, language="en") == spoken
