"""Unit signs and their names."""

from typing import NamedTuple

from gateway.text.english.spoken import either


class Name(NamedTuple):
    """A unit in words."""

    one: str
    many: str


def _regular(**names: str) -> dict[str, Name]:
    return {sign: Name(name, f"{name}s") for sign, name in names.items()}


UNITS: dict[str, Name] = {
    **_regular(
        mm="millimetre", cm="centimetre", dm="decimetre", m="metre", km="kilometre", nm="nanometre",
        μm="micrometre",
        mi="mile", yd="yard", yds="yard", ha="hectare", ac="acre",
        mg="milligram", μg="microgram", mcg="microgram", g="gram", kg="kilogram", t="tonne", oz="ounce",
        lb="pound",
        lbs="pound", ml="millilitre", mL="millilitre", cl="centilitre", dl="decilitre", l="litre", L="litre",
        gal="gallon", qt="quart", tsp="teaspoon", tbsp="tablespoon",
        ns="nanosecond", μs="microsecond", ms="millisecond", s="second", sec="second", secs="second",
        min="minute",
        mins="minute", h="hour", hr="hour", hrs="hour", wk="week", wks="week", yr="year", yrs="year",
        V="volt", mV="millivolt", kV="kilovolt", W="watt", mW="milliwatt", kW="kilowatt", MW="megawatt",
        GW="gigawatt",
        TW="terawatt", mA="milliamp", Wh="watt hour", kWh="kilowatt hour", MWh="megawatt hour",
        GWh="gigawatt hour",
        TWh="terawatt hour", mAh="milliamp hour", Ah="amp hour", kΩ="kiloohm", MΩ="megaohm", Ω="ohm",
        kJ="kilojoule", MJ="megajoule", cal="calorie", kcal="kilocalorie", Pa="pascal", hPa="hectopascal",
        kPa="kilopascal", MPa="megapascal", dB="decibel", dBA="decibel", Nm="newton metre", px="pixel",
        Mpx="megapixel",
        kB="kilobyte", KB="kilobyte", MB="megabyte", GB="gigabyte", TB="terabyte", PB="petabyte",
        KiB="kibibyte",
        MiB="mebibyte", GiB="gibibyte", TiB="tebibyte", kbit="kilobit", Mbit="megabit", Gbit="gigabit",
    ),
    "Hz": Name("hertz", "hertz"), "kHz": Name("kilohertz", "kilohertz"),
    "MHz": Name("megahertz", "megahertz"),
    "GHz": Name("gigahertz", "gigahertz"), "THz": Name("terahertz", "terahertz"),
    "ft": Name("foot", "feet"), "ft.": Name("foot", "feet"),
    "psi": Name("pound per square inch", "pounds per square inch"),
    "bar": Name("bar", "bar"),
    "mph": Name("mile per hour", "miles per hour"), "mpg": Name("mile per gallon", "miles per gallon"),
    "kph": Name("kilometre per hour", "kilometres per hour"),
    "kmh": Name("kilometre per hour", "kilometres per hour"),
    "kbps": Name("kilobit per second", "kilobits per second"),
    "Kbps": Name("kilobit per second", "kilobits per second"),
    "Mbps": Name("megabit per second", "megabits per second"),
    "Gbps": Name("gigabit per second", "gigabits per second"),
    "rpm": Name("RPM", "RPM"), "fps": Name("frame per second", "frames per second"),
    "bpm": Name("beat per minute", "beats per minute"), "ppm": Name("part per million", "parts per million"),
    "sq ft": Name("square foot", "square feet"), "sq m": Name("square metre", "square metres"),
    "sq km": Name("square kilometre", "square kilometres"), "sq mi": Name("square mile", "square miles"),
    "fl oz": Name("fluid ounce", "fluid ounces"), "″": Name("inch", "inches"), "′": Name("foot", "feet"),
}  # fmt: skip

ATTACHED: dict[str, Name] = {"in": Name("inch", "inches"), "A": Name("amp", "amps")}
"""Only without a blank: "5in" but not "5 in"."""

PER: dict[str, str] = {
    "h": "hour", "hr": "hour", "hour": "hour", "s": "second", "sec": "second", "min": "minute", "d": "day",
    "day": "day", "wk": "week", "week": "week", "mo": "month", "month": "month", "yr": "year", "year": "year",
    "kg": "kilogram", "g": "gram", "l": "litre", "L": "litre", "dl": "decilitre", "dL": "decilitre",
    "ml": "millilitre", "mL": "millilitre", "m": "metre", "km": "kilometre", "lb": "pound", "oz": "ounce",
    "gal": "gallon", "ft": "foot", "mi": "mile", "person": "person", "user": "user", "night": "night",
    "unit": "unit", "item": "item", "piece": "piece", "seat": "seat", "GB": "gigabyte", "MB": "megabyte",
    "kWh": "kilowatt hour",
    "cm": "centimetre", "in": "inch", "ha": "hectare", "capita": "capita", "page": "page", "call": "call",
}  # fmt: skip
"""What may stand behind the stroke of "km/h" or "$20/hour"."""

STANDALONE = (
    "kWh",
    "MWh",
    "km/h",
    "mph",
    "kHz",
    "MHz",
    "GHz",
    "Mbps",
    "Gbps",
    "kbps",
    "km",
    "kg",
    "cm",
    "mm",
    "mAh",
    "Hz",
    "kW",
)
"""Signs that mean nothing else, read out even without a number ("in kWh")."""

# The keywords above hold the Greek letter (Python turns identifiers into NFKC), texts also the micro sign.
UNIT = either(*{unit.replace("μ", micro) for unit in UNITS for micro in "µμ"})
PER_UNIT = either(*PER)


def name(sign: str, *, singular: bool) -> str:
    """The words of a unit sign of UNITS or ATTACHED."""
    sign = sign.replace("µ", "μ")
    words = UNITS[sign] if sign in UNITS else ATTACHED[sign]
    return words.one if singular else words.many
