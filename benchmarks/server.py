"""Does the server keep its promises? Start it on a trained run, and ask it as clients would.

    python benchmarks/server.py
    python benchmarks/server.py --run runs/mine

Without `--run` a voice with a vocoder is trained first, on sentences that flite speaks. Measured: the start, the
first sound of a long text that is streamed, 16 requests at once, memory over 2,000 requests, and how long the
whole way from text to samples takes on one core, beside `speak` with Griffin-Lim on one core of the same machine,
and what weights of 16 bits cost.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from results import Line, absent, finish, parser_of, say
from voice_corpus import make_corpus, sentences

ROOT = Path(__file__).resolve().parent.parent
MINUTES = 5.0  # of training, half of it the vocoder's
AT_ONCE, REQUESTS, SETTLED = 16, 2000, 400
_TEXTS_SEED = 9  # sentences of no corpus
_SCORED_HZ = 16_000
_MOST_GROWTH = 1.05  # of memory that is called flat

# In a process of its own, which has one core alone.
WHOLE_WAY = """
import sys, time
from pathlib import Path
from shared.speech.serving.served_voice import ServedVoice
voice = ServedVoice(Path(sys.argv[1]))
encoder = voice.encoder()
texts = sys.stdin.read().split("\\n")
for repeat in range(int(sys.argv[2]) + 1):
    begun, samples = time.perf_counter(), 0
    for text in texts:
        samples += sum(len(voice.speak(piece, 0)) for piece in encoder.encode(text))
    if repeat:  # the first one warms up
        print((time.perf_counter() - begun) / (samples / voice.sample_rate))
"""


def trained(work: Path, minutes: float) -> Path:
    """A run of `tiny` with a vocoder, made once."""
    corpus, run = work / "corpus", work / "run"
    if not (corpus / "train" / "metadata.csv").exists():
        make_corpus(corpus, ["rms"], seed=1)
    if not (run / "report.html").exists():
        say(f"▶ training for {minutes:g} minutes")
        subprocess.run(
            [
                sys.executable, "launcher.py", "--train-data", str(corpus / "train"), "--run-dir",
                str(run), "--model-size", "tiny", "--fake-gpus", "2", "--data-gpu", "0",
                "--model-gpu", "1", "--max-minutes", f"{minutes:g}", "--vocoder-share", "0.5",
                "--no-live",
            ],
            cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return run


class Server:
    """`launcher.py serve`, and a client of it."""

    def __init__(self, folder: Path):
        begun_s = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "launcher.py", "serve", "--run", str(folder), "--port", "0"],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.start_s = time.perf_counter() - begun_s
        found = re.search(r"http://([\d.]+):(\d+)", line)
        assert found, line
        self._place = found[1], int(found[2])

    def ask(self, text: str, stream: bool = False, form: str = "wav") -> tuple[int, float, float]:
        """Status, seconds to the first sound and to the end."""
        connection = http.client.HTTPConnection(*self._place, timeout=120)
        body = json.dumps({"input": text, "stream": stream, "response_format": form})
        begun_s = time.perf_counter()
        connection.request("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read(100)  # past the header of a wav, there is sound
        first_s = time.perf_counter() - begun_s
        answer.read()
        connection.close()
        return answer.status, first_s, time.perf_counter() - begun_s

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]

    def stop(self) -> tuple[int, float]:
        """Exit code and seconds."""
        begun_s = time.perf_counter()
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60), time.perf_counter() - begun_s


def exported(run: Path, *more: str) -> Path:
    """The run as ONNX; `serve` would do it too, but then its start is not measured."""
    folder = run.parent / "-".join(["onnx", *(flag.strip("-") for flag in more)])
    if not folder.exists():
        subprocess.run(
            [
                sys.executable, "launcher.py", "export", "--run", str(run), "--out", str(folder),
                "--format", "onnx", *more, *(("--vocoder", str(own)) if (own := run / "vocoder").is_dir() else ()),
            ],
            cwd=ROOT, check=True,
        )  # fmt: skip
    return folder


def halved(run: Path, texts: list[str]) -> list[Line]:
    """What 16 bits for the weights cost in sound: against the whole ones, sentence by sentence."""
    absent_ones = [why for why in map(absent, ("pesq", "speechmos")) if why]
    if absent_ones:
        return [Line("halved weights, PESQ against whole ones", [], note="; ".join(absent_ones))]
    import numpy as np
    import soxr
    from pesq import pesq
    from speechmos import dnsmos

    sys.path.insert(0, str(ROOT))
    from shared.speech.serving.served_voice import ServedVoice

    said: list[list[np.ndarray]] = []
    sizes = []
    for folder in (exported(run), exported(run, "--quantise")):
        sizes.append((folder / "voice.onnx").stat().st_size)
        voice = ServedVoice(folder)
        encoder = voice.encoder()
        spoken = (voice.speak(piece, 0) for text in texts for piece in encoder.encode(text))
        said.append([soxr.resample(each, voice.sample_rate, _SCORED_HZ) for each in spoken])
    scores = [
        pesq(_SCORED_HZ, whole[: len(half)], half[: len(whole)], "wb")
        for whole, half in zip(*said, strict=True)
    ]
    whole_mos, half_mos = (
        np.array([dnsmos.run(np.clip(each, -1, 1), _SCORED_HZ)["ovrl_mos"] for each in one])
        for one in said
    )
    return [
        Line("halved weights, size over that of whole ones", [sizes[1] / sizes[0]], most=0.55),
        Line("halved weights, PESQ against whole ones", scores, note="4.64 where nothing differs"),
        Line("halved weights, DNSMOS less that of whole ones", list(half_mos - whole_mos)),
    ]


def on_one_core(folder: Path, texts: list[str], repeats: int) -> list[float]:
    """Seconds for a second of speech, the whole way from text to samples."""
    core = min(os.sched_getaffinity(0))
    done = subprocess.run(
        [sys.executable, "-c", WHOLE_WAY, str(folder), str(repeats)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, input="\n".join(texts),
        preexec_fn=lambda: os.sched_setaffinity(0, [core]), check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [float(line) for line in done.stdout.split()]


def griffin_lim_on_one_core(run: Path, texts: list[str], repeats: int) -> list[float]:
    """The same as `speak` measures it, with Griffin-Lim."""
    core = min(os.sched_getaffinity(0))
    lines = run.parent / "texts.txt"
    lines.write_text("\n".join(texts) + "\n", "utf-8")
    found = []
    for _ in range(repeats):
        done = subprocess.run(
            [
                sys.executable, "launcher.py", "speak", "--run", str(run), "--text-file", str(lines),
                "--out-dir", str(run.parent / "spoken"), "--vocoder", "griffin-lim",
            ],
            cwd=ROOT, preexec_fn=lambda: os.sched_setaffinity(0, [core]), check=True,
            capture_output=True, text=True,
        )  # fmt: skip
        found.append(float(re.search(r"real-time factor ([\d.]+)", done.stdout)[1]))  # type: ignore[index]
    return found


def main() -> None:
    parser = parser_of(__doc__ or "", repeats=5)
    parser.add_argument("--run", type=Path, help="a run with a vocoder [one is trained]")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of that training")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="over which memory is flat")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "server")
    flags = parser.parse_args()
    run = flags.run or trained(flags.work, flags.minutes)
    folder = exported(run)
    finish(flags, measured(flags, run, folder))


def measured(flags: argparse.Namespace, run: Path, folder: Path) -> list[Line]:
    texts = sentences(40, _TEXTS_SEED)
    starts: list[float] = []
    for _ in range(flags.repeats):
        server = Server(folder)
        starts.append(server.start_s)
        server.stop()
    server = Server(folder)
    long_text = " ".join(texts)
    streams = [server.ask(long_text, stream=True, form="pcm") for _ in range(flags.repeats)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        together = list(pool.map(server.ask, texts[:AT_ONCE]))
        begun_s, before_mb = time.perf_counter(), 0.0
        statuses = []
        for i, (status, *_) in enumerate(
            pool.map(server.ask, (texts[n % len(texts)] for n in range(flags.requests)))
        ):
            statuses.append(status)
            if i == min(SETTLED, flags.requests // 2):
                before_mb = server.memory_mb()
        pace = flags.requests / (time.perf_counter() - begun_s)
    after_mb = server.memory_mb()
    code, stop_s = server.stop()
    served = sum(status == 200 for status, *_ in together)
    all_served = sum(status == 200 for status in statuses)
    ours = on_one_core(folder, texts, flags.repeats)
    theirs = griffin_lim_on_one_core(run, texts, 1)
    return [
        Line("start, command to listening", starts, "s", most=2.0),
        Line("first sound of a long text, streamed", [first for _, first, _ in streams], "s",
             most=0.2, note=f"{len(long_text):,} characters"),
        Line(f"of {AT_ONCE} at once, served", [float(served)], least=float(AT_ONCE)),
        Line(f"of {flags.requests:,} requests, {AT_ONCE} at once, served", [float(all_served)],
             least=float(flags.requests), note=f"{pace:.1f} a second"),
        Line(f"memory after them, over that after {SETTLED}", [after_mb / before_mb],
             most=_MOST_GROWTH, note=f"{before_mb:.0f} MB, then {after_mb:.0f} MB"),
        Line("whole way on one core, real-time factor", ours, most=0.02),
        Line("the same by `speak` with Griffin-Lim", theirs),
        *halved(run, texts[:16]),
        Line("stop, exit code", [float(code)], most=0.0, note=f"after {stop_s:.1f} s"),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
