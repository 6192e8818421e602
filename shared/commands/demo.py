"""`demo`: make a small speech corpus, train on two fake GPUs, speak a sentence."""

from __future__ import annotations

import time
from pathlib import Path

from shared.commands.train import run
from shared.config.flags import PlainParser
from shared.config.installation import PROGRAM
from shared.config.settings import Config, DataConfig, RunConfig, TaskConfig, TrainingConfig
from shared.console.say import say_plainly
from shared.errors import ConfigError, TandemError
from shared.launching.foreground_child import ending_in_words, run_in_foreground
from shared.run.directory import free_name

SENTENCE = "The young doctor found a long letter in the old garden."
_NUM_UTTERANCES = 360


def demo_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(prog=f"{PROGRAM} demo", description=__doc__)
    parser.add_argument("--out", default="demo", metavar="DIR", help="where everything goes [demo]")
    parser.add_argument(
        "--minutes", type=float, default=3.0, metavar="N", help="training budget [3]"
    )
    return parser


def main(arguments: list[str]) -> int:
    """Parse the flags and run the whole story."""
    flags = demo_parser().parse_all(arguments)
    if not 0.1 <= flags.minutes <= 10_000:
        raise ConfigError(f"--minutes {flags.minutes:g}: expected 0.1 to 10000.")
    out = Path(flags.out)
    say_plainly("🎬 Tandem's demo: a corpus made here, a voice trained on two fake GPUs")
    corpus = _make_corpus(out / "corpus")
    run_dir = free_name(out / "run")
    config = Config(
        data=DataConfig(train_data=str(corpus), data_gpu=0, model_gpu=1, batch_size=4),
        task=TaskConfig(model_size="tiny"),
        training=TrainingConfig(max_minutes=flags.minutes, validate_every=200),
        run=RunConfig(run_dir=str(run_dir), fake_gpus=2),
    )
    result = run(config, started_s=time.time())
    if result.exit_code:
        return result.exit_code
    wav = run_dir / "demo.wav"
    say_plainly(f"🗣  Speaking: “{SENTENCE}”")
    _child(
        "model_worker.speech.speaking.speak",
        "--run",
        str(run_dir),
        "--text",
        SENTENCE,
        "--out",
        str(wav),
    )
    say_plainly(f"🎧 Listen to {wav}")
    say_plainly(f"   More: {PROGRAM} speak --run {run_dir} --text 'Hello.' --out my.wav")
    return 0


def _make_corpus(folder: Path) -> Path:
    if (folder / "metadata.csv").exists():
        say_plainly(f"🎙  Using the corpus in {folder}")
        return folder
    say_plainly(f"🎙  Speaking {_NUM_UTTERANCES} sentences of our own with espeak-ng into {folder}")
    _child("data_worker.speech.demo.corpus", "--out", str(folder), "--num", str(_NUM_UTTERANCES))
    return folder


def _child(module: str, *arguments: str) -> None:
    status = run_in_foreground(module, list(arguments))
    if status:
        raise TandemError(f"python -m {module}: {ending_in_words(status)}.")
