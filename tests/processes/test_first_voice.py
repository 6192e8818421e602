"""docs/first-voice.md, from long recordings with pauses to a spoken sentence, with a small budget."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

ROOT = Path(__file__).resolve().parents[2]

from documents import command_lines, command_of, documented, the_documented, words_of

RATE = 22_050
SENTENCES = 24
TINY = (
    "--model-size", "tiny", "--batch-size", "4", "--max-steps", "2", "--samples", "0",
    "--no-report", "--vocoder-share", "0",
)  # fmt: skip


def recorded(folder: Path, corpus: Path) -> list[str]:
    """Two takes with breath between the sentences, and the script; the second has a click in it."""
    rows = (corpus / "metadata.csv").read_text("utf-8").splitlines()[:SENTENCES]
    random = np.random.default_rng(3)

    def room(samples: int) -> np.ndarray:
        return random.normal(0, 2e-3, samples).astype(np.float32)

    for number, part in enumerate((rows[: SENTENCES // 2], rows[SENTENCES // 2 :]), 1):
        take = [room(RATE)]
        for row in part:
            audio, rate = soundfile.read(next(corpus.rglob(f"{Path(row.split('|')[0]).stem}.*")))
            assert rate == RATE
            take += [audio.astype(np.float32) + room(len(audio))]
            take += [room(int(random.uniform(1.6, 2.5) * RATE))]
        if number == 2:
            take += [np.full(40, 0.5, np.float32), room(2 * RATE)]
        soundfile.write(folder / f"take-{number}.wav", np.concatenate(take), RATE)
    texts = [row.split("|")[-1] for row in rows]
    (folder / "sentences.txt").write_text("\n".join(texts) + "\n", "utf-8")
    return texts


@pytest.mark.long
def test_the_walk_from_recordings_to_a_voice(checkout):
    """What is not run here, the page's other commands, is run with the same flags elsewhere."""
    (checkout.folder / "my-voice").unlink()
    texts = recorded(checkout.folder, checkout.corpus)
    walk = [words_of(line) for page, line in command_lines() if page == "docs/first-voice.md"]
    more = {
        "examples/cut_recording.py": (),
        "check-data": (),
        "train": TINY,
        "speak": (),
    }
    for kind, flags in more.items():
        words = next(words for words in walk if command_of(words) == kind)
        command = checkout.documented(words, *flags)
        assert command.wait() == 0, command.text + checkout.logs("runs/mine")
    rows = (checkout.folder / "my-voice" / "metadata.csv").read_text("utf-8").splitlines()
    assert [row.split("|")[1] for row in rows] == texts
    originals = sorted(checkout.corpus.rglob("*.wav"))[:SENTENCES]
    cut = sorted((checkout.folder / "my-voice" / "wavs").iterdir())
    for original, piece in zip(originals, cut, strict=True):
        longer_s = soundfile.info(piece).duration - soundfile.info(original).duration
        assert -0.3 < longer_s < 0.45, (original, piece)
    assert (checkout.folder / "mine.wav").stat().st_size > 5_000
    assert (checkout.folder / "page.html").is_file()


@pytest.mark.parametrize("read_twice", [True, False])
def test_pieces_that_are_not_as_many_as_the_lines_are_listed_and_nothing_is_written(
    checkout, read_twice
):
    shutil.rmtree(checkout.folder / "my-voice", ignore_errors=True)
    (checkout.folder / "my-voice").unlink(missing_ok=True)
    texts = recorded(checkout.folder, checkout.corpus)
    lines = texts[:4] + texts[5:] if read_twice else [*texts, "One more."]
    (checkout.folder / "sentences.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (words,) = documented("examples/cut_recording.py")
    cut = checkout.documented(words)
    assert cut.wait() == 2
    assert f"{SENTENCES} pieces and {len(lines)} lines" in cut.text and "take-2.wav at" in cut.text
    assert not (checkout.folder / "my-voice").exists()
    if read_twice:
        again = checkout.documented(words, "--without", "5")
        assert again.wait() == 0, again.text
        rows = (checkout.folder / "my-voice" / "metadata.csv").read_text("utf-8").splitlines()
        assert [row.split("|")[1] for row in rows] == lines


def test_a_recording_of_nothing_has_no_pieces(checkout):
    noise = np.random.default_rng(0).normal(0, 1e-3, RATE * 3)
    soundfile.write(checkout.folder / "take-1.wav", noise, RATE)
    shutil.copy(checkout.folder / "take-1.wav", checkout.folder / "take-2.wav")
    (checkout.folder / "sentences.txt").write_text("One.\n")
    words = the_documented("examples/cut_recording.py")
    done = subprocess.run(
        [sys.executable, *words[1:]], cwd=checkout.folder, capture_output=True, text=True
    )
    assert done.returncode == 2 and "0 pieces and 1 lines" in done.stdout, done.stderr
