"""Acronyms: most are left to the engine, which spells or speaks them as it should."""

import pytest

from gateway.text import normalize

CASES = [
    ("NASA", "NASA"),
    ("FBI", "FBI"),
    ("CPUs", "CPUs"),
    ("NASA's", "NASA's"),
    ("the CEO's car", "the CEO's car"),
    ("U.S.A.", "USA."),
    ("the U.S.", "the US."),
    ("DVDs", "DVDs"),
    ("PhD", "PhD"),
    ("JSON", "Jason"),
    ("a JSON file", "a Jason file"),
    ("JSON's", "Jason's"),
    ("JSONs", "Jasons"),
    ("README", "read me"),
    ("YAML and JSON", "yammel and Jason"),
    ("CUDA", "Cuda"),
    ("IKEA's", "Ikea's"),
    ("NOAA", "Noah"),
    ("WAV file", "wave file"),
    ("PaaS", "pass"),
    ("MoMA", "Moma"),
    ("AWS", "A W S"),
    ("AWS's", "A W S's"),
    ("UPS delivered it.", "U P S delivered it."),
    ("PUSH UPS", "PUSH UPS"),
    ("IMDb", "IMDB"),
    ("CO2", "C O two"),
    ("CO2 levels", "C O two levels"),
    ("NO2 and SO2", "N O two and S O two"),
    ("H2O", "H two O"),
    ("IPv4 and IPv6", "IP version four and IP version six"),
    ("ipv6", "IP version six"),
    ("utf-8", "UTF-eight"),
    ("UTF-16", "UTF-sixteen"),
    ("UTF8", "UTF-eight"),
    ("the IT department", "the I T department"),
    ("IT support", "I T support"),
    ("DO IT NOW", "DO IT NOW"),
    ("in IT", "in IT"),
    ("US", "US"),
    ("WHO", "WHO"),
    ("NATO", "NATO"),
    ("HTML", "HTML"),
    ("SQL", "SQL"),
    ("GIF", "GIF"),
    ("data.json", "data dot json"),
    ("package.json", "package dot json"),
    ("JSON_FILE", "JSON FILE"),
    ("AT&T", "AT and T"),
    ("Q&A", "Q and A"),
    ("MIDI", "MIDI"),
    ("ZIP", "ZIP"),
    ("the AWS API", "the A W S API"),
    ("NASA, FBI and CIA", "NASA, FBI and CIA"),
]


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[written for written, _ in CASES])
def test_acronyms_are_read_as_a_person_would(written, spoken):
    assert normalize(written, language="en") == spoken
