"""Text to symbols, by phonemes and by characters."""

import re
import subprocess
import sys
import unicodedata

import numpy as np
import pytest

from shared.errors import ConfigError, DataError
from shared.speech.text.espeak import Espeak, languages
from shared.speech.text.frontend import make_frontend
from shared.speech.text.symbols import build_table, encode, encode_corpus


@pytest.fixture(scope="module")
def phonemes():
    return make_frontend("phonemes", "en-us")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Hello, world! How are you?", "həlˈoʊ, wˈɜːld! hˈaʊ ɑːɹ juː?"),
        (
            'Mr. Smith paid $3.50; he left... Then — well – "no" (really), he didn\'t.',
            "mˈɪstɚ smˈɪθ pˈeɪd θɹˈiː dˈɑːlɚz ænd fˈɪfti sˈɛnts; hiː lˈɛft… ðˈɛn— wˈɛl— nˈoʊ ɹˈiəli, "
            "hiː dˈɪdnt.",
        ),
        (
            "It was 3.5, e.g. this. The U.S. Army came.",
            "ɪt wʌz θɹˈiː pɔɪnt fˈaɪv, fˌɔːɹɛɡzˈæmpəl ðˈɪs. ðə jˌuːˈɛs ˈɑːɹmi kˈeɪm.",
        ),
        ("Is it ok?Yes!", "ɪz ɪɾ ˌoʊkˈeɪ? jˈɛs!"),
        ('He said: "Go." She left.', "hiː sˈɛd: ɡˈoʊ. ʃiː lˈɛft."),
        ("At 10:30 a.m. one of 1,000 men", "æt tˈɛn θˈɜːɾi ˌeɪˈɛm wˈʌn ʌv wˈʌn θˈaʊzənd mˈɛn"),
        ("What?!", "wˌʌt?"),
        ("well--then", "wˈɛl— ðˈɛn"),
        ("[[foo]]", "fˈuː"),
    ],
)
def test_phonemes_keep_punctuation_that_is_heard(phonemes, text, expected):
    assert phonemes.symbols(text) == (expected, [])


@pytest.mark.parametrize("text", ["", "   ", "...", "?!", "—", "\"'"])
def test_a_text_without_words_has_no_phonemes(phonemes, text):
    assert phonemes.symbols(text)[0] == ""


def test_what_has_no_sound_is_reported_once(phonemes):
    found, unspoken = phonemes.symbols("Wait † here † and ‡ there.")
    assert unspoken == ["†", "‡"]
    assert "†" not in found


def test_composed_and_decomposed_characters_sound_the_same(phonemes):
    assert phonemes.symbols("cafe\u0301") == phonemes.symbols("caf\u00e9")


@pytest.mark.parametrize(
    "language, text, mark",
    [
        ("fa", "سلام، دنیا!", ","),
        ("cmn", "你好，世界。", "."),
        ("es", "¿Qué tal?", "?"),
        ("fr-fr", "Ça va ?", "?"),
        ("hi", "नमस्ते दुनिया।", "."),
        ("de", "Guten Tag!", "!"),
        ("ru", "Привет, мир.", ","),
        ("EN_gb", "Good day.", "."),
    ],
)
def test_other_languages_and_their_punctuation(language, text, mark):
    found, unspoken = make_frontend("phonemes", language).symbols(text)
    assert mark in found and "(" not in found and not unspoken


@pytest.mark.parametrize(
    "language, text, plain",
    [
        ("de", "„Komm!“, rief sie. Er kam.", "Komm! rief sie. Er kam."),
        ("de", "Das ist ‚wahr‘ – sagt er.", "Das ist wahr — sagt er."),
        ("de", "»Ist das wahr?« Ja.", "Ist das wahr? Ja."),
        ("pl", "„Chodź” – powiedział.", "Chodź — powiedział."),
        ("fr-fr", "« Bonjour », dit-il.", "Bonjour, dit-il."),
        ("ja", "「はい。」 はい。", "はい。 はい。"),
        ("es", "―¿Qué tal? ―dijo.", "Qué tal? — dijo."),
        ("en-us", "a ⸺ b ﹘ c", "a — b — c"),
        ("en-us", "co\u2010op and re\u00adad", "co-op and read"),
    ],
)
def test_quotation_marks_are_quiet_and_dashes_pause_in_every_language(language, text, plain):
    frontend = make_frontend("phonemes", language)
    assert frontend.symbols(text) == (frontend.symbols(plain)[0], [])


def test_no_bracket_quotation_mark_or_dash_is_a_character_without_a_sound(phonemes):
    kinds = {"Pi", "Pf", "Ps", "Pe", "Pd"}
    every = [c for c in map(chr, range(0x3100)) if unicodedata.category(c) in kinds]
    assert len(every) > 100
    for mark in every:
        found, unspoken = phonemes.symbols(f"one {mark}two")
        # A pause may move the stress.
        assert re.sub("[ˈˌ—]", "", found) == "wʌn tuː" and not unspoken, hex(ord(mark))


def test_a_hundred_languages_are_known_and_others_refused_with_a_near_one():
    assert len(languages()) > 100
    with pytest.raises(DataError, match="Unknown language 'en-uz'.*en-us"):
        make_frontend("phonemes", "en-uz")
    with pytest.raises(DataError, match="such as de. Give"):
        make_frontend("phonemes", "German")
    with pytest.raises(ConfigError, match="expected one of phonemes, characters"):
        make_frontend("letters", "en-us")


def test_phonemes_do_not_depend_on_what_came_before(phonemes):
    texts = ["One of them read it.", "They record a record.", "It is 1984.", "What, when?"]
    forwards = [phonemes.symbols(text) for text in texts]
    make_frontend("phonemes", "de").symbols("Ein anderer Satz.")
    assert [phonemes.symbols(text) for text in reversed(texts)] == forwards[::-1]


def test_characters_are_lower_case_composed_and_all_kept():
    frontend = make_frontend("characters", "en-us")
    assert frontend.symbols("Cafe\u0301 \u00c5NG  5 €… ﬁne?") == ("café ång 5 €… fine?", [])
    assert frontend.symbols("سلام، می\u200cروم") == ("سلام، می\u200cروم", [])
    assert frontend.symbols("a\x07b\x07 snake_case") == ("a b snake case", ["\x07"])
    assert frontend.symbols(" \n ") == ("", [])


def test_the_table_is_sorted_and_numbers_come_back():
    table = build_table(["ba, c", "abd"])
    assert table == ["_", "<s>", "</s>", " ", ",", "a", "b", "c", "d"]
    numbers, unknown = encode("bad", table)
    assert numbers.dtype == np.int32
    assert [table[n] for n in numbers] == ["<s>", "b", "a", "d", "</s>"]
    assert unknown == []


def test_unknown_symbols_are_reported_once_each_and_in_order():
    numbers, unknown = encode("xaybx_", build_table(["ab"]))
    assert unknown == ["x", "y", "_"]
    assert len(numbers) == 4


def test_a_corpus_is_numbered_like_its_utterances():
    texts = ["abc", "", "b a", "ccc𝄞"]
    table = build_table(texts)
    values, offsets = encode_corpus(texts, table)
    assert values.dtype == np.int16
    for row, text in enumerate(texts):
        expected, unknown = encode(text, table)
        assert not unknown
        assert values[offsets[row] : offsets[row + 1]].tolist() == expected.tolist()
    values, offsets = encode_corpus([], table)
    assert len(values) == 0 and offsets.tolist() == [0]


def test_too_many_symbols_are_refused():
    with pytest.raises(DataError, match="at most 32,767"):
        build_table(["".join(map(chr, range(0x4E00, 0x4E00 + 33_000)))])


def test_speech_is_16_bit_audio_of_natural_length():
    voice = Espeak("en-us", "f2")
    spoken = voice.speak("The old horse slept by the river.")
    assert spoken.dtype == np.int16 and 22_050 < len(spoken) < 4 * 22_050
    assert np.abs(spoken.astype(int)).max() > 3_000
    slow = voice.speak("The old horse slept by the river.", words_per_minute=100)
    assert len(slow) > 1.3 * len(spoken)
    assert len(voice.speak("")) < 22_050


@pytest.mark.parametrize(
    "language, text",
    [
        ("en-us", "a." * 2_500),
        ("en-us", "x" * 5_000),
        ("hi", "\u032e\u0349-\u035b" * 3),
        ("hi", "\x04-\u4e3a"),
        ("hi", "\ue00c-\u0971"),
        ("fr", "\u0624\u062a\u0644" * 100),
    ],
)
def test_garbage_that_crashed_espeak_does_so_no_more(language, text):
    program = (
        "import sys; from shared.speech.text.frontend import make_frontend; make_frontend("
        "'phonemes', sys.argv[1]).symbols(bytes.fromhex(sys.argv[2]).decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, language, text.encode().hex()],
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
