"""The server's answers, over a socket, from a small voice."""

import http.client
import io
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
import soundfile
from onnx_voice import write_voice
from voice_server import DEADLINE_S, SPEECH, Served

from shared.errors import InputError
from shared.speech.serving.request import MOST_BYTES
from shared.speech.serving.served_voice import ServedVoice, is_exported
from shared.speech.text.lexicon import Lexicon


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voice")
    write_voice(folder, ["anna", "ben"])
    assert is_exported(folder)
    return folder


@pytest.fixture(scope="module")
def voice(folder):
    return ServedVoice(folder)


@pytest.fixture(scope="module")
def served(voice):
    server = Served(voice)
    yield server
    server.close()


def samples_of(content: bytes):
    samples, rate = soundfile.read(io.BytesIO(content))
    assert rate == 22_050
    return samples


def sentence_of(answer, status: int) -> str:
    assert answer[0] == status and answer[1]["content-type"] == "application/json"
    return json.loads(answer[2])["error"]["message"]


def test_a_text_is_spoken_in_the_voice_that_is_named(served):
    status, headers, content = served.speak("Hello.")
    assert (status, headers["content-type"]) == (200, "audio/wav")
    assert int(headers["content-length"]) == len(content)
    first, other = samples_of(content), samples_of(served.speak("Hello.", voice="ben")[2])
    assert len(first) > 0 and (len(first) != len(other) or (first != other).any())
    assert served.speak("Hello.", voice="anna")[2] == content


def test_words_of_the_server_s_own_are_said_as_its_lexicon_has_them(folder, voice):
    own = ServedVoice(folder, Lexicon({"tandem": "hello there"}))
    said, expected, usual = (
        [piece.symbols.tolist() for piece in each.encoder().encode(text)]
        for each, text in ((own, "Tandem."), (voice, "hello there."), (voice, "Tandem."))
    )
    assert said == expected != usual


def test_speed_makes_it_shorter_and_a_pause_lies_between_sentences(served):
    one, two, fast = (
        len(samples_of(served.speak(text, speed=speed)[2]))
        for text, speed in (("Hello.", 1.0), ("Hello. Hello.", 1.0), ("Hello.", 2.0))
    )
    assert two == pytest.approx(2 * one + 0.25 * 22_050, abs=512)
    assert fast == pytest.approx(one / 2, rel=0.05)


def test_tags_are_understood_or_refused_in_a_sentence(served):
    plain = len(samples_of(served.speak("Hello. Hello.")[2]))
    broken = len(samples_of(served.speak('Hello. <break time="2s"/> Hello.')[2]))
    assert broken - plain == pytest.approx((2 - 0.25) * 22_050, abs=256)
    slow = served.speak('<break time="1s"/><prosody rate="50%">Hello.</prosody> Hello.')[2]
    assert len(samples_of(slow)) > plain + 22_050
    assert "is never closed" in sentence_of(served.speak("<emphasis>Hello."), 400)
    silent = served.speak('<break time="1s"/>', stream=True)
    assert "nothing in it" in sentence_of(silent, 400)


def test_a_stream_says_the_same_as_a_whole_answer(served):
    text = "One red boat. Two red boats. Three."
    whole = samples_of(served.speak(text)[2])
    status, headers, content = served.speak(text, stream=True)
    assert status == 200 and "content-length" not in headers
    # Its header can't say how long it is: what follows it counts.
    assert content[:4] == b"RIFF" and len(content) == 44 + 2 * len(whole)
    assert served.ask("POST", SPEECH, {"input": "Hello."})[1]["content-type"] == "audio/mpeg"


@pytest.mark.parametrize("stream", [True, False])
def test_a_text_without_a_sound_is_refused(served, stream):
    assert "nothing in it" in sentence_of(served.speak("☃", stream=stream), 400)
    served._wait(served.is_idle)


def test_wrong_requests_are_refused_in_a_sentence(served):
    wrong = served.ask("POST", SPEECH, b"{}", Content_Type="text/plain")
    assert "Content-Type: application/json" in sentence_of(wrong, 415)
    assert "It takes POST" in sentence_of(served.ask("GET", SPEECH), 405)
    assert "Not Found" in sentence_of(served.ask("GET", "/v2"), 404)
    huge = served.ask("POST", SPEECH, {"input": "x" * MOST_BYTES, "stream": True})
    assert "larger than 1 MB" in sentence_of(huge, 413)
    assert "voice" in sentence_of(served.speak("Hello.", voice="cid"), 400)


def test_it_says_what_it_is_and_what_it_did(served):
    served.speak("Hello.", stream=True)
    assert json.loads(served.ask("GET", "/health")[2])["status"] == "ok"
    voices = json.loads(served.ask("GET", "/v1/voices")[2])["voices"]
    assert [each["id"] for each in voices] == ["anna", "ben"]
    status, headers, content = served.ask("GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain")
    found = dict(re.findall(r"^(\w+(?:\{[^}]*\})?) ([\d.e+]+)$", content.decode(), re.MULTILINE))
    assert float(found['tandem_requests_total{status="200"}']) >= 1
    assert float(found["tandem_speech_seconds_total"]) > 0
    assert float(found["tandem_first_sound_seconds_count"]) >= 1


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css"])
def test_the_page_is_there_and_asks_nobody_else(served, path):
    status, headers, content = served.ask("GET", path)
    assert status == 200 and content
    assert "default-src 'none'" in headers["content-security-policy"]
    assert b"http" not in content.replace(b"http-equiv", b"")


def test_another_name_for_this_machine_is_not_answered_to(served):
    assert served.ask("GET", "/v1/voices", Host="localhost:8090")[0] == 200
    assert served.ask("GET", "/v1/voices", Host="[::1]:8090")[0] == 200
    refused = served.ask("GET", "/v1/voices", Host="voices.example:8090")
    assert "its own machine alone" in sentence_of(refused, 403)


def test_sixteen_at_once_are_all_served(served):
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: served.speak("Hello. " * (1 + n % 3)), range(16)))
    assert [status for status, *_ in answers] == [200] * 16
    assert len({len(content) for *_, content in answers}) == 3
    served._wait(served.is_idle)


def test_whoever_goes_away_gives_the_place_back(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=DEADLINE_S)
    body = json.dumps({"input": "Hello. " * 2000, "stream": True, "response_format": "pcm"})
    connection.request("POST", SPEECH, body, {"Content-Type": "application/json"})
    assert connection.getresponse().read(1000)
    connection.close()
    served._wait(served.is_idle)


def test_a_full_queue_is_told_and_has_room_again(voice):
    server = Served(voice, most_at_once=1)
    try:
        server.speaking.enter()
        answer = server.speak("Hello.")
        assert "Ask again in a moment" in sentence_of(answer, 429)
        assert answer[1]["retry-after"] == "1"
        assert b'tandem_requests_total{status="429"} 1.0' in server.ask("GET", "/metrics")[2]
        server.speaking.leave()
        assert server.speak("Hello.")[0] == 200
    finally:
        server.close()


def test_a_token_has_to_be_known_but_for_the_page(voice):
    server = Served(voice, token="secret")
    try:
        for path in ("/", "/page.js", "/page.css", "/health"):
            assert server.ask("GET", path, Host="voices.example")[0] == 200
        for path in ("/v1/voices", "/metrics"):
            for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
                answer = server.ask("GET", path, **header)
                assert "Authorization: Bearer" in sentence_of(answer, 401)
                assert answer[1]["www-authenticate"] == "Bearer"
            assert server.ask("GET", path, Authorization="Bearer secret")[0] == 200
    finally:
        server.close()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("symbols.json", b"{}", "is no voice"),
        ("symbols.json", None, "names 3 voices"),
        ("voices.npy", b"nothing", "is no voice"),
        ("vocoder.onnx", b"nothing", "onnxruntime"),
    ],
)
def test_what_is_no_voice_is_refused(folder, tmp_path, name, content, words):
    shutil.copytree(folder, tmp_path / "voice")
    path = tmp_path / "voice" / name
    if content is None:
        content = path.read_bytes().replace(b'"anna"', b'"anna", "cid"')
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        ServedVoice(tmp_path / "voice")
