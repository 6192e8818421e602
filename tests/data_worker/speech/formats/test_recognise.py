"""Data sets as people have them: each layout recognised by looking, each bad row named."""

import os

import pytest

from data_worker.speech.formats import recognise as formats
from data_worker.speech.formats.audio_names import AudioNames
from data_worker.speech.formats.recognise import look, parse
from shared.errors import DataError


@pytest.fixture
def folder(tmp_path):
    """A folder in which `lay` puts a metadata file and empty files with the audio's names."""

    class Folder:
        path = tmp_path

        def lay(self, metadata, *audio, name="metadata.csv"):
            for file in audio:
                (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / file).touch()
            if isinstance(metadata, str):
                metadata = metadata.encode()
            (tmp_path / name).write_bytes(metadata)
            return self

        def parse(self, wanted="auto", **options):
            return parse(look(str(tmp_path), wanted, 0, **options))

    return Folder()


def rows(parsed):
    return [(row.id, row.path, row.text, row.speaker) for row in parsed.rows]


def reasons(parsed):
    return [(entry.line, entry.kind, entry.reason) for entry in parsed.left_out]


LJ = [
    ("a1", "wavs/a1.wav", "Hello there.", "default"),
    ("a2", "wavs/a2.wav", "Good bye.", "default"),
]


@pytest.mark.parametrize(
    "metadata",
    [
        "a1|Hello there.\na2|Good bye.\n",
        "a1|Hello there.\na2|Good bye.",
        "a1|hello|Hello there.\na2|bye|Good bye.\n",
        "a1.wav|Hello there.\na2.wav|Good bye.\n",
        "wavs/a1.wav|Hello there.\nwavs/a2.wav|Good bye.\n",
        "./wavs/a1.wav|Hello there.\nwavs//a2.wav|Good bye.\n",
        "id|text\na1|Hello there.\na2|Good bye.\n",
        "ID|Transcription|Normalized_Transcription\na1|x|Hello there.\na2|x|Good bye.\n",
        "audio_file|text\nwavs/a1.wav|Hello there.\nwavs/a2.wav|Good bye.\n",
        "a1|Hello there.\r\na2|Good bye.\r\n",
        "\ufeffa1|Hello there.\n\n\na2|Good bye.\n",
        "a1 | Hello there. \na2\t|\tGood bye.\n",
        "a1|Hello there.|\na2|Good bye.|\n",
        "a1|Hello there.|Hello there.\na2|Good bye.\n",
    ],
)
def test_ljspeech_in_all_its_variants(folder, metadata):
    parsed = folder.lay(metadata, "wavs/a1.wav", "wavs/a2.wav").parse()
    assert rows(parsed) == LJ
    assert not parsed.left_out


def test_lines_are_those_of_the_file(folder):
    parsed = folder.lay("\nid|text\n\na1|One.\n\na2|Two.\n", "wavs/a1.wav", "wavs/a2.wav").parse()
    assert [row.line for row in parsed.rows] == [4, 6]


def test_path_and_text(folder):
    parsed = folder.lay("x/a.flac|One two.\ny/b.mp3|Three four.\n", "x/a.flac", "y/b.mp3").parse()
    assert parsed.format == "path-text"
    assert rows(parsed) == [
        ("x/a", "x/a.flac", "One two.", "default"),
        ("y/b", "y/b.mp3", "Three four.", "default"),
    ]


def test_path_speaker_and_text(folder):
    names = [f"wavs/{n}.wav" for n in range(6)]
    metadata = "".join(
        f"{name}|{'ab'[n % 2]}|Some words number {n}.\n" for n, name in enumerate(names)
    )
    parsed = folder.lay(metadata, *names).parse()
    assert parsed.format == "path-speaker-text"
    assert [row.speaker for row in parsed.rows] == list("ababab")
    assert parsed.rows[3].text == "Some words number 3."


def test_single_words_by_few_speakers_are_told_from_normalised_text(folder):
    names = [f"wavs/{n}.wav" for n in range(8)]
    words = ["yes", "no", "up", "down", "left", "right", "stop", "go"]
    spoken = "".join(f"{n}|p{n % 2}|{words[n]}\n" for n in range(8))
    assert folder.lay(spoken, *names).parse().format == "path-speaker-text"
    normalised = "".join(f"{n}|{words[n]}|{words[n]}\n" for n in range(8))
    assert folder.lay(normalised, *names).parse().format == "ljspeech"


def test_numbers_written_out_are_normalised_text(folder):
    metadata = "a|5|five\nb|12 men|twelve men\nc|Dr. No|Doctor No\n"
    parsed = folder.lay(metadata, "wavs/a.wav", "wavs/b.wav", "wavs/c.wav").parse()
    assert parsed.format == "ljspeech"
    assert [row.text for row in parsed.rows] == ["five", "twelve men", "Doctor No"]


def test_coqui_columns_are_found_by_their_names(folder):
    header = "audio_file|text|transcription|speaker_name\n"
    parsed = folder.lay(
        header + "wavs/a.wav|One.|one|ann\nwavs/b.wav||two|bob\n", "wavs/a.wav", "wavs/b.wav"
    ).parse()
    assert parsed.format == "coqui"
    assert [(row.text, row.speaker) for row in parsed.rows] == [("One.", "ann"), ("two", "bob")]
    parsed = folder.lay(
        "audio_file|text|speaker_name|emotion_name\nwavs/a.wav|One.|ann|sad\n", "wavs/a.wav"
    ).parse()
    assert rows(parsed) == [("a", "wavs/a.wav", "One.", "ann")]


def test_metadata_train_and_eval_become_the_two_splits(folder):
    folder.lay("wavs/b.wav|Two.\n", "wavs/b.wav", name="metadata_eval.csv")
    folder.lay("wavs/a.wav|One.\n", "wavs/a.wav", name="metadata_train.csv")
    assert [row.split for row in folder.parse().rows] == [0, 1]
    assert [row.split for row in folder.parse(with_held_out=False).rows] == [None]


def test_validation_data_prefers_the_eval_file(folder):
    folder.lay("wavs/b.wav|Two.\n", "wavs/b.wav", name="metadata_eval.csv")
    folder.lay("wavs/a.wav|One.\n", "wavs/a.wav", name="metadata_train.csv")
    parsed = parse(look(str(folder.path), "auto", 1))
    assert [(row.id, row.split, row.root) for row in parsed.rows] == [("b", 1, 1)]


def test_a_metadata_file_can_be_given_instead_of_a_folder(folder):
    folder.lay("a|One two.\n", "wavs/a.wav", name="list.txt")
    folder.lay("b|Three four.\n", "wavs/b.wav", name="other.txt")
    parsed = parse(look(str(folder.path / "list.txt"), "auto", 0))
    assert [row.id for row in parsed.rows] == ["a"]
    with pytest.raises(DataError, match="found list.txt, other.txt.*give that file"):
        folder.parse()


@pytest.mark.parametrize("layout", ["wav48/{0}/{1}.wav", "wav48_silence_trimmed/{0}/{1}_mic1.flac"])
def test_vctk_folders(folder, layout):
    for speaker in ("p225", "p226"):
        for number in (1, 2):
            name = f"{speaker}_00{number}"
            folder.lay(
                f"Sentence {number}.\n", layout.format(speaker, name), name="speaker-info.txt"
            )
            (folder.path / "txt" / speaker).mkdir(parents=True, exist_ok=True)
            (folder.path / "txt" / speaker / f"{name}.txt").write_text(f"Sentence {number}.\n")
    (folder.path / "txt" / "p226" / "p226_003.txt").write_text("Never recorded.\n")
    folder.lay("x", layout.format("p315", "p315_001"), name="speaker-info.txt")
    parsed = folder.parse()
    assert parsed.format == "vctk"
    assert [(row.id, row.speaker) for row in parsed.rows] == [
        ("p225_001", "p225"),
        ("p225_002", "p225"),
        ("p226_001", "p226"),
        ("p226_002", "p226"),
    ]
    assert parsed.rows[0].path == layout.format("p225", "p225_001")
    assert [(entry.id, entry.kind) for entry in parsed.left_out] == [
        ("p226_003", "bad"),
        ("p315_001", "bad"),
    ]


def test_a_metadata_file_says_more_than_folders_that_look_like_vctk(folder):
    (folder.path / "txt").mkdir()
    folder.lay("a1|Hello there.\na2|Good bye.\n", "wavs/a1.wav", "wavs/a2.wav")
    assert rows(folder.parse()) == LJ


def test_of_two_microphones_the_first_is_used(folder):
    for microphone in ("mic2", "mic1"):
        folder.lay("x", f"wav48_silence_trimmed/p1/p1_001_{microphone}.flac", name="notes.txt")
    (folder.path / "txt" / "p1").mkdir(parents=True)
    (folder.path / "txt" / "p1" / "p1_001.txt").write_text("One.")
    assert [row.path for row in folder.parse().rows] == [
        "wav48_silence_trimmed/p1/p1_001_mic1.flac"
    ]


COMMON_VOICE = (
    "client_id\tpath\tsentence\tup_votes\n"
    'aa\tc1.mp3\t"He said ""no""."\t2\n'
    'bb\tc2.mp3\tAn "unclosed quote\t2\n'
    "bb\tc3.mp3\tThree\n"
)


def test_common_voice(folder):
    folder.lay(COMMON_VOICE, "clips/c1.mp3", "clips/c2.mp3", "clips/c3.mp3", name="validated.tsv")
    parsed = folder.parse()
    assert parsed.format == "common-voice"
    assert rows(parsed) == [
        ("c1", "clips/c1.mp3", 'He said "no".', "aa"),
        ("c2", "clips/c2.mp3", 'An "unclosed quote', "bb"),
        ("c3", "clips/c3.mp3", "Three", "bb"),
    ]


def test_common_voice_train_and_dev_become_the_two_splits(folder):
    folder.lay("client_id\tpath\tsentence\na\tx.mp3\tOne\n", "clips/x.mp3", name="train.tsv")
    folder.lay("client_id\tpath\tsentence\na\ty.mp3\tTwo\n", "clips/y.mp3", name="dev.tsv")
    assert [(row.id, row.split) for row in folder.parse().rows] == [("x", 0), ("y", 1)]


def test_the_format_can_be_said_instead_of_found(folder):
    folder.lay("a|x|One\nb|y|Two\n", "wavs/a.wav", "wavs/b.wav")
    assert [row.speaker for row in folder.parse("path-speaker-text").rows] == ["x", "y"]
    assert [row.text for row in folder.parse("ljspeech").rows] == ["One", "Two"]
    wrong = folder.parse("path-text")
    assert not wrong.rows
    assert reasons(wrong)[0] == (1, "bad", "the line has 3 columns; expected path|text")
    with pytest.raises(DataError, match="client_id, path and sentence"):
        folder.parse("common-voice")
    with pytest.raises(DataError, match="no folders txt and wav48"):
        folder.parse("vctk")


def test_a_missing_column_is_named_with_what_was_expected(folder):
    parsed = folder.lay(
        "a1|Hello there.\nno bar here\na2|Good bye.\na3|b|c|d|e\n", "wavs/a1.wav", "wavs/a2.wav"
    ).parse()
    assert rows(parsed) == LJ
    expected = "expected id|text or id|text|normalised text"
    assert reasons(parsed) == [
        (2, "bad", f"the line has 1 column; {expected}"),
        (4, "bad", f"the line has 5 columns; {expected}"),
    ]


def test_names_that_lead_out_of_the_folder_are_bad(folder):
    (folder.path.parent / "outside.wav").touch()
    folder.lay(
        "../outside.wav|One two.\n/etc/passwd|One two.\nwavs/../../../etc/passwd|One.\n"
        "|One two.\nwavs/gone.wav|One two.\ngone|One two.\n" + "x" * 2_000 + "|One two.\n"
    )
    found = reasons(folder.parse())
    assert [line for line, _, _ in found] == [1, 2, 3, 4, 5, 6, 7]
    assert all("outside the data folder" in reason for _, _, reason in found[:3])
    assert [reason for _, _, reason in found[3:]] == [
        "the row does not name its audio",
        "there is no file wavs/gone.wav",
        "there is no file wavs/gone.wav",
        "the name of its audio has 2,000 characters",
    ]


def test_an_absolute_path_inside_the_folder_becomes_relative(folder):
    folder.lay(f"{folder.path}/wavs/a.wav|One two.\n", "wavs/a.wav")
    assert [row.path for row in folder.parse().rows] == ["wavs/a.wav"]


def test_a_nul_a_megabyte_and_odd_line_separators_cost_only_their_row(folder):
    parsed = folder.lay(
        "a1|Hello there.\na2|Go\0od.\na3|"
        + "x" * 1_000_000
        + "\na4|One\u2028two\x0bthree\x85four.\n",
        "wavs/a1.wav",
        "wavs/a2.wav",
        "wavs/a3.wav",
        "wavs/a4.wav",
    ).parse()
    assert [row.id for row in parsed.rows] == ["a1", "a4"]
    assert [(line, reason[:30]) for line, _, reason in reasons(parsed)] == [
        (2, "the line holds a NUL character"),
        (3, "the line has 1,000,003 charact"),
    ]


def test_unclosed_quotes_swallow_nothing(folder):
    parsed = folder.lay('a1|"Hello there.\na2|Good" bye.\n', "wavs/a1.wav", "wavs/a2.wav").parse()
    assert [row.text for row in parsed.rows] == ['"Hello there.', 'Good" bye.']


def test_decomposed_characters_are_composed_and_still_find_their_file(folder):
    parsed = folder.lay("cafe\u0301|Un cafe\u0301 noir.\n", "wavs/cafe\u0301.wav").parse()
    assert rows(parsed) == [("caf\u00e9", "wavs/cafe\u0301.wav", "Un caf\u00e9 noir.", "default")]


def test_latin_1_is_refused_with_its_line_and_a_remedy(folder):
    folder.lay(b"a|One.\nb|" + "Caf\u00e9.\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"line 2 is not UTF-8 \(byte 0xe9\).*iconv"):
        folder.parse()


def test_utf_16_is_refused_with_a_remedy(folder):
    folder.lay("a|One.\n".encode("utf-16"))
    with pytest.raises(DataError, match="is UTF-16.*iconv"):
        folder.parse()


@pytest.mark.parametrize(
    "metadata, message",
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("one\ntwo\n", "have no '|'"),
        ("a|b|c|d|e\n" * 3, "most of its lines have 5 columns"),
    ],
)
def test_metadata_that_are_none_are_refused(folder, metadata, message):
    folder.lay(metadata)
    with pytest.raises(DataError, match=message.replace("|", r"\|")):
        folder.parse()


def test_a_header_alone_gives_no_rows(folder):
    parsed = folder.lay("id|text\n").parse()
    assert (parsed.rows, parsed.left_out) == ([], [])


def test_places_that_hold_no_data_set_are_refused(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        look(str(tmp_path / "gone"), "auto", 0)
    with pytest.raises(DataError, match="no metadata recognised"):
        look(str(tmp_path), "auto", 0)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(DataError, match="neither a folder nor a file"):
        look(str(tmp_path / "fifo"), "auto", 0)
    os.mkfifo(tmp_path / "metadata.csv")
    with pytest.raises(DataError, match="no metadata recognised"):
        look(str(tmp_path), "auto", 0)
    with pytest.raises(DataError, match="--train-data"):
        look("", "auto", 0)


def test_the_digest_changes_with_the_metadata_and_not_with_the_place(folder, tmp_path):
    source = look(str(folder.lay("a|One.\n").path), "auto", 0)
    before = formats.digest(source)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "metadata.csv").write_text("a|One.\n")
    assert formats.digest(look(str(copy), "auto", 0)) == before
    folder.lay("a|Two.\n")
    assert formats.digest(source) != before


@pytest.mark.parametrize("name", ["clip", "clip.wav", "clip.WAV", "wavs/clip.wav"])
@pytest.mark.parametrize("on_disk", ["clip.WAV", "clip.wav"])
def test_a_suffix_may_be_written_in_capitals(tmp_path, name, on_disk):
    (tmp_path / "wavs").mkdir()
    (tmp_path / "wavs" / on_disk).touch()
    assert AudioNames(str(tmp_path)).find(name) == f"wavs/{on_disk}"
