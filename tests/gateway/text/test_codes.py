"""Numbers that name instead of count."""

import pytest

from gateway.text import normalize

CASES = [
    ("Your verification code is 276983.", "Your verification code is two seven six nine eight three."),
    ("PIN: 0042.", "PIN: zero zero four two."),
    ("PIN 1234", "PIN one two three four"),
    ("OTP: 482913", "OTP: four eight two nine one three"),
    ("passcode 0000", "passcode zero zero zero zero"),
    ("Your code: 123-456", "Your code: one two three, four five six"),
    ("The code is 276 983.", "The code is two seven six, nine eight three."),
    ("code A1B2-C3", "code A one B two, C three"),
    ("Order number 12345", "Order number one two three four five"),
    ("order #20417", "order two zero four one seven"),
    ("order no. 778899", "order number seven seven eight eight nine nine"),
    ("order 12 pens", "order twelve pens"),
    ("order 20417", "order two zero four one seven"),
    ("Order 20000 units.", "Order twenty thousand units."),
    (
        "The town has 276983 people.",
        "The town has two hundred seventy-six thousand nine hundred eighty-three people.",
    ),
    ("482913 is your login code.", "four eight two nine one three is your login code."),
    ("card ending in 4242", "card ending in four two four two"),
    ("zip code 90210", "zip code nine zero two one zero"),
    ("area code 212", "area code two one two"),
    ("ID 4711", "ID four seven one one"),
    ("ticket #123456", "ticket one two three four five six"),
    ("PINs: 0042, 1234 and 9999.", "PINs: zero zero four two, one two three four and nine nine nine nine."),
    ("code 5 minutes ago", "code five minutes ago"),
    ("a 4-digit code", "a four-digit code"),
    ("The PIN is 4 digits long.", "The PIN is four digits long."),
    ("Call 555-123-4567.", "Call five five five, one two three, four five six seven."),
    ("(555) 123-4567", "five five five, one two three, four five six seven"),
    ("+1 555 123 4567", "plus one, five five five, one two three, four five six seven"),
    ("+44 20 7946 0958", "plus four four, two zero, seven nine four six, zero nine five eight"),
    ("555-1234", "five five five, one two three four"),
    ("1-800-555-0199", "one, eight zero zero, five five five, zero one nine nine"),
    ("123-45-6789", "one two three, four five, six seven eight nine"),
    ("5551234567", "five five five one two three four five six seven"),
    ("code 1,234", "code one thousand two hundred thirty-four"),
    ("Your one-time code is 12 34.", "Your one-time code is one two, three four."),
    ("flight 815", "flight eight hundred fifteen"),
    ("account number 0012345678", "account number zero zero one two three four five six seven eight"),
    ("Use code SAVE20 today.", "Use code S A V E two zero today."),
    ("code: 99% done", "code: ninety-nine percent done"),
    ("reference: AB12345", "reference: A B one two three four five"),
    ("Room 204", "Room two hundred four"),
    ("The code 404 page.", "The code four zero four page."),
]


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[written for written, _ in CASES])
def test_codes_are_read_as_a_person_would(written, spoken):
    assert normalize(written, language="en") == spoken
