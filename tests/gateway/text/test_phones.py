"""Telephone numbers."""

import pytest

from gateway.text import normalize

CASES = [
    ("Call (555) 123 4567 now.", "Call five five five, one two three, four five six seven now."),
    ("Call 555 123 4567.", "Call five five five, one two three, four five six seven."),
    ("555.123.4567", "five five five, one two three, four five six seven"),
    ("1 (800) 555-0199", "one, eight zero zero, five five five, zero one nine nine"),
    ("1 800 555 0199", "one, eight zero zero, five five five, zero one nine nine"),
    ("1-800-FLOWERS", "one, eight zero zero, FLOWERS"),
    ("Call 1-800-GO-FEDEX today.", "Call one, eight zero zero, GO, FEDEX today."),
    ("+1 (555) 123-4567", "plus one, five five five, one two three, four five six seven"),
    ("+15551234567", "plus one, five five five, one two three, four five six seven"),
    ("+442079460958", "plus four four two zero seven nine four six zero nine five eight"),
    ("+44 (0)20 7946 0958", "plus four four, two zero, seven nine four six, zero nine five eight"),
    ("+49 30 123456", "plus four nine, three zero, one two three four five six"),
    ("+33 1 23 45 67 89", "plus three three, one, two three, four five, six seven, eight nine"),
    ("+91 98765 43210", "plus nine one, nine eight seven six five, four three two one zero"),
    ("020 7946 0958", "zero two zero, seven nine four six, zero nine five eight"),
    ("(020) 7946 0958", "zero two zero, seven nine four six, zero nine five eight"),
    ("07700 900123", "zero seven seven zero zero, nine zero zero one two three"),
    ("07700 900 123", "zero seven seven zero zero, nine zero zero, one two three"),
    ("0800 123 4567", "zero eight zero zero, one two three, four five six seven"),
    ("01 23 45 67 89", "zero one, two three, four five, six seven, eight nine"),
    ("030/1234567", "zero three zero, one two three four five six seven"),
    ("00 44 20 7946 0958", "zero zero, four four, two zero, seven nine four six, zero nine five eight"),
    ("Phone: 020 7946 0958.", "Phone: zero two zero, seven nine four six, zero nine five eight."),
    (
        "My number is 555-123-4567 ext. 12.",
        "My number is five five five, one two three, four five six seven extension one two.",
    ),
    ("555-123-4567 x12", "five five five, one two three, four five six seven, extension one two"),
    ("555-1234, ext 7", "five five five, one two three four, extension seven"),
    ("555-1234 extension 7", "five five five, one two three four extension seven"),
    ("ext. 204", "extension two zero four"),
    ("Call 911 or 999.", "Call nine one one or nine nine nine."),
    ("Dial 112.", "Dial one one two."),
    ("a 911 call", "a nine one one call"),
    ("The 911 operator", "The nine one one operator"),
    ("call 311 now", "call three one one now"),
    ("Call 911 people", "Call nine one one people"),
    ("Call 100 people.", "Call one hundred people."),
    ("text 988", "text nine eight eight"),
    ("rooms 101 102 103", "rooms one hundred one one hundred two one hundred three"),
    ("scores of 120 450 and 900", "scores of one hundred twenty four hundred fifty and nine hundred"),
    ("0 500 1000", "zero five hundred one thousand"),
    ("in 2020 300 people", "in twenty twenty three hundred people"),
    ("007 was here", "zero zero seven was here"),
    ("10 000 0000", "ten zero zero zero zero zero zero zero"),
    ("200 300 days", "two hundred three hundred days"),
]


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[written for written, _ in CASES])
def test_phone_numbers_are_read_as_a_person_would(written, spoken):
    assert normalize(written, language="en") == spoken
