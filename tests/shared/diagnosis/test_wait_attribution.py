"""Where a wait went: all of it, never more, and to whoever was never idle."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.diagnosis.wait_attribution import CAUSES, BatchLife, Made, attribute

MADE = Made(read_wait=2, reading=2, decoding=6, features=20, serialising=1, in_process=60)
LIFE = BatchLife(waited=30, ticket_age=200, round_trip=62, copier_idle=40, made=MADE)

times = st.floats(0, 1e6)
lives = st.builds(
    BatchLife, waited=times, ticket_age=times, round_trip=times, copier_idle=times,
    made=st.builds(Made, **{field.name: times for field in dataclasses.fields(Made)}),
)  # fmt: skip


def most(life):
    found = attribute(life)
    return max(found, key=found.get)


def with_made(life=LIFE, **changes):
    return dataclasses.replace(life, made=dataclasses.replace(life.made, **changes))


@given(lives)
def test_no_cause_is_negative_and_together_they_are_no_more_than_the_wait(life):
    found = attribute(life)
    assert tuple(found) == CAUSES
    assert all(ms >= 0 for ms in found.values())
    assert sum(found.values()) <= life.waited * (1 + 1e-9) + 1e-9


@given(lives)
def test_a_feature_thread_that_never_lacked_a_ticket_explains_everything(life):
    made = dataclasses.replace(life.made, idle_share=0.0, features=life.made.features + 1)
    found = attribute(dataclasses.replace(life, made=made))
    assert sum(found.values()) == pytest.approx(life.waited)


@given(lives, st.floats(0.1, 1000))
def test_the_unit_of_time_does_not_matter(life, factor):
    def scaled(part):
        return {n: v * factor for n, v in vars(part).items() if n not in ("made", "idle_share")}

    made = Made(**scaled(life.made), idle_share=life.made.idle_share)
    other = BatchLife(**scaled(life), made=made)
    expected = {cause: ms * factor for cause, ms in attribute(life).items()}
    assert attribute(other) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_the_one_that_is_never_idle_is_the_cause():
    assert most(LIFE) == "features"
    assert most(with_made(read_wait=50)) == "decoding"
    assert most(with_made(read_wait=50, reading=60)) == "reading"
    assert most(with_made(features=0, compiling=900)) == "compiling"
    assert most(with_made(look_up=50)) == "reading"
    assert most(dataclasses.replace(LIFE, copier_idle=1)) == "device_copy"
    assert most(dataclasses.replace(LIFE, ticket_age=5)) == "absent"


def test_a_feature_thread_without_tickets_points_to_the_way_and_to_the_socket():
    idle = with_made(idle_share=0.4)
    assert most(dataclasses.replace(idle, round_trip=100)) == "transport"
    assert most(with_made(idle, serialising=500)) == "serialising"
    # A long way that keeps nobody idle is only a long way.
    assert most(dataclasses.replace(LIFE, round_trip=5_000)) == "features"


def test_two_slow_stages_share_the_wait_as_mending_them_would_win():
    # Per batch: readers 100, features 70, step 50. Mending the readers wins 30, the features 20.
    life = with_made(dataclasses.replace(LIFE, waited=50, copier_idle=90), read_wait=30, reading=0,
                     features=70)  # fmt: skip
    found = attribute(life)
    assert found["decoding"] == pytest.approx(30) and found["features"] == pytest.approx(20)


def test_timings_of_another_version_are_taken_as_far_as_they_go():
    made = Made.from_timings({"features": 3.0, "reading": -1.0, "warp": 9.0})
    assert made == Made(features=3.0)
