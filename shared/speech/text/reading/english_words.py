"""Words of English for what is written short: months, days, abbreviations, units, currencies."""

from __future__ import annotations

from typing import NamedTuple

from shared.speech.text.reading.reader import words

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
# As they are found, without the full stop; "May" has no shorter form.
_SHORT_MONTHS = {
    "Jan": "January", "Feb": "February", "Mar": "March", "Apr": "April", "Jun": "June",
    "Jul": "July", "Aug": "August", "Sep": "September", "Sept": "September", "Oct": "October",
    "Nov": "November", "Dec": "December",
}  # fmt: skip
MONTH_NAMES = {name: name for name in MONTHS} | _SHORT_MONTHS
MONTH_NAMES |= {name.upper(): month for name, month in MONTH_NAMES.items()}
# In small letters, but for what is another word then.
MONTH_NAMES |= {name.lower(): name for name in MONTHS if name not in ("March", "May", "August")}
DAYS = {
    "Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday",
    "Thur": "Thursday", "Thurs": "Thursday", "Fri": "Friday", "Sat": "Saturday", "Sun": "Sunday",
}  # fmt: skip

# Before a name or a number: their full stop never ends a sentence.
TITLES = {
    "Prof": "Professor", "Gen": "General", "Sgt": "Sergeant", "Capt": "Captain", "Col": "Colonel",
    "Lt": "Lieutenant", "Maj": "Major", "Cpl": "Corporal", "Cmdr": "Commander", "Adm": "Admiral",
    "Gov": "Governor", "Sen": "Senator", "Rep": "Representative", "Rev": "Reverend",
    "Hon": "Honorable", "Pres": "President", "Supt": "Superintendent", "Messrs": "Messieurs",
    "Ms": "Miz", "Mx": "Mix", "Mt": "Mount",
    "Ft": "Fort", "St": "Saint", "Sr": "Senior",
}  # fmt: skip
BEFORE_NUMBERS = {
    "No": "number", "Nos": "numbers", "Fig": "figure",
    "Figs": "figures", "fig": "figure", "figs": "figures", "p": "page", "pp": "pages",
    "P": "page", "Pp": "pages", "vol": "volume", "Vol": "volume", "vols": "volumes",
    "ch": "chapter", "Ch": "chapter", "chap": "chapter", "Chap": "chapter", "sec": "section",
    "Sec": "section", "eq": "equation", "Eq": "equation", "apt": "apartment", "Apt": "apartment",
    "rm": "room", "Rm": "room", "ext": "extension", "Ext": "extension", "art": "article",
    "Art": "article", "Rte": "route", "rte": "route", "Hwy": "highway", "hwy": "highway",
    "ca": "circa",
}  # fmt: skip
# Anywhere; their full stop ends a sentence only where the text goes on with a capital letter.
ABBREVIATIONS = {
    "vs": "versus", "etc": "et cetera", "approx": "approximately",
    "Approx": "Approximately", "Incl": "Including", "Excl": "Excluding", "Avg": "Average", "govt": "government", "Govt": "government", "Inc": "Incorporated",
    "Co": "Company", "Corp": "Corporation", "Bros": "Brothers",
    "Assn": "Association", "Univ": "University", "Jr": "Junior", "Sr": "Senior", "Esq": "Esquire",
    "Ave": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Ln": "Lane", "Pkwy": "Parkway",
    "Sq": "Square", "Pl": "Place", "Ct": "Court", "Bldg": "Building",
    "bldg": "building", "est": "established", "Est": "established", "incl": "including",
    "excl": "excluding", "max": "maximum", "min": "minimum", "misc": "miscellaneous",
    "avg": "average", "ed": "edition", "eds": "editors", "temp": "temperature",
    "tel": "telephone", "Tel": "telephone", "hr": "hour", "hrs": "hours", "mins": "minutes",
    "secs": "seconds", "yr": "year", "yrs": "years", "wk": "week", "wks": "weeks", "mo": "month",
    "mos": "months", "intl": "international", "Intl": "international", "asst": "assistant",
    "Asst": "assistant", "appt": "appointment", "attn": "attention", "Attn": "attention",
    "cont": "continued", "cf": "compare", "viz": "namely",
}  # fmt: skip
# Without their full stop they are other words.
ONLY_WITH_STOP = frozenset(
    {"Co", "Sq", "Pl", "est", "Est", "max", "min", "ed", "temp", "mo", "No", "art",
     "Art", "Ms", "Hon", "Rep", "Gen", "Sen", "Col", "Inc", "Corp", "ext", "Ext", "sec", "Sec",
     "ca", "p", "P", "Mt", "Ft", "Ct", "St", "Pres", "Rev", "ch", "Ch", "fig", "Fig", "mos",
     "misc", "cont", "Lt", "Sr", "Esq", "intl", "Maj", "Adm", "chap", "Chap", "figs", "Figs", "avg",
     "eds", "secs", "mins", "viz", "Assn", "Univ", "eq", "Eq", "Tel", "tel", "Ave", "rm", "Rm", "Nos"}
)  # fmt: skip
LETTERED = {"i.e": "that is", "Ph.D": "PhD", "a.k.a": "also known as"}
# Acronyms that espeak-ng spells, and people read.
ACRONYMS = {"RAM": "ram", "PIN": "pin", "WWI": "World War 1", "WWII": "World War 2"}
# Behind a town: "Norfolk, Va."
STATES = {
    "Ala": "Alabama", "Ariz": "Arizona", "Ark": "Arkansas", "Calif": "California",
    "Colo": "Colorado", "Conn": "Connecticut", "Del": "Delaware", "Fla": "Florida",
    "Ga": "Georgia", "Ill": "Illinois", "Ind": "Indiana", "Kan": "Kansas", "Ky": "Kentucky",
    "La": "Louisiana", "Mass": "Massachusetts", "Md": "Maryland", "Mich": "Michigan",
    "Minn": "Minnesota", "Miss": "Mississippi", "Mo": "Missouri", "Mont": "Montana",
    "Neb": "Nebraska", "Nev": "Nevada", "Okla": "Oklahoma", "Ore": "Oregon", "Pa": "Pennsylvania",
    "Tenn": "Tennessee", "Tex": "Texas", "Va": "Virginia", "Vt": "Vermont", "Wash": "Washington",
    "Wis": "Wisconsin", "Wyo": "Wyoming",
}  # fmt: skip


# At the end of a sentence they are other words: "Goodbye, Pa."
NOT_AT_THE_END = words("Pa La Miss Ill Mass Wash Mo Del Ore Ind Mont Kan Ark")
# Whose first is spoken of more than any friend of that name.
FIRST_RULERS = words(
    "Elizabeth Napoleon Ramses Darius Xerxes Wilhelm Ferdinand Leopold Mehmed Otto"
)


class Unit(NamedTuple):
    """One of it, and several."""

    one: str
    many: str


def _metric(symbol: str, name: str, prefixes: str) -> dict[str, Unit]:
    full = {"k": "kilo", "M": "mega", "G": "giga", "T": "tera", "m": "milli", "c": "centi",
            "h": "hecto", "µ": "micro", "μ": "micro", "n": "nano", "": ""}  # fmt: skip
    return {p + symbol: Unit(full[p] + name, full[p] + name + "s") for p in ["", *prefixes]}


_BYTES = (("k", "kilo"), ("M", "mega"), ("G", "giga"), ("T", "tera"))
UNITS = {
    **_metric("g", "gram", "kmµμ"),
    **_metric("m", "meter", "kcmµμn"),
    **_metric("l", "liter", "mch"),
    **_metric("L", "liter", "m"),
    **_metric("W", "watt", "kMGm"),
    **_metric("V", "volt", "km"),
    **{p + "B": Unit(f"{n}byte", f"{n}bytes") for p, n in _BYTES},
    **_metric("Pa", "pascal", "khM"),
    "kJ": Unit("kilojoule", "kilojoules"), "MJ": Unit("megajoule", "megajoules"),
    "KB": Unit("kilobyte", "kilobytes"),
    "Hz": Unit("hertz", "hertz"), "kHz": Unit("kilohertz", "kilohertz"),
    "dB": Unit("decibel", "decibels"), "mA": Unit("milliamp", "milliamps"),
    "mAh": Unit("milliamp hour", "milliamp hours"), "Wh": Unit("watt hour", "watt hours"),
    "kWh": Unit("kilowatt hour", "kilowatt hours"),
    "MWh": Unit("megawatt hour", "megawatt hours"),
    "Mbps": Unit("megabit per second", "megabits per second"),
    "Gbps": Unit("gigabit per second", "gigabits per second"),
    "KG": Unit("kilogram", "kilograms"), "kgs": Unit("kilogram", "kilograms"),
    "kbps": Unit("kilobit per second", "kilobits per second"),
    "km/h": Unit("kilometer per hour", "kilometers per hour"),
    "kph": Unit("kilometer per hour", "kilometers per hour"),
    "m/s": Unit("meter per second", "meters per second"),
    "mph": Unit("mile per hour", "miles per hour"), "mpg": Unit("mile per gallon", "miles per gallon"),
    "rpm": Unit("revolution per minute", "revolutions per minute"),
    "bpm": Unit("beat per minute", "beats per minute"),
    "fps": Unit("frame per second", "frames per second"),
    "m²": Unit("square meter", "square meters"), "m2": Unit("square meter", "square meters"),
    "m³": Unit("cubic meter", "cubic meters"), "m3": Unit("cubic meter", "cubic meters"),
    "cm²": Unit("square centimeter", "square centimeters"),
    "cm³": Unit("cubic centimeter", "cubic centimeters"),
    "sq ft": Unit("square foot", "square feet"), "sq. ft": Unit("square foot", "square feet"),
    "sq mi": Unit("square mile", "square miles"), "ft²": Unit("square foot", "square feet"),
    "ha": Unit("hectare", "hectares"), "t": Unit("ton", "tons"),
    "lb": Unit("pound", "pounds"), "oz": Unit("ounce", "ounces"),
    "fl oz": Unit("fluid ounce", "fluid ounces"), "fl. oz": Unit("fluid ounce", "fluid ounces"),
    "ft": Unit("foot", "feet"), "yd": Unit("yard", "yards"), "yds": Unit("yard", "yards"),
    "mi": Unit("mile", "miles"), "gal": Unit("gallon", "gallons"),
    "qt": Unit("quart", "quarts"), "tsp": Unit("teaspoon", "teaspoons"),
    "tbsp": Unit("tablespoon", "tablespoons"), "Tbsp": Unit("tablespoon", "tablespoons"),
    "Tsp": Unit("teaspoon", "teaspoons"),
    "cal": Unit("calorie", "calories"), "kcal": Unit("kilocalorie", "kilocalories"),
    "min": Unit("minute", "minutes"), "sec": Unit("second", "seconds"),
    "ms": Unit("millisecond", "milliseconds"), "s": Unit("second", "seconds"),
    "h": Unit("hour", "hours"), "hr": Unit("hour", "hours"), "hrs": Unit("hour", "hours"),
    "mins": Unit("minute", "minutes"), "secs": Unit("second", "seconds"),
    "wk": Unit("week", "weeks"), "wks": Unit("week", "weeks"), "yr": Unit("year", "years"),
    "yrs": Unit("year", "years"), "mo": Unit("month", "months"), "mos": Unit("month", "months"),
    "psi": Unit("P S I", "P S I"), "px": Unit("pixel", "pixels"),
    "°C": Unit("degree Celsius", "degrees Celsius"),
    "°F": Unit("degree Fahrenheit", "degrees Fahrenheit"),
}  # fmt: skip


class Currency(NamedTuple):
    """One of it, several, and its hundredths; `plain` where those are left unnamed."""

    one: str
    many: str
    cent: str = "cent"
    cents: str = "cents"
    plain: bool = False


_DOLLAR = Currency("dollar", "dollars")
_EURO = Currency("euro", "euros", plain=True)
_POUND = Currency("pound", "pounds", "penny", "pence", plain=True)
CURRENCIES = {
    "$": _DOLLAR, "US$": Currency("U.S. dollar", "U.S. dollars"), "USD": Currency("U.S. dollar", "U.S. dollars"),
    "A$": Currency("Australian dollar", "Australian dollars"),
    "C$": Currency("Canadian dollar", "Canadian dollars"),
    "€": _EURO, "EUR": _EURO, "£": _POUND, "GBP": _POUND,
    "¥": Currency("yen", "yen"), "JPY": Currency("yen", "yen"),
    "₹": Currency("rupee", "rupees"), "INR": Currency("rupee", "rupees"),
    "CHF": Currency("Swiss franc", "Swiss francs"), "₩": Currency("won", "won"),
    "₽": Currency("ruble", "rubles"), "CAD": Currency("Canadian dollar", "Canadian dollars"),
    "AUD": Currency("Australian dollar", "Australian dollars"),
}  # fmt: skip
MAGNITUDES = {
    "k": "thousand", "K": "thousand", "thousand": "thousand", "m": "million", "M": "million",
    "mn": "million", "million": "million", "b": "billion", "B": "billion", "bn": "billion",
    "billion": "billion", "tn": "trillion", "T": "trillion", "trillion": "trillion",
}  # fmt: skip

TENS = {
    2: "twenties", 3: "thirties", 4: "forties", 5: "fifties", 6: "sixties", 7: "seventies",
    8: "eighties", 9: "nineties",
}  # fmt: skip
FRACTIONS = {
    2: ("half", "halves"), 3: ("third", "thirds"), 4: ("quarter", "quarters"),
    5: ("fifth", "fifths"), 6: ("sixth", "sixths"), 7: ("seventh", "sevenths"),
    8: ("eighth", "eighths"), 9: ("ninth", "ninths"), 10: ("tenth", "tenths"),
    16: ("sixteenth", "sixteenths"), 100: ("hundredth", "hundredths"),
}  # fmt: skip
RULERS = words(
    "Henry Elizabeth George Charles Louis William James Edward Richard Philip Francis Frederick "
    "Catherine Peter Paul John Pius Benedict Leo Gregory Clement Urban Innocent Alexander Nicholas "
    "Ivan Napoleon Ramses Mary Victor Ferdinand Wilhelm Otto Maximilian Gustav Christian Margrethe "
    "Harald Haakon Carl Alfonso Juan Isabella Leopold Albert Rudolf Sigismund Constantine "
    "Theodosius Cleopatra Ptolemy Darius Xerxes Mehmed Selim Murad Robert David Malcolm Alfred "
    "Stephen Hassan Abdullah Tsar"
)
RULING = ("King", "Queen", "Pope", "Emperor", "Empress", "Tsar", "Czar", "Kaiser", "Sultan", "Prince",
          "Saint", "Pharaoh")  # fmt: skip
COUNTED = ("chapter", "part", "volume", "act", "book", "section", "phase", "type", "level", "class",
           "stage", "war", "bowl", "title", "article", "scene", "round", "grade", "figure", "table",
           "appendix", "mark", "apollo", "number", "category", "group", "division", "episode",
           "canto", "annex", "tier", "schedule")  # fmt: skip
