"""Roman numerals, only where nothing else can be meant: behind a ruler's name, a chapter, a century."""

import re

from gateway.text.english.context import word_before
from gateway.text.english.spoken import cardinal, either, ordinal, year

_NUMBERED = (
    "Chapter", "Part", "Volume", "Vol.", "Book", "Section", "Article", "Act", "Scene", "Phase", "Type", "Class",
    "Stage", "Appendix", "Annex", "Title", "Figure", "Table", "Episode", "Season", "Round", "Schedule", "Canto", "Unit",
    "Module", "Lesson", "Level", "Category", "Tier", "Mark", "Division", "Movement", "Symphony", "Sonata", "Item",
    "Paragraph", "Clause", "Page", "Pages", "Verse", "Group", "Grade", "Factor", "Super Bowl", "Apollo", "Saturn",
    "Amendment", "Technician", "Engineer", "Algebra", "Calculus", "Physics", "Chemistry",
)  # fmt: skip

# Names of which there was a first, a fifth or a tenth: a lone I, V or X behind them is a number.
_RULERS = (
    "Henry", "Louis", "Elizabeth", "George", "Edward", "Richard", "William", "James", "Charles", "Mary", "Philip",
    "Catherine", "Frederick", "Ferdinand", "Francis", "Leopold", "Napoleon", "Nicholas", "Alexander", "Gustav",
    "Christian", "Karl", "Wilhelm", "Friedrich", "Otto", "Alfonso", "Umberto", "Haakon", "Harald", "Olav", "Margrethe",
    "Ramses", "Ramesses", "Thutmose", "Seti", "Ptolemy", "Darius", "Xerxes", "Artaxerxes", "Pius", "Benedict", "Leo",
    "Gregory", "Clement", "Innocent", "Urban", "Boniface", "Sixtus", "Celestine", "Constantine", "Theodosius",
    "Justinian", "Mehmed", "Murad", "Mohammed", "Baldwin", "Rama", "Suleiman",
)  # fmt: skip
# Names of which there was a second; "David I" and "Malcolm X" may mean something else.
_FORENAMES = (
    "John", "Paul", "Peter", "Ivan", "Carl", "Pedro", "Juan", "Carlos", "Felipe", "Emmanuel", "Olaf", "Amenhotep",
    "Cleopatra", "Cyrus", "Antiochus", "Julius", "Adrian", "Martin", "Stephen", "Eugene", "Michael", "Basil", "Selim",
    "Mahmud", "Ahmed", "Hamid", "Albert", "Rainier", "Casimir", "Sigismund", "Rudolf", "Maximilian", "Joseph",
    "Abdullah", "Hassan", "Hussein", "Malcolm", "Robert", "David", "Kenneth", "Duncan", "Donald", "Eric", "Erik",
    "Manuel", "Isabella", "Anne", "Matthew", "Thomas", "Arthur", "Victor", "Theodore", "Walter", "Anthony", "Andrew",
)  # fmt: skip
_RULER_TITLES = (
    "King", "Queen", "Pope", "Emperor", "Empress", "Tsar", "Czar", "Kaiser", "Prince", "Princess", "Duke", "Sultan",
    "Pharaoh", "Shah", "Count", "Earl", "Patriarch",
)  # fmt: skip

_SMALL = r"X{0,3}(?:IX|IV|V?I{0,3})"
_ROMAN = rf"(?=[IVXL])(?:XL|L)?{_SMALL}(?![\w-]|'[A-Zrvdl])"
_SMALL_LETTERS = r"(?=[ivx]{2})x{0,3}(?:ix|iv|v?i{0,3})(?![\w-])"
# What may follow a lone I that is a number: "Chapter I." but not "Chapter I read".
_AFTER_ONE = r"(?=[.,;:)!?—-]|\s*$|\n|[ ](?:of|and|or|to|through|is|was|diabetes|trials?|errors?|certainty)\b)"
_LONG_YEAR = r"M{1,2}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})(?!\w)"

_NUMERAL = re.compile(
    rf"(?P<war>\b[Ww]orld[ ][Ww]ar[ ](?=I{{1,3}}\b)|\bWW(?=I{{1,3}}\b|[12]\b))(?P<war_number>I{{1,3}}|[12])(?!\w)"
    rf"|(?P<numbered>\b(?:{either(*_NUMBERED)})[ ])(?P<number>I{_AFTER_ONE}|(?!I(?!\w)){_ROMAN})"
    rf"|(?P<lower>\b(?i:{either(*_NUMBERED)})[ ])(?P<small>{_SMALL_LETTERS}|(?![IVXL](?!\w)){_ROMAN})"
    rf"|(?:(?<=[;,:.\n][ ])|(?<=\n)|(?<=^)|(?<=\band[ ])|(?<=\bor[ ]))\((?P<bracketed>{_SMALL_LETTERS})\)"
    rf"|(?P<century>\b(?=[IVX]){_SMALL})(?:th|st|nd|rd)?(?=[ -](?:century|centuries|dynasty)\b)"
    rf"|(?P<ruler>\b(?:(?:{either(*_RULER_TITLES)})[ ][A-Z][a-z]{{1,20}}|{either(*_RULERS)})[ ])"
    r"(?P<of_that_name>I(?='s\b|[ ]of\b|[.;:)](?![ ][A-Z])|\s*$)|[VX](?!\w|[-.]\w|\.[ ][A-Z]))"
    rf"|(?P<person>\b(?:(?:{either(*_RULER_TITLES)})[ ][A-Z][a-z]{{1,20}}|{either(*_RULERS, *_FORENAMES)})"
    rf"(?:[ ][A-Z][a-z]{{1,20}}){{0,2}}?[ ])(?P<generation>(?![IVXL](?!\w)){_ROMAN})"
    rf"|(?P<title>\b[A-Z][a-z]{{2,20}}[ ])(?P<sequel>(?![IVXL](?!\w)){_ROMAN})"
    rf"|\b(?P<year>(?=[MDCLXVI]{{5}}){_LONG_YEAR})"
)
_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
# "Type X" may be any type.
_PLACEHOLDERS = frozenset(
    ["Type", "Class", "Figure", "Table", "Factor", "Item", "Group", "Level", "Unit", "Category", "Tier", "Page",
     "Verse", "Paragraph", "Clause", "Grade", "Division", "Appendix", "Section", "Season", "Engineer", "Stage"]
)  # fmt: skip
_NO_TITLES = frozenset(
    ["the", "mister", "missus", "doctor", "an", "in", "on", "at", "by", "my", "his", "her", "our", "your", "their",
     "this", "that", "and", "but",
     "of", "to", "for", "with", "as", "if", "when", "no", "is", "was", "start", "stop", "give", "via", "any", "some",
     "from", "use"]
)  # fmt: skip
_MEDICAL = re.compile(r"[ ](?:bag|drip|fluids?|lines?|therapy|pole|infusions?|injections?|antibiotics?|access)\b")


def expand(text: str) -> str:
    """Roman numerals in words; letters that may be a word, an initial or an acronym are left alone."""
    return _NUMERAL.sub(_speak, text)


def _speak(found: re.Match[str]) -> str:  # noqa: PLR0911 - one branch a kind of numeral
    if found["war"]:
        written = found["war_number"]
        return f"World War {cardinal(int(written) if written.isdigit() else _value(written))}"
    if found["numbered"]:
        if found["number"] == "X" and found["numbered"].strip() in _PLACEHOLDERS:
            return found[0]
        return f"{found['numbered']}{_cardinal(found['number'])}"
    if found["lower"]:
        return f"{found['lower']}{_cardinal(found['small'])}"
    if found["bracketed"]:
        return f"({_cardinal(found['bracketed'])})"
    if found["century"]:
        return ordinal(_value(found["century"]))
    if found["ruler"]:
        return f"{found['ruler']}the {ordinal(_value(found['of_that_name']))}"
    if found["person"]:
        return f"{found['person']}the {ordinal(_value(found['generation']))}"
    if found["title"]:
        return found[0] if _is_no_number(found) else f"{found['title']}{_cardinal(found['sequel'])}"
    if found["year"]:
        return year(_value(found["year"]))
    return found[0]


def _is_no_number(found: re.Match[str]) -> bool:
    """ "The IV drip" and "Rated XXX" are no sequels."""
    numeral = found["sequel"]
    if found["title"].strip().lower() in _NO_TITLES or numeral in {"XX", "XXX"}:
        return True
    return numeral == "IV" and (
        _MEDICAL.match(found.string, found.end()) is not None or word_before(found.string, found.start()) in {"a", "an"}
    )


def _cardinal(numeral: str) -> str:
    return cardinal(_value(numeral))


def _value(numeral: str) -> int:
    values = [_VALUES[letter] for letter in numeral.upper()]
    return sum(
        -value if value < following else value for value, following in zip(values, [*values[1:], 0], strict=True)
    )
