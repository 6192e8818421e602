"""Replicas add up in order, hear what the first one decides, and notice who is gone."""

import contextlib
import threading

import numpy as np
import pytest
import zmq

from model_worker.replicas.exchange import Hub, ReplicaLost, Spoke, Told
from model_worker.replicas.words import Begin, Contribution, Stop, Total, decode, encode
from shared.errors import ConfigError, ProtocolError

DEADLINE_S = 20.0
BEGIN = Begin(0, 7, 70, [[3, 5]], [], {"num_applied": 7}, [["weights", "w"]])
WORD = Total(0, 0.5, 0.9)
STATE = np.arange(6, dtype=np.float32).reshape(2, 3)
# Of a size that rounding tells apart in which order they are added.
VECTORS = [np.array([1e8, 1.0], np.float32), np.array([1.5, 2.0], np.float32),
           np.array([-1e8, 3.0], np.float32)]  # fmt: skip
OPERANDS = [np.array([[rank, -rank]], np.float32) for rank in range(3)]
ARRAYS = list(zip(VECTORS, OPERANDS, strict=True))


class Waited(Exception):
    """For longer than any test takes."""


class Patience:
    def __init__(self):
        self.num_waits = 0

    def __call__(self):
        self.num_waits += 1
        if self.num_waits * 0.2 > DEADLINE_S:
            raise Waited


@pytest.fixture
def team(tmp_path):
    """A hub and two spokes, each spoke in a thread of its own that the test gives work to."""
    tmp_path.chmod(0o700)
    context = zmq.Context()
    with contextlib.ExitStack() as stack:
        stack.callback(context.destroy, linger=0)
        hub = Hub(f"ipc://{tmp_path}/x", 3, context)
        stack.callback(hub.close)

        def spoke(rank):
            made = Spoke(f"ipc://{tmp_path}/x", rank, context)
            stack.callback(made.close)
            return made

        yield hub, spoke


def in_threads(*works):
    """The results of works that need each other."""
    results: list = [None] * len(works)

    def run(place, work):
        try:
            results[place] = work()
        except Exception as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    return results


def begun(hub, *spokes):
    told = in_threads(
        lambda: hub.begin(BEGIN, [STATE], Patience()),
        *(lambda each=each: each.wait_for_order(Patience()) for each in spokes),
    )
    return told[1:]


def said(step=7, batch=0, **facts):
    return Contribution(0, step, batch, [facts], {})


def test_all_begin_with_the_state_of_the_first(team):
    hub, spoke = team
    for told in begun(hub, spoke(1), spoke(2)):
        assert isinstance(told.word, Begin) and told.word.session == 1
        assert told.word.exclusions == [[3, 5]] and told.word.counters == {"num_applied": 7}
        np.testing.assert_array_equal(told.arrays[0], STATE)


def test_everything_is_added_in_the_order_of_the_replicas_whoever_comes_first(team):
    hub, spoke = team
    one, two = spoke(1), spoke(2)
    begun(hub, one, two)
    first_is_heard = threading.Event()

    def late():
        first_is_heard.wait(DEADLINE_S)
        answers = [one.say(said(batch=n), ARRAYS[1], Patience()) for n in (1, 4)]
        return answers

    def early():
        first_is_heard.set()
        return [two.say(said(batch=n), ARRAYS[2], Patience()) for n in (2, 5)]

    def of_the_hub():
        hub.add(said(batch=0), ARRAYS[0], WORD, False, Patience())
        return hub.add(said(batch=3), ARRAYS[0], WORD, True, Patience())

    ((total, operands), words), of_one, of_two = in_threads(of_the_hub, late, early)
    expected = np.zeros(2, np.float32)
    for vector in [*VECTORS, *VECTORS]:
        expected += vector
    np.testing.assert_array_equal(total, expected)
    assert operands[:, 0].tolist() == [0, 1, 2, 0, 1, 2]
    assert [word.batch for word in words] == [3, 4, 5]
    for first, second in (of_one, of_two):
        assert first is None
        word, found = second
        assert (word.rate, word.ema_decay) == (0.5, 0.9)
        np.testing.assert_array_equal(found[0], expected)
        np.testing.assert_array_equal(found[1], operands)


def test_a_stop_reaches_replicas_that_have_said_something_and_those_that_wait(team):
    hub, spoke = team
    one, two = spoke(1), spoke(2)
    begun(hub, one, two)
    hub.stop(130)
    told, order = in_threads(
        lambda: one.say(said(), ARRAYS[1], Patience()), lambda: two.wait_for_order(Patience())
    )
    assert isinstance(told, Told) and told.word == order.word == Stop(130)


def test_what_was_said_before_a_new_beginning_counts_for_nothing(team):
    hub, spoke = team
    one, two = spoke(1), spoke(2)
    begun(hub, one, two)
    again, _ = in_threads(
        lambda: one.say(said(), ARRAYS[1], Patience()),
        lambda: hub.begin(BEGIN, [STATE], Patience()),
    )
    assert isinstance(again, Told) and again.word.session == 2
    assert two.wait_for_order(Patience()).word.session == 2
    ((total, _), _), *_ = in_threads(
        lambda: hub.add(said(), ARRAYS[0], WORD, True, Patience()),
        lambda: one.say(said(), ARRAYS[0], Patience()),
        lambda: two.say(said(), ARRAYS[0], Patience()),
    )
    np.testing.assert_array_equal(total, 3 * VECTORS[0])


def test_the_first_replica_notices_that_another_is_gone(team):
    hub, spoke = team
    one, two = spoke(1), spoke(2)
    begun(hub, one, two)
    two.close()
    with pytest.raises(ReplicaLost, match="replica 2"):
        hub.add(said(), ARRAYS[0], WORD, True, Patience())


def test_the_others_notice_that_the_first_is_gone(team):
    hub, spoke = team
    one, two = spoke(1), spoke(2)
    begun(hub, one, two)
    hub.close()
    for lost in in_threads(
        lambda: one.say(said(), ARRAYS[1], Patience()), lambda: two.wait_for_order(Patience())
    ):
        assert isinstance(lost, ReplicaLost)


def test_two_first_replicas_do_not_share_an_endpoint(team, tmp_path):
    with pytest.raises(ConfigError, match="another run is listening"):
        Hub(f"ipc://{tmp_path}/x", 2)


def test_a_word_survives_the_wire():
    empty = np.zeros((2, 0), np.float32)
    word, arrays = decode([bytes(f) for f in encode(BEGIN, [STATE, np.array(3.0), empty])])
    assert word == BEGIN and arrays[2].shape == (2, 0)
    np.testing.assert_array_equal(arrays[0], STATE)
    assert arrays[1].shape == () and arrays[1] == 3.0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda frames: [b"", *frames[1:]],
        lambda frames: [b"\xc1", *frames[1:]],
        lambda frames: frames[:1],
        lambda frames: [frames[0], frames[1][:-1]],
        lambda frames: [frames[0].replace(b"Begin", b"Beget"), frames[1]],
        lambda frames: [frames[0].replace(b"<f4", b"|O4"), frames[1]],
        lambda frames: [frames[0].replace(b"\xa4step\x07", b"\xa4step\xc0"), frames[1]],
    ],
)
def test_what_is_no_word_is_refused(spoil):
    frames = [bytes(frame) for frame in encode(BEGIN, [STATE])]
    with pytest.raises(ProtocolError):
        decode(spoil(frames))
