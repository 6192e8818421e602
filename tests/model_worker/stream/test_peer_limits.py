"""How much nonsense is borne: of one peer, and of all strangers together."""

from model_worker.stream.peer_limits import PeerLimits


def num_borne(limits, peer, is_known=False, now_s=0.0, tries=10_000):
    """How many messages in a row are borne."""
    return next((n for n in range(tries) if not limits.bears(peer, is_known, now_s)), tries)


def test_a_peer_may_be_wrong_a_few_times_and_then_no_more():
    limits = PeerLimits()
    assert 10 <= num_borne(limits, b"a") < 100
    assert not limits.bears(b"a", False, 0.05)


def test_one_message_a_second_is_borne_for_ever():
    limits = PeerLimits()
    assert all(limits.bears(b"a", False, float(now_s)) for now_s in range(5000))


def test_large_messages_of_a_stranger_are_borne_less_often_and_those_of_a_known_peer_as_often():
    limits = PeerLimits()
    borne = [limits.bears(b"a", False, 0.0, num_bytes=4 << 20) for _ in range(10)]
    assert borne == [True] + [False] * 9
    assert all(limits.bears(b"k", True, 0.0, num_bytes=4 << 20) for _ in range(100))


def test_a_message_that_is_larger_than_every_allowance_is_borne_once():
    limits = PeerLimits()
    assert limits.bears(b"a", False, 0.0, num_bytes=1 << 30)
    assert not limits.bears(b"a", False, 1.0, num_bytes=1 << 30)


def test_the_allowance_of_one_is_not_that_of_another():
    limits = PeerLimits()
    num_borne(limits, b"a")
    assert num_borne(limits, b"b") > 10


def test_a_known_data_process_is_borne_with_for_longer():
    limits = PeerLimits()
    assert num_borne(limits, b"k", is_known=True) > 5 * num_borne(limits, b"s")


def test_strangers_who_come_back_under_other_names_are_counted_together():
    limits = PeerLimits()
    total = sum(num_borne(limits, bytes([number])) for number in range(100))
    assert total < 1000
    assert num_borne(limits, b"known", is_known=True) > 100
    assert limits.bears(b"late", False, 10.0)


def test_an_introduction_is_borne_whatever_strangers_have_used_up():
    limits = PeerLimits()
    sum(num_borne(limits, bytes([number])) for number in range(100))
    assert not limits.bears(b"stranger", False, 0.0)
    assert limits.bears_introduction(b"replacement", 0.0)


def test_introductions_of_a_night_without_a_model_process_may_come_at_once_but_not_for_ever():
    limits = PeerLimits()
    assert all(limits.bears_introduction(b"patient", 0.0) for _ in range(12 * 3600))
    assert not all(limits.bears_introduction(b"patient", 0.0) for _ in range(100_000))


def test_what_is_remembered_is_bounded():
    limits = PeerLimits()
    for number in range(5000):
        limits.bears(number.to_bytes(4), True, 0.0)
        limits.bears_introduction(number.to_bytes(4), 0.0)
    assert max(len(limits._peers), len(limits._introduced)) <= 1024
