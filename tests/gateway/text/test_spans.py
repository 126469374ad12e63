"""Ranges and spans, and what only looks like one."""

import pytest

from gateway.text import normalize

CASES = [
    ("Mon-Fri", "Monday to Friday"),
    ("Mon–Fri, 9am–5pm", "Monday to Friday, nine AM to five PM"),
    ("Mon - Fri", "Monday to Friday"),
    ("Monday-Friday", "Monday to Friday"),
    ("Tues.-Thurs.", "Tuesday to Thursday"),
    ("Open Mon-Sat and Sun.", "Open Monday to Saturday and Sun."),
    ("Wed-Fri 9-5", "Wednesday to Friday nine to five"),
    ("Jan-Mar 2020", "January to March twenty twenty"),
    ("January-March", "January to March"),
    ("Sept–Nov", "September to November"),
    ("March 3 - April 5", "March third to April fifth"),
    ("March 3rd – April 5th, 2024", "March third to April fifth, twenty twenty-four"),
    ("5-7 March 2024", "the fifth to the seventh of March twenty twenty-four"),
    ("the 5th-7th of March", "the fifth to the seventh of March"),
    ("5–7 March", "the fifth to the seventh of March"),
    ("Q1-Q3", "Q one to Q three"),
    ("Q1–Q3 2024", "Q one to Q three twenty twenty-four"),
    ("H1-H2", "H one to H two"),
    ("A-Z", "A to Z"),
    ("from A–Z", "from A to Z"),
    ("a-z", "a to z"),
    ("2019/20", "twenty nineteen to twenty"),
    ("the 2019/2020 season", "the twenty nineteen to twenty twenty season"),
    ("in 1999/00", "in nineteen ninety-nine to two thousand"),
    ("2019–2021", "twenty nineteen to twenty twenty-one"),
    ("pp. 3-5", "pages three to five"),
    ("pp. 123–125", "pages one hundred twenty-three to one hundred twenty-five"),
    ("chapters 3-5", "chapters three to five"),
    ("ages 5-10", "ages five to ten"),
    ("9-5 job", "nine to five job"),
    ("They won 3-2 on Sunday.", "They won three to two on Sunday."),
    ("a score of 2-1", "a score of two to one"),
    ("the 5-0 victory", "the five to zero victory"),
    ("10-15 minutes", "ten to fifteen minutes"),
    ("$10-20", "ten to twenty dollars"),
    ("5-10 kg", "five to ten kilograms"),
    ("1,000-2,000 people", "one thousand to two thousand people"),
    ("100-200k", "one hundred to two hundred thousand"),
    ("rows 5-10 and 12-15", "rows five to ten and twelve to fifteen"),
    ("-5 to 5", "minus five to five"),
    ("5 - 3 = 2", "five minus three equals two"),
    ("Sun-dried tomatoes", "Sun-dried tomatoes"),
    ("a sat-nav", "a sat-nav"),
    ("Mon-Khmer languages", "Mon-Khmer languages"),
    ("Mar-a-Lago", "Mar-a-Lago"),
    ("Jan-Michael Vincent", "Jan-Michael Vincent"),
    ("A-F", "A-F"),
    ("May-December romance", "May to December romance"),
    ("co-op", "co-op"),
    ("Q-1", "Q-one"),
    ("1-on-1", "one-on-one"),
    ("3-for-2 offer", "three-for-two offer"),
    ("T-Z", "T-Z"),
]


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[written for written, _ in CASES])
def test_spans_are_read_as_a_person_would(written, spoken):
    assert normalize(written, language="en") == spoken
