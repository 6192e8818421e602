"""What may be asked of the server, and the sentence for what may not."""

import json

import pytest

from shared.speech.serving.request import MOST_CHARACTERS, RequestRefused, read_request

VOICES = ["anna", "ben"]


def read(**asked):
    return read_request(json.dumps(asked).encode(), VOICES)


def test_a_request_of_the_convention_is_understood():
    found = read(
        model="tts-1", input="Hello.", voice="ben", response_format="wav", speed=1.5,
        instructions="calmly",
    )  # fmt: skip
    assert (found.text, found.speaker, found.response_format) == ("Hello.", 1, "wav")
    assert (found.speed, found.pitch_semitones, found.stream) == (1.5, 0.0, False)


def test_only_the_text_has_to_be_there():
    found = read(input="Hello.", voice=None)
    assert (found.speaker, found.response_format, found.speed) == (0, "mp3", 1.0)


@pytest.mark.parametrize("asked", [{"stream": True}, {"stream_format": "audio"}])
def test_a_stream_is_asked_for_in_two_ways(asked):
    found = read(input="x" * (MOST_CHARACTERS + 1), **asked)
    assert found.stream


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "input is missing"),
        ({"input": 7}, "input is missing"),
        ({"input": " \n"}, "input is empty"),
        ({"input": "x" * (MOST_CHARACTERS + 1)}, "has 10,001 characters; at most 10,000"),
        ({"input": "a", "voice": "bem"}, "there is no 'bem' here. Did you mean ben? There is anna"),
        ({"input": "a", "voice": "alloy"}, "There is anna, ben."),
        ({"input": "a", "response_format": "aac"}, "'aac' is not made here; there is mp3, opus"),
        ({"input": "a", "response_format": ["mp3"]}, "is not made here"),
        ({"input": "a", "speed": 9}, "speed: found 9; expected a number from 0.25 to 4"),
        ({"input": "a", "speed": True}, "speed: found True; expected a number"),
        ({"input": "a", "speed": float("nan")}, "speed: found nan; expected a number"),
        ({"input": "a", "pitch": "high"}, "pitch: found high; expected a number from -12 to 12"),
        ({"input": "a", "stream": "yes"}, "stream: found yes; expected true or false"),
        ({"input": "a", "stream_format": "sse"}, "stream_format can only be 'audio'"),
    ],
)
def test_what_can_t_be_is_refused_in_a_sentence(asked, words):
    with pytest.raises(RequestRefused) as found:
        read(**asked)
    assert words in str(found.value) and 400 <= found.value.status < 500


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused(body):
    with pytest.raises(RequestRefused, match="is not JSON"):
        read_request(body, VOICES)


def test_a_body_that_is_no_object_is_refused():
    with pytest.raises(RequestRefused, match="has to be a JSON object"):
        read_request(b'"Hello."', VOICES)
