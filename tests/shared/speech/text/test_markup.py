"""Tags in a text: what they ask for, that everything else is text, and what is said of mistakes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InputError
from shared.speech.text.lexicon import Lexicon
from shared.speech.text.markup import MARK, Break, Sounds, Style, parse


def parts(text: str, lexicon: Lexicon | None = None) -> list:
    marked = parse(text, lexicon)
    return [marked.marks.get(part, part) for part in MARK.split(marked.text) if part]


def test_a_style_counts_from_its_tag_to_the_end_of_it():
    assert parts('It is <prosody rate="50%">very <emphasis>slow</emphasis> here</prosody> now.') == [
        "It is ", Style(0.5, 0), "very ", Style(0.4, 2), "slow", Style(0.5, 0), " here", Style(),
        " now.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("attributes", "style"),
    [
        ('rate="slow"', Style(0.8, 0)),
        ('rate="0.5"', Style(0.5, 0)),
        ("rate='+20%'", Style(1.2, 0)),
        ('rate="-20%"', Style(0.8, 0)),
        ('pitch="+2st"', Style(1, 2)),
        ('pitch="-1.5st"', Style(1, -1.5)),
        ('pitch="+100%"', Style(1, 12)),
        ('rate="fast" pitch="high"', Style(1.25, 2)),
        ("", Style()),
    ],
)
def test_prosody_is_a_rate_and_a_pitch(attributes, style):
    assert parts(f"<prosody {attributes}>so</prosody>") == [style, "so", Style()]


@pytest.mark.parametrize(
    ("tag", "seconds"),
    [
        ('<break time="500ms"/>', 0.5),
        ('<break time="1.5s" />', 1.5),
        ('<break strength="strong"/>', 0.6),
        ("<break/>", 0.35),
        ('<break time="0s"></break>', 0.0),
    ],
)
def test_a_break_is_a_silence_of_that_length(tag, seconds):
    assert parts(f"Wait{tag} now") == ["Wait", Break(seconds), " now"]


def test_phonemes_stand_between_double_brackets():
    assert parts("A [[təmˈeɪɾoʊ]], [[ tu  wɜːdz ]].") == [
        "A ", Sounds("təmˈeɪɾoʊ"), ", ", Sounds("tu wɜːdz"), ".",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["5 < 6 and 7 > 3", "I <3 you", "if a<b and c>d", "a [[b", "[[]]", "<b>bold</b>", "AT&amp;T"],
)
def test_what_is_no_tag_is_text(text):
    assert parts(text) == [text]


def test_entities_are_understood_where_there_are_tags():
    assert parts("<speak>a &lt; b &amp; c</speak>") == [Style(), "a < b & c", Style()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<emphasis>so", "<emphasis> is never closed"),
        ("so</emphasis>", "</emphasis> closes nothing here: no tag is open"),
        ("<prosody><emphasis>a</prosody>", "closes nothing here: <emphasis> is open"),
        ('<break time="5"/>', 'such as "500ms"'),
        ('<break time="60s"/>', "up to 10 s"),
        ('<break strength="huge"/>', "expected a strength of none"),
        ('<emphasis level="big">a</emphasis>', "a level of strong"),
        ('<prosody rate="quick">a</prosody>', "a rate of x-slow"),
        ('<prosody rate="9">a</prosody>', "makes 9 times the usual speed; 0.25 to 4"),
        ('<prosody pitch="+30st">a</prosody>', "makes 30 semitones"),
        ('<prosody pitch="-100%">a</prosody>', "semitones from the usual pitch"),
        ('<prosody pitch="200Hz">a</prosody>', 'or "+2st"'),
        ('<prosody volume="loud">a</prosody>', "has no volume here, only rate and pitch"),
        ("<prosody rate=slow>a</prosody>", "in quotes"),
        ('<say-as interpret-as="date">1</say-as>', "is not known here"),
        (
            '<prosody rate="0.4"><prosody rate="0.4">a</prosody></prosody>',
            "makes 0.16 times the usual speed",
        ),
    ],
)
def test_a_mistake_in_a_tag_is_told_with_what_can_be(text, words):
    with pytest.raises(InputError) as error:
        parse(text)
    assert words in str(error.value)


@given(st.text(alphabet="<>/\"'= abprosdykeimhtnc[]&;\U000f0000\n", max_size=200))
def test_any_text_is_understood_or_refused_in_words(text):
    try:
        marked = parse(text)
    except InputError as error:
        assert str(error).endswith(".")
    else:
        assert set(MARK.findall(marked.text)) == set(marked.marks)


def lexicon(tmp_path, content: str) -> Lexicon:
    path = tmp_path / "words.txt"
    path.write_text(content, encoding="utf-8")
    return Lexicon.read(str(path))


def test_a_lexicon_says_words_as_its_owner_does(tmp_path):
    found = lexicon(
        tmp_path,
        "# ours\nTandem\t[[tˈændəm]]\n\ngif\tjiff\nUS\tu s\nC++\tsee plus plus\nice cream\t[[aɪs]]\n",
    )
    assert parts("Tandem, TANDEM's gif and GIFs: US or us?", found) == [
        Sounds("tˈændəm"), ", TANDEM's jiff and GIFs: u s or us?",
    ]  # fmt: skip
    assert parts("Ice cream in C++ <emphasis>gif</emphasis>", found) == [
        Sounds("aɪs"), " in see plus plus ", Style(0.8, 2), "jiff", Style(),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("word said\n", "line 1 is 'word said'; expected a word, a tab"),
        ("a\tb\nword\t \n", "line 2 is"),
        ("", "has 0 words"),
        ("# nothing\n", "has 0 words"),
    ],
)
def test_a_lexicon_that_cannot_be_read_is_refused_with_its_line(tmp_path, content, words):
    with pytest.raises(InputError) as error:
        lexicon(tmp_path, content)
    assert words in str(error.value) and "--lexicon" in str(error.value)


def test_a_lexicon_that_is_not_there_or_no_text_is_refused(tmp_path):
    with pytest.raises(InputError, match="can't be read"):
        Lexicon.read(str(tmp_path / "none"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not UTF-8"):
        Lexicon.read(str(tmp_path / "bytes"))
