"""Words of German for what is written short: months, days, abbreviations, units, currencies."""

from __future__ import annotations

from typing import NamedTuple

from shared.speech.text.reading.reader import words

MONTHS = (
    "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober",
    "November", "Dezember",
)  # fmt: skip
MONTH_NAMES = {name: name for name in MONTHS} | {
    "Jan": "Januar", "Jän": "Jänner", "Jänner": "Jänner", "Feb": "Februar", "Febr": "Februar",
    "Mrz": "März", "Mär": "März", "Apr": "April", "Jun": "Juni", "Jul": "Juli", "Aug": "August",
    "Sep": "September", "Sept": "September", "Okt": "Oktober", "Nov": "November", "Dez": "Dezember",
}  # fmt: skip
MONTH_NAMES |= {name.lower(): name for name in MONTHS}
DAYS = {
    "Mo": "Montag", "Di": "Dienstag", "Mi": "Mittwoch", "Do": "Donnerstag", "Fr": "Freitag",
    "Sa": "Samstag", "So": "Sonntag",
}  # fmt: skip

# With or without a space between the parts.
LETTERED = {
    "z. B.": "zum Beispiel", "d. h.": "das heißt", "u. a.": "unter anderem",
    "i. d. R.": "in der Regel", "v. Chr.": "vor Christus", "n. Chr.": "nach Christus",
    "a. M.": "am Main", "a. d.": "an der", "u. U.": "unter Umständen", "s. o.": "siehe oben",
    "s. u.": "siehe unten", "z. T.": "zum Teil", "o. Ä.": "oder Ähnliches",
    "u. Ä.": "und Ähnliches", "o. g.": "oben genannt", "i. A.": "im Auftrag",
    "m. E.": "meines Erachtens", "z. Z.": "zur Zeit", "z. Zt.": "zur Zeit", "u. v. m.":
    "und vieles mehr", "d. J.": "dieses Jahres", "e. V.": "eingetragener Verein",
    "a. D.": "außer Dienst", "i. e. S.": "im engeren Sinne", "b. a. w.": "bis auf Weiteres",
    "o. Ä": "oder Ähnliches", "u. s. w.": "und so weiter", "m. a. W.": "mit anderen Worten",
    "s. a.": "siehe auch", "n. V.": "nach Vereinbarung", "ü. NN": "über Normalnull",
    "u. NN": "unter Normalnull", "ü. d. M.": "über dem Meer", "m. W.": "meines Wissens", "k. A.": "keine Angabe", "z. b.": "zum Beispiel", "v. a.": "vor allem",
    "o. ä.": "oder ähnliches", "u. ä.": "und ähnliches", "i. V.": "in Vertretung",
    "p. a.": "pro Jahr", "u. a. m.": "und anderes mehr", "d. M.": "dieses Monats",
}  # fmt: skip
# Their full stop never ends a sentence, as something always follows.
BEFORE_WORDS = {
    "Dr": "Doktor", "Prof": "Professor", "Hr": "Herr", "Hrn": "Herrn", "Fr": "Frau",
    "Frl": "Fräulein", "Ing": "Ingenieur", "Dipl": "Diplom", "St": "Sankt", "Nr": "Nummer",
    "Nrn": "Nummern", "Abb": "Abbildung", "Abs": "Absatz", "Art": "Artikel", "Bd": "Band",
    "Kap": "Kapitel", "Tab": "Tabelle", "Ziff": "Ziffer", "Anm": "Anmerkung", "Aufl": "Auflage",
    "Hrsg": "Herausgeber", "bzw": "beziehungsweise", "ca": "circa", "lt": "laut", "gem": "gemäß",
    "Gem": "Gemäß", "vgl": "vergleiche", "Vgl": "Vergleiche", "inkl": "inklusive",
    "exkl": "exklusive", "zzgl": "zuzüglich", "abzgl": "abzüglich", "einschl": "einschließlich",
    "ausschl": "ausschließlich", "evtl": "eventuell", "ggf": "gegebenenfalls", "sog": "sogenannte",
    "mind": "mindestens", "max": "maximal", "durchschn": "durchschnittlich", "insb":
    "insbesondere", "insbes": "insbesondere", "geb": "geboren", "gest": "gestorben",
    "verh": "verheiratet", "zw": "zwischen", "vsl": "voraussichtlich", "Mag": "Magister",
    "Lt": "Laut", "Ca": "Circa", "Inkl": "Inklusive", "Mind": "Mindestens",
    "Evtl": "Eventuell", "Ggf": "Gegebenenfalls", "Bzgl": "Bezüglich", "bzgl": "bezüglich",
    "ungef": "ungefähr", "allg": "allgemein", "österr": "österreichisch", "Ggü": "Gegenüber",
    "ggü": "gegenüber", "zus": "zusammen", "Apr": "April", "Verf": "Verfasser",
}  # fmt: skip
# These are other words where no number follows.
NUMBERED = words("Art Abs Bd Kap Tab Abb Ziff Anm Nr Nrn")
# And these where no name does.
NAMED = words("Fr St Hr Hrn Mag Ing")
# Their full stop ends a sentence where the text is at its end.
ABBREVIATIONS = {
    "usw": "und so weiter", "usf": "und so fort", "etc": "et cetera", "Str": "Straße",
    "Pl": "Platz", "Tel": "Telefon", "Std": "Stunden", "Min": "Minuten", "Sek": "Sekunden",
    "Stk": "Stück", "Jh": "Jahrhundert", "Jhd": "Jahrhundert", "Jhdt": "Jahrhundert",
    "Jhs": "Jahrhunderts",
    "Mio": "Millionen", "Mrd": "Milliarden", "Tsd": "Tausend", "Hbf": "Hauptbahnhof",
    "Bhf": "Bahnhof", "Wdh": "Wiederholung", "Adr": "Adresse", "Wo": "Wochen", "Fa": "Firma",
    "Fam": "Familie", "Betr": "Betreff", "Temp": "Temperatur", "Jg": "Jahrgang", "Zi": "Zimmer",
    "MwSt": "Mehrwertsteuer", "Mwst": "Mehrwertsteuer", "Bsp": "Beispiel", "Pkt": "Punkt",
    "Forts": "Fortsetzung", "Einw": "Einwohner", "Mitgl": "Mitglieder", "Whg": "Wohnung", "erm": "ermäßigt", "Erm": "Ermäßigt", "versch": "verschiedene",
    "jährl": "jährlich", "monatl": "monatlich", "tägl": "täglich", "vorm": "vormittags",
    "nachm": "nachmittags", "abds": "abends", "entspr": "entsprechend", "erw": "erwachsen",
}  # fmt: skip
ONLY_WITH_STOP = frozenset(
    {"Pl", "Min", "Wo", "Fa", "Fam", "Temp", "Adr", "Std", "Sek", "Str", "Zi", "vorm", "erw",
     "versch", "Tel", "Jg", "Pkt", "Bsp", "Jh", "Betr", "Forts", "Einw", "Mitgl", "entspr", "erm", "Erm"}
)  # fmt: skip
ACRONYMS = {"UNO": "Uno", "PIN": "Pin", "TÜV": "Tüf"}

NUMBER_WORDS = (
    "null", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf",
    "zwölf",
)  # fmt: skip


class GermanUnit(NamedTuple):
    """One of it, with its article, and several."""

    one: str
    many: str


def _metric(symbol: str, name: str, prefixes: str) -> dict[str, GermanUnit]:
    full = {"k": "Kilo", "M": "Mega", "G": "Giga", "T": "Tera", "m": "Milli", "c": "Zenti",
            "d": "Dezi", "h": "Hekto", "µ": "Mikro", "μ": "Mikro", "n": "Nano"}  # fmt: skip
    plain = {symbol: GermanUnit(f"ein {name}", name)}
    return plain | {
        p + symbol: GermanUnit(f"ein {full[p]}{name.lower()}", full[p] + name.lower())
        for p in prefixes
    }


def _feminine(name: str) -> GermanUnit:
    return GermanUnit(f"eine {name}", f"{name}n")


_BYTES = (("k", "Kilo"), ("M", "Mega"), ("G", "Giga"), ("T", "Tera"))
UNITS = {
    **_metric("g", "Gramm", "kmµμ"),
    **_metric("m", "Meter", "kcdmµμn"),
    **_metric("l", "Liter", "mcdh"),
    **_metric("L", "Liter", "m"),
    **_metric("W", "Watt", "kMGm"),
    **_metric("V", "Volt", "km"),
    "mA": GermanUnit("ein Milliampere", "Milliampere"),
    **{p + "B": GermanUnit(f"ein {n}byte", f"{n}byte") for p, n in _BYTES},
    **_metric("Pa", "Pascal", "khM"),
    "kJ": GermanUnit("ein Kilojoule", "Kilojoule"),
    **_metric("Hz", "Hertz", "kMG"),
    "kbit": GermanUnit("ein Kilobit", "Kilobit"),
    "KB": GermanUnit("ein Kilobyte", "Kilobyte"), "dB": GermanUnit("ein Dezibel", "Dezibel"),
    "mAh": GermanUnit("eine Milliamperestunde", "Milliamperestunden"),
    "Wh": GermanUnit("eine Wattstunde", "Wattstunden"),
    "kWh": GermanUnit("eine Kilowattstunde", "Kilowattstunden"),
    "MWh": GermanUnit("eine Megawattstunde", "Megawattstunden"),
    "kcal": GermanUnit("eine Kilokalorie", "Kilokalorien"),
    "m²": GermanUnit("ein Quadratmeter", "Quadratmeter"), "m2": GermanUnit("ein Quadratmeter", "Quadratmeter"),
    "qm": GermanUnit("ein Quadratmeter", "Quadratmeter"),
    "km²": GermanUnit("ein Quadratkilometer", "Quadratkilometer"),
    "cm²": GermanUnit("ein Quadratzentimeter", "Quadratzentimeter"),
    "m³": GermanUnit("ein Kubikmeter", "Kubikmeter"), "m3": GermanUnit("ein Kubikmeter", "Kubikmeter"),
    "cm³": GermanUnit("ein Kubikzentimeter", "Kubikzentimeter"),
    "ha": GermanUnit("ein Hektar", "Hektar"), "t": _feminine("Tonne"),
    "EL": GermanUnit("ein Esslöffel", "Esslöffel"), "TL": GermanUnit("ein Teelöffel", "Teelöffel"),
    "Std": _feminine("Stunde"), "h": _feminine("Stunde"), "min": _feminine("Minute"),
    "Min": _feminine("Minute"), "s": _feminine("Sekunde"), "Sek": _feminine("Sekunde"),
    "sek": _feminine("Sekunde"), "ms": _feminine("Millisekunde"),
    "°C": GermanUnit("ein Grad Celsius", "Grad Celsius"), "°F": GermanUnit("ein Grad Fahrenheit", "Grad Fahrenheit"),
    "Pf": GermanUnit("ein Pfund", "Pfund"),
    "Stk": GermanUnit("ein Stück", "Stück"), "MBit": GermanUnit("ein Megabit", "Megabit"),
    "Mbit": GermanUnit("ein Megabit", "Megabit"), "Gbit": GermanUnit("ein Gigabit", "Gigabit"),
    "km/h": GermanUnit("ein Kilometer pro Stunde", "Kilometer pro Stunde"),
    "m/s": GermanUnit("ein Meter pro Sekunde", "Meter pro Sekunde"),
}  # fmt: skip
PER = {
    "m²": "Quadratmeter", "m³": "Kubikmeter", "qm": "Quadratmeter", "m": "Meter", "kg": "Kilogramm",
    "g": "Gramm", "l": "Liter", "L": "Liter", "h": "Stunde", "Std": "Stunde", "min": "Minute",
    "Min": "Minute", "s": "Sekunde", "km": "Kilometer", "kWh": "Kilowattstunde", "t": "Tonne",
    "km²": "Quadratkilometer", "Tag": "Tag", "Monat": "Monat", "Jahr": "Jahr", "Woche": "Woche",
    "Stunde": "Stunde", "Person": "Person", "Stück": "Stück", "Nacht": "Nacht", "ha": "Hektar",
    "Minute": "Minute", "ml": "Milliliter", "cm³": "Kubikzentimeter",
}  # fmt: skip


class GermanCurrency(NamedTuple):
    """Its name, which is the same for one and for several, and its hundredths."""

    name: str
    cent: str = "Cent"


CURRENCIES = {
    "€": GermanCurrency("Euro"), "EUR": GermanCurrency("Euro"), "Euro": GermanCurrency("Euro"),
    "$": GermanCurrency("Dollar"), "US$": GermanCurrency("US-Dollar"), "USD": GermanCurrency("US-Dollar"),
    "£": GermanCurrency("Pfund", "Pence"), "GBP": GermanCurrency("Pfund", "Pence"),
    "CHF": GermanCurrency("Schweizer Franken", "Rappen"), "Fr.": GermanCurrency("Franken", "Rappen"),
    "SFr.": GermanCurrency("Schweizer Franken", "Rappen"), "¥": GermanCurrency("Yen"), "ct": GermanCurrency("Cent"), "Cent": GermanCurrency("Cent"), "DM": GermanCurrency("D-Mark", "Pfennig"),
}  # fmt: skip
MAGNITUDES = {
    "Mio": ("eine Million", "Millionen"), "Million": ("eine Million", "Millionen"),
    "Millionen": ("eine Million", "Millionen"), "Mrd": ("eine Milliarde", "Milliarden"),
    "Milliarde": ("eine Milliarde", "Milliarden"), "Milliarden": ("eine Milliarde", "Milliarden"),
    "Tsd": ("ein Tausend", "Tausend"), "Bio": ("eine Billion", "Billionen"),
    "Billionen": ("eine Billion", "Billionen"),
}  # fmt: skip
FRACTIONS = {
    2: "halb", 3: "Drittel", 4: "viertel", 5: "Fünftel", 6: "Sechstel", 7: "Siebtel", 8: "Achtel",
    9: "Neuntel", 10: "Zehntel", 16: "Sechzehntel", 100: "Hundertstel",
}  # fmt: skip
RULERS = words(
    "Heinrich Ludwig Friedrich Wilhelm Karl Otto Franz Josef Joseph Maximilian Rudolf Elisabeth Georg "
    "Katharina Peter Paul Johannes Pius Benedikt Leo Gregor Klemens Clemens Urban Innozenz Alexander "
    "Nikolaus Iwan Napoleon Ramses Maria Viktor Ferdinand Gustav Christian Margarethe Harald Alfons "
    "Juan Isabella Leopold Albert Albrecht Sigismund Konstantin Theodosius Kleopatra Ptolemäus "
    "Darius Xerxes Mehmed Selim Jakob Eduard Richard Philipp Franziskus Konrad Lothar Charles Henry "
    "August Ernst Adolf Eberhard Carl Welf Innocenz Clemens Berthold Balduin Ottokar Wenzel Alarich Chlodwig Pippin Philip"
)
COUNTED = words(
    "Kapitel Band Teil Akt Klasse Artikel Typ Stufe Phase Abschnitt Buch Szene Runde Weltkrieg Tabelle "
    "Abbildung Anhang Bauteil Gruppe Kategorie Grad Block Liga Lektion Anlage Diabetes Hartz"
)
