"""The whole preparation, on small corpora that are really spoken, really damaged, really crash."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import textwrap

import numpy as np
import psutil
import pytest
import soundfile

from data_worker.preparation import index_cache
from data_worker.preparation.examine import DataRefused, DataSet, examine, make_pool
from data_worker.preparation.prepare import prepare
from shared.config.option import rules_of
from shared.config.settings import SECTIONS, Config, DataConfig, TrainingConfig
from shared.config.toml_file import write_config
from shared.errors import DataError
from shared.plan.index import Index
from shared.worker.preparation_lines import Looking, NotPrepared, Prepared, decode

RATE = 22_050


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path / "cache"))


def noise(path, seconds=1.0, rate=RATE, seed=0):
    samples = np.random.default_rng(seed).normal(0, 0.1, round(seconds * rate))
    soundfile.write(path, samples, rate)


def changed(config, **options):
    """The configuration with other settings, each in the section that it belongs to."""
    for name, value in options.items():
        section = next(s for s, kind in SECTIONS.items() if name in rules_of(kind))
        settings = dataclasses.replace(getattr(config, section), **{name: value})
        config = dataclasses.replace(config, **{section: settings})
    return config


@pytest.fixture
def corpus(tmp_path):
    """Makes an LJSpeech folder of noise with the given texts, and its configuration."""

    def make(num_rows=6, extra="", **options):
        root = tmp_path / "data"
        (root / "wavs").mkdir(parents=True, exist_ok=True)
        for number in range(num_rows):
            noise(root / "wavs" / f"u{number}.wav", seed=number)
        lines = "".join(f"u{number}|Say number {number} now.\n" for number in range(num_rows))
        (root / "metadata.csv").write_text(lines + extra, encoding="utf-8")
        return changed(
            Config(training=TrainingConfig(seed=7)),
            **{"train_data": str(root), "max_bad_fraction": 1.0} | options,
        )

    return make


def out(tmp_path, name="run"):
    (tmp_path / name).mkdir(exist_ok=True)
    return tmp_path / name / "index.safetensors"


def test_a_corpus_becomes_an_index(corpus, tmp_path):
    seen = []
    index = prepare(corpus(), out(tmp_path), lambda *event: seen.append(event))
    loaded = Index.load(out(tmp_path))
    assert loaded.fingerprint == index.fingerprint
    assert loaded.ids.to_list() == [f"u{n}" for n in range(6)]
    assert loaded.paths[2] == "wavs/u2.wav"
    assert loaded.num_frames.tolist() == [RATE // 256] * 6
    assert loaded.num_samples.tolist() == [RATE] * 6
    assert sorted(loaded.split.tolist()) == [0, 0, 0, 0, 0, 1]
    assert loaded.speakers == ["default"]
    assert loaded.symbol_table[0] == "_"
    assert loaded.symbols[0][0] == 1 and loaded.symbols[0][-1] == 2
    assert -11.5 < loaded.mel_mean < 3 and loaded.mel_std > 0
    assert seen[-1][:2] == (5, 5) and (6, 6, "decoding every file once") in seen


def test_every_row_left_out_is_named_with_line_and_reason(corpus, tmp_path):
    config = corpus(
        4,
        extra="gone|No file.\nu1|Twice.\nu9|\nshort|Short.\nno bar\n"
        "tight|" + "A very long text indeed. " * 20 + "\nmute|...\n"
        "huge|" + "x" * 9_000 + "\n",
    )
    for name in ("u9", "tight", "mute", "huge"):
        noise(tmp_path / "data" / "wavs" / f"{name}.wav")
    noise(tmp_path / "data" / "wavs" / "short.wav", seconds=0.1)
    index = prepare(config, out(tmp_path))
    assert len(index) == 4
    found = [(e["line"], e["id"], e["kind"], e["reason"][:30]) for e in index.left_out]
    assert found == [
        (5, "gone", "bad", "there is no file wavs/gone.wav"),
        (6, "u1", "bad", "its id u1 is already that of l"),
        (7, "u9", "bad", "its text is empty"),
        (8, "short", "filtered", "too short: 0.10 s, min_seconds"),
        (9, "no bar", "bad", "the line has 1 column; expecte"),
        (10, "tight", "filtered", "its text has 601 symbols and i"),
        (11, "mute", "bad", "nothing in its text can be spo"),
        (12, "huge", "bad", "its text has 9,000 characters;"),
    ]


def damaged_files(wavs):
    """One file of every kind of damage, and a word of the reason each must be left out with."""
    whole = (wavs / "u0.wav").read_bytes()
    samples = np.sin(np.arange(RATE) / 10) / 2
    written = {
        "zero_bytes": (b"", "empty"),
        "header_only": (whole[:44], "cut short"),
        "truncated": (whole[:-999], "cut short"),
        "four_gigabytes": (whole[:40] + b"\xff\xff\xff\xff" + whole[44:], "4,294,967,295"),
        "zero_hertz": (whole[:24] + bytes(4) + whole[28:], "0 Hz|can't be read|can be read"),
        "not_audio": (b"words " * 999, "can be read"),
    }
    for name, (raw, _) in written.items():
        (wavs / f"{name}.wav").write_bytes(raw)
    reasons = {name: reason for name, (_, reason) in written.items()}
    for name, values, reason in (
        ("nan", np.where(np.arange(RATE) == 99, np.nan, samples), "not numbers"),
        ("silence", samples * 0, "silence"),
        ("one_sample", samples[:1], "too short"),
        ("long", np.tile(samples, 60), "too long"),
        ("channels", np.repeat(samples[:, None], 64, 1), "64 channels"),
    ):
        soundfile.write(wavs / f"{name}.wav", values, RATE, subtype="FLOAT")
        reasons[name] = reason
    soundfile.write(wavs / "mode.wav", samples, RATE)
    (wavs / "mode.wav").chmod(0)
    os.mkfifo(wavs / "fifo.wav")
    os.symlink("/etc/passwd", wavs / "link.wav")
    (wavs / "folder.wav").mkdir()
    return reasons | {
        "mode": "mode 000",
        "fifo": "FIFO",
        "link": "symbolic link",
        "folder": "a folder",
    }


def test_a_corpus_with_every_kind_of_damage_names_all_of_it(corpus, tmp_path):
    corpus(10)
    reasons = damaged_files(tmp_path / "data" / "wavs")
    lines = [f"{name}|Some words.\n" for name in reasons]
    lines += ["../../../etc/passwd|Some words.\n", "/etc/passwd|Some words.\n", "a\0b|Words.\n"]
    index = prepare(corpus(10, "".join(lines)), out(tmp_path))
    assert len(index) == 10
    found = [(entry["line"], entry["reason"]) for entry in index.left_out]
    expected = [*reasons.values(), "outside", "outside", "NUL"]
    assert [line for line, _ in found] == list(range(11, 11 + len(expected)))
    for (_, reason), word in zip(found, expected, strict=True):
        assert re.search(word, reason), (reason, word)


def test_too_many_bad_rows_end_it_with_count_reasons_and_command(corpus, tmp_path):
    extra = "".join(f"gone{n}|No file.\n" for n in range(4))
    with pytest.raises(DataRefused) as caught:
        prepare(corpus(6, extra, max_bad_fraction=0.05), out(tmp_path))
    message = str(caught.value)
    assert "4 of 10 rows are bad (40.0%, max_bad_fraction is 5.0%)" in message
    assert "Mend them, or allow more with --max-bad-fraction 0.4. Run" in message
    assert message.count("metadata.csv line") == 3
    assert "check-data --train-data" in message
    assert len(caught.value.left_out) == 4
    assert not out(tmp_path).exists()


def test_the_fraction_that_is_named_as_the_remedy_admits_the_data(corpus, tmp_path):
    config = corpus(5, "gone|No file.\n", max_bad_fraction=0.05)
    with pytest.raises(DataRefused, match=r"\(16\.7%.*--max-bad-fraction 0\.17\."):
        prepare(config, out(tmp_path))
    config = changed(config, max_bad_fraction=0.17)
    assert len(prepare(config, out(tmp_path))) == 5


def test_filtered_rows_do_not_count_as_bad(corpus, tmp_path):
    config = corpus(6, "s1|Short.\ns2|Short.\n", max_bad_fraction=0.0)
    for name in ("s1", "s2"):
        noise(tmp_path / "data" / "wavs" / f"{name}.wav", seconds=0.1)
    assert len(prepare(config, out(tmp_path))) == 6


@pytest.mark.parametrize(
    "num_rows, extra, message",
    [
        (1, "", "only 1 of its 1 rows can be used"),
        (0, "gone|No.\n", "none of its 1 rows can be used"),
        (0, "id|text\n", "the metadata has no rows"),
    ],
)
def test_too_little_speech_is_refused_with_a_sentence(corpus, tmp_path, num_rows, extra, message):
    with pytest.raises(DataError, match=message):
        prepare(corpus(num_rows, extra), out(tmp_path))


def test_two_utterances_are_enough(corpus, tmp_path):
    assert sorted(prepare(corpus(2), out(tmp_path)).split.tolist()) == [0, 1]


def test_an_unknown_language_is_refused(corpus, tmp_path):
    with pytest.raises(DataError, match="Unknown language 'en-uz'.*en-us"):
        prepare(corpus(2, language="en-uz"), out(tmp_path))


def test_characters_are_the_other_frontend(corpus, tmp_path):
    index = prepare(corpus(2, text_frontend="characters"), out(tmp_path))
    spoken = "".join(index.symbol_table[n] for n in index.symbols[1])
    assert spoken == "<s>say number 1 now.</s>"


def test_validation_data_of_its_own(corpus, tmp_path):
    config = corpus(3)
    other = tmp_path / "other"
    (other / "wavs").mkdir(parents=True)
    noise(other / "wavs" / "u0.wav")
    (other / "metadata.csv").write_text("u0|Something else.\n")
    index = prepare(changed(config, val_data=str(other)), out(tmp_path))
    assert index.split.tolist() == index.root.tolist() == [0, 0, 0, 1]


def test_a_row_is_not_both_trained_and_validated_on(corpus, tmp_path):
    config = corpus(3)
    root = tmp_path / "data"
    os.rename(root / "metadata.csv", root / "metadata_train.csv")
    (root / "metadata_eval.csv").write_text("u0|Say number 0 now.\n")
    with make_pool() as pool:
        examined = examine(DataSet.of(config), pool)
    assert [entry.reason for entry in examined.left_out] == [
        "its id u0 is already that of line 1 of metadata_train.csv"
    ]
    assert sorted(prepare(config, out(tmp_path)).split.tolist()) == [0, 0, 1]


def test_validation_data_without_a_usable_row_is_refused(corpus, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "metadata.csv").write_text("gone|Something else.\n")
    config = changed(corpus(3), val_data=str(tmp_path / "other"))
    with pytest.raises(DataRefused, match="none of its rows can be used to validate on"):
        prepare(config, out(tmp_path))


def test_the_second_run_reads_no_audio(corpus, tmp_path):
    config = corpus()
    first = prepare(config, out(tmp_path))
    seen = []
    second = prepare(config, out(tmp_path, "run2"), lambda *event: seen.append(event[2]))
    assert second.fingerprint == first.fingerprint
    assert second.preparation["cached"] and not first.preparation["cached"]
    assert seen == ["looking for an index of an earlier run"]


def test_the_cache_notices_every_change(corpus, tmp_path):
    config = corpus(6, "gone|No file.\n")
    prepare(config, out(tmp_path))

    def cached(config=config):
        return prepare(config, out(tmp_path)).preparation["cached"]

    assert cached()
    assert cached(changed(config, task="vocoder"))  # of the same recordings, the same index
    assert not cached(changed(config, seed=8))
    assert not cached(changed(config, trim_db=40.0))
    noise(tmp_path / "data" / "wavs" / "u3.wav", seconds=1.5)
    assert not cached() and cached()
    soundfile.write(tmp_path / "data" / "wavs" / "gone.flac", np.ones(10) / 2, RATE)
    assert not cached() and cached()
    with open(tmp_path / "data" / "metadata.csv", "a") as file:
        file.write("u77|More.\n")
    assert not cached()


def test_a_damaged_cache_entry_is_made_again(corpus, tmp_path):
    config = corpus()
    first = prepare(config, out(tmp_path))
    (entry,) = (tmp_path / "cache" / "indexes").glob("*.safetensors")
    raw = bytearray(entry.read_bytes())
    raw[len(raw) // 2] ^= 1
    entry.write_bytes(raw)
    again = prepare(config, out(tmp_path))
    assert not again.preparation["cached"] and again.fingerprint == first.fingerprint


def test_without_a_home_the_cache_is_beside_the_run(monkeypatch, tmp_path):
    for name in ("TANDEM_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert index_cache.cache_folder(tmp_path) == tmp_path / ".tandem-cache" / "indexes"
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    assert index_cache.cache_folder(tmp_path) == tmp_path / ".tandem-cache" / "indexes"
    assert index_cache.cache_folder(tmp_path / "file") is None


def test_the_fingerprint_is_the_same_in_another_place(corpus, tmp_path):
    config = corpus()
    first = prepare(config, out(tmp_path))
    os.rename(tmp_path / "data", tmp_path / "moved")
    for number in range(6):
        os.utime(tmp_path / "moved" / "wavs" / f"u{number}.wav", (1, 1))
    moved = changed(config, train_data=str(tmp_path / "moved"))
    assert prepare(moved, out(tmp_path)).fingerprint == first.fingerprint


def test_headers_are_enough_for_large_sets(corpus, tmp_path):
    index = prepare(corpus(verify="headers"), out(tmp_path))
    assert index.preparation["verify"] == "headers"
    assert index.num_samples.tolist() == [RATE] * 6


def test_unspoken_characters_are_reported_once(corpus, tmp_path):
    config = corpus(3, "u8|Stop † here †.\nu9|And † there ‡.\n")
    for name in ("u8", "u9"):
        noise(tmp_path / "data" / "wavs" / f"{name}.wav")
    assert prepare(config, out(tmp_path)).preparation["unspoken"] == ["†", "‡"]


def test_as_a_program_it_speaks_its_lines_and_writes_the_run_directory(corpus, tmp_path):
    write_config(corpus(5, "gone|No file.\n"), tmp_path / "config.toml")
    done = _run_program(tmp_path)
    *before, last = map(decode, done.stdout.splitlines())
    assert done.returncode == 0, done.stdout + done.stderr
    assert {type(line) for line in before} == {Looking}
    assert isinstance(last, Prepared)
    assert (last.usable, last.bad, last.validation) == (5, 1, 1)
    (entry,) = [json.loads(line) for line in (tmp_path / "quarantine.jsonl").open()]
    assert (entry["id"], entry["line"], entry["kind"]) == ("gone", 6, "bad")
    assert len(Index.load(tmp_path / "index.safetensors")) == 5


def test_as_a_program_it_ends_with_2_and_one_sentence_on_bad_data(tmp_path):
    write_config(
        Config(data=DataConfig(train_data=str(tmp_path / "gone"))), tmp_path / "config.toml"
    )
    done = _run_program(tmp_path)
    assert done.returncode == 2 and not done.stderr
    (line,) = map(decode, done.stdout.splitlines())
    assert isinstance(line, NotPrepared) and "no such folder" in line.message


def test_the_preparation_never_loads_tensorflow(corpus, tmp_path):
    write_config(corpus(3), tmp_path / "config.toml")
    program = textwrap.dedent("""
        import sys
        from data_worker.preparation.__main__ import main
        if __name__ == "__main__":
            code = main(["--run", sys.argv[1]])
            heavy = [name for name in ("tensorflow", "keras") if name in sys.modules]
            sys.exit(code or len(heavy))
    """)
    (tmp_path / "program.py").write_text(program)
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py", tmp_path],
        env=environment,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("ignored", ["", "trap '' INT; "])  # as in the background of a script
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_as_a_program_it_stops_when_told_and_leaves_no_process(corpus, tmp_path, number, ignored):
    write_config(corpus(40), tmp_path / "config.toml")
    program = [sys.executable, "-m", "data_worker.preparation", "--run", str(tmp_path)]
    command = ["sh", "-c", f'{ignored}exec "$@"', "sh", *program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        for line in process.stdout:
            if json.loads(line)["done"] > 0:
                break
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130 and b"Traceback" not in stderr
    # One that has ended but that its new parent has yet to reap is gone.
    alive = psutil.wait_procs(children, timeout=10)[1]
    assert not [child for child in alive if child.status() != psutil.STATUS_ZOMBIE]
    assert not (tmp_path / "index.safetensors").exists()


def _run_program(run):
    command = [sys.executable, "-m", "data_worker.preparation", "--run", str(run)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)
