"""Abbreviations and titles."""

import pytest

from gateway.text import normalize

CASES = [
    ("Dr. Smith", "Doctor Smith"),
    ("Mr. and Mrs. Jones", "Mister and Missus Jones"),
    ("Ms. Lee", "Ms Lee"),
    ("Prof. Kim", "Professor Kim"),
    ("St. John", "Saint John"),
    ("Main St.", "Main Street."),
    ("on Main St. She ran", "on Main Street. She ran"),
    ("5th St. is long", "fifth Street is long"),
    ("Mt. Everest", "Mount Everest"),
    ("e.g. this", "for example this"),
    ("i.e. that", "that is that"),
    ("(e.g., this)", "(for example, this)"),
    ("apples, etc.", "apples, et cetera."),
    ("Apples, etc. We left.", "Apples, et cetera. We left."),
    ("etc., and", "et cetera, and"),
    ("A vs. B", "A versus B"),
    ("A vs B", "A versus B"),
    ("No. 5", "Number five"),
    ("no. 7", "number seven"),
    ("No. I said no.", "No. I said no."),
    ("Nos. 5 and 6", "Numbers five and six"),
    ("approx. 3", "approximately three"),
    ("pp. 3-4", "pages three to four"),
    ("p. 5", "page five"),
    ("Fig. 2", "Figure two"),
    ("vol. 3", "volume three"),
    ("Acme Inc. said", "Acme Incorporated said"),
    ("Acme Inc. We", "Acme Incorporated. We"),
    ("Acme Ltd.", "Acme Limited."),
    ("John Jr. left", "John Junior left"),
    ("et al. found", "et al found"),
    ("w/ milk", "with milk"),
    ("w/o milk", "without milk"),
    ("a.k.a. Bob", "also known as Bob"),
    ("the U.S. is", "the US is"),
    ("in the U.S. He", "in the US. He"),
    ("U.S.A.", "USA."),
    ("J. R. R. Tolkien", "J. R. R. Tolkien"),
    ("J.R.R. Tolkien", "J R R Tolkien"),
    ("Ph.D. student", "PhD student"),
    ("5th Ave. is", "fifth Avenue is"),
    ("min. 5", "minimum five"),
    ("Dr No", "Doctor No"),
    ("at 5 p.m.", "at five PM."),
    ("c. 1850", "circa eighteen fifty"),
    ("approx. 20%", "approximately twenty percent"),
    ("B.C.", "BC."),
    ("eg, this", "for example, this"),
    ("Lt. Col. Lee", "Lieutenant Colonel Lee"),
    ("§ 5", "section five"),
    ("№ 5", "number five"),
    ("U.K.-based", "UK-based"),
    ("The U.S. Army", "The US Army"),
    ("A.M. radio", "A M radio"),
    ("a 5 min. walk", "a five minute walk"),
]


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[written for written, _ in CASES])
def test_abbreviations_are_read_as_a_person_would(written, spoken):
    assert normalize(written, language="en") == spoken
