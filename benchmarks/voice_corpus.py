"""Make a small speech corpus of our own: seeded English sentences, spoken by flite, in LJSpeech-like folders.

    python benchmarks/voice_corpus.py --out corpora/rms --voices rms

writes `train/` and `held_out/`, each with `metadata.csv` (`path|speaker|text`) and `wavs/`, as flite speaks (16 kHz).
Several voices speak different sentences each. The held-out sentences are spoken by nobody in the training set.
"""

import argparse
import random
import shutil
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WORDS_FILE = Path(__file__).with_name("voice_words.txt")
MIN_WORDS = 3
MAX_WORDS = 18
VOWELS = "aeiou"


def load_words() -> dict[str, list[tuple[str, str]]]:
    """The vocabulary: category -> list of (base form, its second form or "" where that is regular)."""
    words: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for line in WORDS_FILE.read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        category, entries = line.split(":")
        for entry in entries.split():
            base, _, second = entry.partition("/")
            words[category][base] = second
    return {category: list(entries.items()) for category, entries in words.items()}


def plural(noun: str) -> str:
    if noun.endswith(("s", "sh", "ch", "x", "z")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in VOWELS:
        return noun[:-1] + "ies"
    return noun + "s"


def past(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in VOWELS:
        return verb[:-1] + "ied"
    ends_short = (
        len(verb) > 2
        and verb[-1] not in VOWELS + "wxyr"
        and verb[-2] in VOWELS
        and verb[-3] not in VOWELS
    )
    if ends_short and sum(letter in VOWELS for letter in verb) == 1:
        return verb + verb[-1] + "ed"
    return verb + "ed"


def vocabulary() -> set[str]:
    """Every base form that a sentence can contain."""
    return {base for entries in load_words().values() for base, _ in entries}


class SentenceMaker:
    """Draws sentences from a small phrase grammar; each word of a category is used once before any is used twice."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)
        self._words = load_words()
        self._decks: dict[str, list[tuple[str, str]]] = {}

    def _draw(self, category: str) -> tuple[str, str]:
        deck = self._decks.get(category)
        if not deck:
            deck = self._decks[category] = self._random.sample(
                self._words[category], len(self._words[category])
            )
        return deck.pop()

    def _word(self, category: str) -> str:
        return self._draw(category)[0]

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _article(self, phrase: str) -> str:
        which = self._random.choice(
            [
                "the",
                "the",
                "the",
                "a",
                "a",
                "this",
                "that",
                "my",
                "your",
                "his",
                "her",
                "our",
                "their",
            ]
        )
        if which == "a":
            which = (
                "an"
                if phrase[0].lower() in VOWELS
                and not phrase.startswith(("uni", "use", "usu", "eu", "one"))
                else "a"
            )
        return f"{which} {phrase}"

    def _noun_phrase(self, category: str) -> str:
        noun, irregular = self._draw(category)
        adjective = self._word("adjective") + " " if self._chance(0.45) else ""
        if category in ("food", "mass"):
            return self._random.choice(["the ", "some ", "fresh ", "more "]) + adjective + noun
        if category == "abstract":
            return self._article(adjective + noun)
        if self._chance(0.2):
            many = irregular or plural(noun)
            return f"{self._random.choice([self._word('number'), 'some', 'many', 'the', 'these', 'those', 'all the'])} {adjective}{many}"
        return self._article(adjective + noun)

    def _subject(self) -> str:
        kind = self._random.random()
        if kind < 0.2:
            return self._word("name")
        if kind < 0.4:
            return self._random.choice(["I", "you", "he", "she", "we", "they"])
        return self._noun_phrase(self._random.choice(["person", "person", "person", "animal"]))

    def _verb(self, category: str) -> str:
        base, irregular = self._draw(category)
        if self._chance(0.62):
            return irregular or past(base)
        return (
            self._random.choice(
                [
                    "will",
                    "can",
                    "could",
                    "should",
                    "must",
                    "might",
                    "would",
                    "did not",
                    "wanted to",
                    "had to",
                    "tried to",
                ]
            )
            + " "
            + base
        )

    def _predicate(self) -> str:
        kind = self._random.random()
        if kind < 0.42:
            target = self._random.choice(
                ["thing", "thing", "thing", "food", "countfood", "mass", "animal"]
            )
            return f"{self._verb('transitive')} {self._noun_phrase(target)}"
        if kind < 0.57:
            return f"{self._verb('about')} {self._noun_phrase('abstract')}"
        if kind < 0.7:
            return f"{self._verb('human')} {self._noun_phrase('person')}"
        return self._verb("intransitive")

    def _tail(self) -> str:
        kind = self._random.random()
        if kind < 0.5:
            return f"{self._word('location')} {self._noun_phrase('place')}"
        if kind < 0.7:
            return self._word("adverb")
        if kind < 0.85:
            return f"{self._random.choice(['last', 'next', 'every', 'that', 'one'])} {self._word('time')}"
        return f"with {self._noun_phrase(self._random.choice(['thing', 'person', 'abstract']))}"

    def _clause(self) -> str:
        clause = f"{self._subject()} {self._predicate()}"
        return f"{clause} {self._tail()}" if self._chance(0.55) else clause

    def _question(self) -> str:
        asked = self._random.choice(
            ["who", "why did", "where did", "when will", "how can", "did", "will", "could"]
        )
        if asked == "who":
            return f"who {self._verb('transitive')} {self._noun_phrase('thing')}?"
        return f"{asked} {self._subject()} {self._random.choice([self._word('intransitive'), self._word('transitive') + ' ' + self._noun_phrase('thing')])}?"

    def sentence(self) -> str:
        """One sentence of MIN_WORDS to MAX_WORDS words, with its punctuation."""
        while True:
            kind = self._random.random()
            if kind < 0.12:
                text = self._question()
            elif kind < 0.3:
                joint = (
                    self._random.choice([" and ", ", but ", ", so "])
                    if self._chance(0.4)
                    else f" {self._word('linker')} "
                )
                text = f"{self._clause()}{joint}{self._clause()}."
            elif kind < 0.42:
                be = self._random.choice(["is", "was", "seems", "looks", "became"])
                noun = self._article(
                    self._word(
                        self._random.choice(["thing", "place", "person", "abstract", "animal"])
                    )
                )
                text = f"{noun} {be} {self._random.choice(['', 'very ', 'too ', 'rather '])}{self._word('adjective')}."
            else:
                text = f"{self._clause()}."
            if MIN_WORDS <= len(text.split()) <= MAX_WORDS:
                return text[0].upper() + text[1:]


def sentences(count: int, seed: int) -> list[str]:
    """`count` different sentences; the same for the same seed."""
    maker, made = SentenceMaker(seed), dict[str, None]()
    while len(made) < count:
        made[maker.sentence()] = None
    return list(made)


def speak(text: str, voice: str, path: Path) -> None:
    subprocess.run(
        ["flite", "-voice", voice, "-t", text, "-o", str(path)], check=True, capture_output=True
    )


def make_corpus(
    out: Path, voices: list[str], num_train: int = 640, num_held_out: int = 80, seed: int = 1
) -> None:
    """Write `out/train` and `out/held_out` with `num_train` and `num_held_out` sentences of each voice."""
    if shutil.which("flite") is None:
        sys.exit("flite, whose voices are learnt here, is not installed: apt install flite")
    texts = sentences((num_train + num_held_out) * len(voices), seed)
    jobs, metadata = [], {}
    for part, count in (("held_out", num_held_out), ("train", num_train)):
        rows = []
        (out / part / "wavs").mkdir(parents=True, exist_ok=True)
        for voice in voices:
            for number in range(count):
                relative = f"wavs/{voice}_{number:04d}.wav"
                rows.append((relative, voice, texts.pop()))
                jobs.append((rows[-1][2], voice, out / part / relative))
        metadata[out / part / "metadata.csv"] = "".join("|".join(row) + "\n" for row in rows)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: speak(*job), jobs))
    for path, lines in metadata.items():  # last: where it is, the corpus is whole
        path.write_text(lines, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--voices", nargs="+", default=["rms"], help="flite voices (default: rms)")
    parser.add_argument(
        "--train", type=int, default=640, help="training sentences of each voice (default: 640)"
    )
    parser.add_argument(
        "--held-out", type=int, default=80, help="held-out sentences of each voice (default: 80)"
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    make_corpus(
        arguments.out, arguments.voices, arguments.train, arguments.held_out, arguments.seed
    )


if __name__ == "__main__":
    main()
