"""Sentences of our own for the demo corpus: a seeded grammar over everyday English words."""

from __future__ import annotations

import random

FEWEST_WORDS, MOST_WORDS = 4, 14

_WORDS = {
    "person": """the teacher|the old farmer|my neighbour|a young doctor|the baker|her brother|
        his sister|the captain|our cousin|the little girl|a tall stranger|the judge|
        the painter|my uncle|the singer|a quiet boy|the driver|the gardener|your
        friend|the nurse|the shepherd|Martha|George|Nina|Oliver|Ruth|Victor|Joyce|
        the boy next door|a kind woman|the chief engineer""",
    "animal": """the grey cat|a brown dog|the old horse|a small bird|the white goose|a young
        fox|the sheep|a hungry bear|the yellow fish|a clever monkey|the black cow|a
        shy mouse""",
    "thing": """the red book|a wooden chair|the broken clock|a long letter|the blue umbrella|a
        heavy box|the silver spoon|an old photograph|the garden gate|a cup of tea|the
        kitchen table|a pair of shoes|the yellow jacket|a loaf of bread|the church bell|
        an orange|the green bottle|a measure of oil|the small engine|a thick blanket|
        the front wheel|a jar of honey|the key""",
    "place": """by the river|in the kitchen|near the station|behind the house|under the bridge|
        at the market|on the hill|beside the lake|in the garden|across the street|at
        school|in the valley|on the roof|along the shore|in the old town|outside the
        village|through the forest|above the harbour|between two trees|around the corner""",
    "time": """every morning|last night|on Sunday|before breakfast|in the spring|after the
        storm|at noon|three years ago|this evening|during the winter|once a week|until
        sunset|in July|all day|just before dawn|for eight hours|as usual|at the end of
        the month""",
    "saw": """found|carried|lost|sold|painted|remembered|noticed|bought|described|chose|
        hid|measured|brought|kept|forgot|picked up|looked for|asked about|gave away|
        thought of|paid for""",
    "see": """find|carry|lose|sell|paint|remember|notice|buy|describe|choose|hide|
        measure|bring|keep|forget|pick up|look for|ask about|give away|think of|pay
        for""",
    "slept": """slept|laughed|waited|danced|worked|sang|walked home|stood still|fell asleep|
        smiled|ran away|arrived|talked for an hour|sat down|read aloud|played|rested|
        whispered|vanished""",
    "sleep": """sleep|laugh|wait|dance|work|sing|walk home|stand still|fall asleep|smile|
        run away|arrive|talk for an hour|sit down|read aloud|play|rest|whisper|
        vanish""",
    "how": """quietly|very slowly|without a word|in a hurry|with great care|happily|for no
        reason|together|at once|almost too late|rather well|again and again|with both
        hands|by chance""",
    "weather": """the rain|a cold wind|the bright moon|heavy snow|the morning fog|the thunder|a
        thin cloud|the sun|the first frost|a warm breeze""",
    "went": """came from the north|covered the fields|lasted for nine days|moved over the
        mountains|stopped near midnight|turned the sky yellow|shook the windows|reached
        the coast|went on and on|made the children cheer""",
    "quality": """too expensive|much older than we thought|as light as a feather|nearly finished|
        full of water|worth seeing|hard to explain|easy to break|quite beautiful|the
        best of all|far too loud|smooth and round|rough on one side|just right""",
    "reason": """because the road was closed|although nobody asked|while the others waited|when
        the music began|since there was no light|before anyone could answer|as soon as it
        was dark|because it was cheaper|until the water boiled|if the weather allowed""",
    "number": "two|three|four|five|six|seven|nine|eleven|twelve|fifteen|twenty|thirty|ninety",
    "things": """apples|boats|children|houses|candles|stories|pictures|horses|chairs|
        islands|songs|pages|bridges|letters|cherries|stones|birds|questions|
        villages|watches""",
    "say": "It seems that|Everyone knows that|They told us that|I believe|We heard that|Perhaps",
}
_PATTERNS = """{person} {saw} {thing} {place}.|{person} {slept} {place} {time}.|{time}, {person}
        {saw} {thing}.|{animal} {slept} {place}.|{animal} and {animal} {slept} {how}.|
        {person} {saw} {thing} {how}.|{weather} {went}.|{weather} {went} {time}.|{thing}
        was {quality}.|did {person} {see} {thing} {time}?|why did {animal} {sleep}
        {place}?|there were {number} {things} {place}.|{person} {saw} {number} {things}
        {time}.|{say} {person} {slept} {reason}.|{person} {slept}, but {person} {slept}
        {how}.|please {see} {thing} {time}.|{thing}, {number} {things} and {thing} were
        {quality}.|who {saw} {thing} {reason}?|how many {things} can {person} {see}?|
        {person} never {saw} {thing}; it was {quality}.|what a surprise, {thing} is
        {quality}!|{person} will {see} {thing} {reason}.|{weather} {went} {reason}.|do
        not {see} {thing} {place}!|{say} {thing} is {quality}.|{number} {things} are
        {quality}."""


def _alternatives(written: str) -> list[str]:
    return [" ".join(words.split()) for words in written.split("|")]


def demo_sentences(num_sentences: int, seed: int = 1) -> list[str]:
    """Different sentences of 4 to 14 words, the same ones for the same seed."""
    chooser = random.Random(seed)
    words = {kind: _alternatives(written) for kind, written in _WORDS.items()}
    patterns = _alternatives(_PATTERNS)
    found: dict[str, None] = {}
    attempt = 0
    while len(found) < num_sentences:
        # Patterns take turns, so that a small corpus has all of them; one whose sentences have
        # all been said is passed over.
        sentence = patterns[attempt % len(patterns)]
        attempt += 1
        while "{" in sentence:
            begin, end = sentence.index("{"), sentence.index("}")
            kind = sentence[begin + 1 : end]
            choice = chooser.choice([w for w in words[kind] if w not in sentence])
            sentence = sentence[:begin] + choice + sentence[end + 1 :]
        if FEWEST_WORDS <= len(sentence.split()) <= MOST_WORDS:
            found[sentence[0].upper() + sentence[1:]] = None
    return list(found)
