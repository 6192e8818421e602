"""The plan is pure, seekable, complete, well shuffled and deaf to everything but its inputs."""

import hashlib
import json
import threading

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shared.errors import ConfigError, DataError, ProtocolError
from shared.plan.exclusions import Exclusions
from shared.plan.plan import FILLER, TRAIN, VALIDATION
from shared.plan.plan import Plan as AnyPlan
from shared.plan.stream_layout import LAST_VALIDATION, StreamLayout
from shared.speech.batch import FORM
from shared.task import Array, BatchForm, BatchShape


def Plan(num_frames, num_symbols, speaker, split, **settings):  # noqa: N802
    """The plan of speech, by its columns."""
    lengths = {"num_frames": num_frames, "num_symbols": num_symbols}
    return AnyPlan(lengths, speaker, split, FORM, **settings)


def ljspeech_like(num_rows, seed=0):
    seconds = 1.1 + 9.0 * np.random.default_rng(seed).beta(1.816, 1.172, num_rows)
    return (seconds * 22_050 / 256).astype(np.int32)


def make_plan(num_rows=200, num_speakers=3, held_out=0.1, **changes):
    generator = np.random.default_rng(7)
    num_frames = ljspeech_like(num_rows)
    arguments = {
        "num_frames": num_frames,
        "num_symbols": (num_frames // 6 + 1).astype(np.int32),
        "speaker": generator.integers(0, num_speakers, num_rows).astype(np.int32),
        "split": (generator.random(num_rows) < held_out).astype(np.uint8),
        "batch_size": 8,
        "seed": 1234,
        **changes,
    }
    return Plan(**arguments), arguments


@st.composite
def plans(draw):
    num_rows = draw(st.integers(1, 70))
    column = st.lists(st.integers(1, 400), min_size=num_rows, max_size=num_rows)
    split = draw(st.lists(st.integers(0, 1), min_size=num_rows, max_size=num_rows))
    split[draw(st.integers(0, num_rows - 1))] = TRAIN
    arguments = {
        "num_frames": np.array(draw(column)),
        "num_symbols": np.array(draw(column)),
        "speaker": np.array(
            draw(st.lists(st.integers(0, 4), min_size=num_rows, max_size=num_rows))
        ),
        "split": np.array(split),
        "batch_size": draw(st.integers(1, 12)),
        "max_buckets": draw(st.integers(1, 5)),
        "static_shapes": draw(st.booleans()),
        "seed": draw(st.integers(0, 2**70)),
        "validate_every_batches": draw(st.integers(0, 5)),
    }
    return Plan(**arguments), arguments


def everything(batch):
    """A batch plan in a form that compares."""
    return (
        batch.index,
        batch.kind,
        batch.epoch,
        batch.number,
        batch.shape,
        batch.rows.tolist(),
        batch.companions.tolist(),
        batch.companion_offsets.tolist(),
        batch.draws.tolist(),
    )


def slots(batch):
    return list(
        zip(batch.rows.tolist(), batch.companions.tolist(), batch.companion_offsets, strict=True)
    )


def epoch_batches(plan, epoch):
    first = epoch * plan.batches_per_epoch
    places = range(first, first + plan.batches_per_epoch)
    return [plan.batch(plan.layout.stream_index_of_train(t)) for t in places]


@settings(deadline=None)
@given(made=plans(), epoch=st.integers(0, 1_000))
def test_every_training_row_comes_exactly_once_in_every_epoch(made, epoch):
    plan, arguments = made
    batches = epoch_batches(plan, epoch)
    rows = np.concatenate([batch.rows for batch in batches])
    expected = np.flatnonzero(arguments["split"] == TRAIN)
    assert np.array_equal(np.sort(rows[rows != FILLER]), expected)
    assert all(batch.epoch == epoch and batch.kind == "train" for batch in batches)
    assert all(np.count_nonzero(batch.rows != FILLER) > 0 for batch in batches)


@settings(deadline=None)
@given(made=plans())
def test_every_held_out_row_comes_exactly_once_in_every_validation(made):
    plan, arguments = made
    plan = plan.with_layout(2, total_train_batches=5)
    rounds = {}
    for n in range(plan.layout.num_stream_batches):
        batch = plan.batch(n)
        if batch.kind == "validation":
            rounds.setdefault(plan.layout.place(n).round, []).append(batch)
    held_out = np.flatnonzero(arguments["split"] == VALIDATION)
    assert len(rounds) == (3 if len(held_out) else 0)
    for batches in rounds.values():
        rows = np.concatenate([batch.rows for batch in batches])
        assert np.array_equal(np.sort(rows[rows != FILLER]), held_out)
        assert [slots(batch) for batch in batches] == [slots(batch) for batch in rounds[0]]


@settings(deadline=None)
@given(made=plans(), start=st.integers(0, 300))
def test_every_row_fits_the_shape_of_its_batch(made, start):
    plan, arguments = made
    for n in range(start, start + 20):
        batch = plan.batch(n)
        assert batch.shape in plan.buckets
        assert batch.rows.shape == batch.companions.shape == (batch.shape.rows,)
        real = batch.rows[batch.rows != FILLER]
        assert arguments["num_frames"][real].max() <= batch.shape["num_frames"]
        assert arguments["num_symbols"][real].max() <= batch.shape["num_symbols"]
        assert batch.shape.rows == min(arguments["batch_size"], sum(arguments["split"] == TRAIN))
        assert plan.nbytes(n) == plan.nbytes(batch.shape) == batch.shape.nbytes
    if arguments["static_shapes"]:
        assert len(plan.buckets) == 1


@settings(deadline=None)
@given(made=plans(), data=st.data())
def test_seeking_in_any_order_equals_iterating(made, data):
    plan, arguments = made
    iterated = [everything(plan.batch(n)) for n in range(40)]
    other = Plan(**arguments)
    for n in data.draw(st.lists(st.integers(0, 39), min_size=1, max_size=30)):
        assert everything(other.batch(n)) == iterated[n]


@settings(deadline=None)
@given(made=plans(), start=st.integers(0, 200))
def test_a_reference_is_another_training_clip_of_the_same_speaker(made, start):
    plan, arguments = made
    speaker, split = arguments["speaker"], arguments["split"]
    for n in range(start, start + 10):
        batch = plan.batch(n)
        assert np.all((batch.companion_offsets >= 0) & (batch.companion_offsets < 1))
        for row, reference in zip(batch.rows.tolist(), batch.companions.tolist(), strict=True):
            if row == FILLER:
                assert reference == FILLER
                continue
            assert speaker[reference] == speaker[row]
            same_speaker = speaker == speaker[row]
            clips = np.flatnonzero(same_speaker & (split == TRAIN))
            if not len(clips):
                clips = np.flatnonzero(same_speaker)
            assert reference in clips
            assert reference != row or clips.tolist() == [row]


@settings(max_examples=200, deadline=None)
@given(made=plans(), data=st.data())
def test_an_exclusion_changes_only_later_batches_and_only_slots_that_need_the_row(made, data):
    plan, arguments = made
    row_numbers = st.integers(0, len(arguments["split"]) - 1)
    before = Exclusions()
    for row in data.draw(st.lists(row_numbers, max_size=6)):
        before = before.with_added(row, data.draw(st.integers(0, 30)))
    row, from_batch = data.draw(row_numbers), data.draw(st.integers(0, 30))
    after = before.with_added(row, from_batch)
    assume(after is not before)
    for n in range(40):
        old, new = plan.batch(n, before), plan.batch(n, after)
        if n < from_batch:
            assert everything(old) == everything(new)
            continue
        assert not new.contains(row)
        assert old.shape == new.shape
        for old_slot, new_slot in zip(slots(old), slots(new), strict=True):
            if row in old_slot[:2]:
                if old_slot[0] != row:  # only the reference is replaced
                    assert old_slot[0] == new_slot[0]
            else:
                assert old_slot == new_slot


@settings(deadline=None)
@given(made=plans(), data=st.data())
def test_a_substitute_is_a_usable_row_of_the_same_bucket(made, data):
    plan, arguments = made
    limits = [bucket["num_frames"] for bucket in plan.buckets]
    bucket_of = np.searchsorted(limits, arguments["num_frames"])
    rows = st.integers(0, len(arguments["split"]) - 1)
    exclusions = Exclusions()
    for row in data.draw(st.lists(rows, min_size=1, max_size=40)):
        exclusions = exclusions.with_added(row, 0)
    for n in range(12):
        planned, batch = plan.batch(n).rows.tolist(), plan.batch(n, exclusions)
        for old, new in zip(planned, batch.rows.tolist(), strict=True):
            if old == new:
                continue
            others = [
                row
                for row in np.flatnonzero(
                    (arguments["split"] == TRAIN) & (bucket_of == bucket_of[old])
                )
                if not exclusions.excludes(int(row), n) and row not in planned
            ]
            if batch.kind == "validation" or not others:
                assert new == FILLER
            else:
                assert new in others


def test_batches_are_shuffled_well():
    num_rows, batch_size = 13_100, 32
    plan, arguments = make_plan(num_rows, held_out=0.0, batch_size=batch_size)
    first, second = epoch_batches(plan, 0), epoch_batches(plan, 1)
    places = sum(batch.shape.rows * batch.shape["num_frames"] for batch in first)
    real = arguments["num_frames"][arguments["split"] == TRAIN].sum()
    assert 1 - real / places <= 0.10

    def mean_frames(batch):
        return arguments["num_frames"][batch.rows[batch.rows != FILLER]].mean()

    means = np.array([mean_frames(batch) for batch in first + second])
    assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.1
    # Early and late batches of an epoch are alike, and rows of the index are spread over it.
    half = len(first) // 2
    assert abs(means[:half].mean() / means[half : 2 * half].mean() - 1) < 0.1
    row_means = np.array([batch.rows[batch.rows != FILLER].mean() for batch in first])
    assert abs(row_means.mean() / (num_rows / 2) - 1) < 0.02
    assert row_means.std() < 1.3 * num_rows / 12**0.5 / batch_size**0.5

    def pairs(batches):
        found = set()
        for batch in batches:
            rows = np.sort(batch.rows[batch.rows != FILLER])
            left, right = np.triu_indices(len(rows), 1)
            found.update((rows[left] * num_rows + rows[right]).tolist())
        return found

    both, one = pairs(first) & pairs(second), pairs(first)
    # 8 buckets: two rows that once met, meet again with a chance of about 8 in 410 batches.
    assert len(both) / len(one) < 1.5 * len(plan.buckets) / plan.batches_per_epoch


def test_fillers_are_spread_so_that_no_batch_is_nearly_empty():
    plan, _ = make_plan(33, held_out=0.0, batch_size=32)
    counts = [np.count_nonzero(batch.rows != FILLER) for batch in epoch_batches(plan, 0)]
    assert sorted(counts) == [16, 17]


def test_each_epoch_and_each_seed_has_its_own_order_and_references():
    plan, _ = make_plan()
    other, _ = make_plan(seed=1235)
    orders = [
        [batch.rows.tolist() for batch in batches]
        for batches in (epoch_batches(plan, 0), epoch_batches(plan, 1), epoch_batches(other, 0))
    ]
    assert orders[0] != orders[1] and orders[0] != orders[2]
    references = []
    for epoch in (0, 1):
        batches = epoch_batches(plan, epoch)
        references.append(
            {
                row: ref
                for b in batches
                for row, ref in zip(b.rows.tolist(), b.companions.tolist(), strict=True)
            }
        )
    assert sum(references[0][row] == references[1][row] for row in references[0]) < 20


def test_the_plan_is_the_same_on_every_platform():
    # Lengths without random numbers: the generator of the test must not decide.
    num_frames = np.arange(100, 400, 3)
    plan = Plan(
        num_frames,
        num_frames // 6,
        np.arange(100) % 4,
        np.arange(100) % 10 == 9,
        batch_size=8,
        seed=1234,
        validate_every_batches=10,
    )
    digest = hashlib.sha256()
    for n in [*range(60), 10**6, 10**9]:
        digest.update(json.dumps(everything(plan.batch(n))[5:8]).encode())
    assert digest.hexdigest() == (
        "801d6a3eabab670da0b24355f7877f9111f229e13395411f583f0e147db60026"
    )


def test_threads_see_the_same_batches():
    plan, arguments = make_plan()
    expected = [everything(plan.batch(n)) for n in range(100)]
    shared, found, start = Plan(**arguments), {}, threading.Barrier(4)

    def read(thread):
        start.wait()
        order = np.random.default_rng(thread).permutation(100).tolist()
        found[thread] = {n: everything(shared.batch(n)) for n in order}

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for batches in found.values():
        assert [batches[n] for n in range(100)] == expected


def test_a_caller_that_writes_into_a_batch_does_not_change_the_plan():
    plan, _ = make_plan()
    before = everything(plan.batch(3))
    plan.batch(3).rows[:] = 0
    assert everything(plan.batch(3)) == before


def test_the_fingerprint_knows_data_and_settings():
    plan, arguments = make_plan()
    changes: list[dict] = [
        {"seed": 5},
        {"batch_size": 9},
        {"max_buckets": 3},
        {"static_shapes": True},
        {"validate_every_batches": 4},
        {"total_train_batches": 40},
        {"speaker": arguments["speaker"][::-1]},
        {"num_frames": arguments["num_frames"] + 1},
    ]
    prints = {Plan(**{**arguments, **change}).fingerprint() for change in changes}
    assert len(prints | {plan.fingerprint()}) == len(changes) + 1
    wider = {**arguments, "num_frames": arguments["num_frames"].astype(np.int64)}
    assert Plan(**wider).fingerprint() == plan.fingerprint()
    assert plan.with_layout(4).fingerprint() == make_plan(validate_every_batches=4)[0].fingerprint()


def test_impossible_inputs_are_refused_in_words():
    with pytest.raises(ConfigError, match="batch_size is 0"):
        make_plan(batch_size=0)
    with pytest.raises(DataError, match="left for training.*--val-fraction"):
        make_plan(split=np.ones(200, np.uint8))
    again = "Remove the run's index.safetensors and start the run once more"
    with pytest.raises(DataError, match=f"row 3 has num_frames = 0. {again}"):
        make_plan(num_frames=np.where(np.arange(200) == 3, 0, 50))
    with pytest.raises(DataError, match=f"should be equal. {again}"):
        make_plan(speaker=np.zeros(3, np.int32))
    with pytest.raises(IndexError, match="no batch 99"):
        make_plan(total_train_batches=10)[0].batch(99)


@settings(deadline=None)
@given(
    every=st.integers(0, 7),
    held_out=st.integers(0, 4),
    total=st.one_of(st.none(), st.integers(0, 40)),
)
def test_the_layout_in_closed_form_equals_the_stream_written_out(every, held_out, total):
    layout = StreamLayout(every, held_out, total)
    stream, rounds = [], 0
    for train_batch in range(100 if total is None else total):
        stream.append(("train", train_batch, rounds))
        is_last = train_batch + 1 == total
        if held_out and ((every and (train_batch + 1) % every == 0) or is_last):
            stream += [("validation", number, rounds) for number in range(held_out)]
            rounds += 1
    assert layout.num_stream_batches == (None if total is None else len(stream))
    num_train = 0
    for n, place in enumerate(stream):
        assert layout.place(n) == place
        assert layout.num_train_batches_before(n) == num_train
        if place[0] == "train":
            assert layout.stream_index_of_train(place[1]) == n
            num_train += 1
    if total is not None:
        assert layout.num_train_batches_before(len(stream)) == total
        with pytest.raises(IndexError):
            layout.place(len(stream))
        with pytest.raises(IndexError):
            layout.stream_index_of_train(total)


@settings(deadline=None)
@given(
    entries=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 20), st.integers(21, 30) | st.none()),
        max_size=20,
    ),
)
def test_exclusions_are_versioned_and_survive_json(entries):
    exclusions, history = Exclusions(), [Exclusions()]
    for row, from_batch, until_batch in entries:
        added = exclusions.with_added(row, from_batch, until_batch)
        if added is not exclusions:
            history.append(added)
        exclusions = added
    for version, past in enumerate(history):
        assert past.version == version and exclusions.at_version(version) == past
    restored = Exclusions.from_json(json.loads(json.dumps(exclusions.to_json())))
    assert restored == exclusions
    for row in range(10):
        spans = [range(at, until or 100) for excluded, at, until in entries if excluded == row]
        for batch in range(40):
            assert restored.excludes(row, batch) == any(batch in span for span in spans)


@pytest.mark.parametrize(
    "value",
    [None, {}, "12", [[1]], [[1, -1]], [[1.0, 2]], [[True, 2]], [3], [[1, 2, 2]], [[1, 2, 3, 4]]],
)
def test_exclusions_that_are_none_are_refused(value):
    with pytest.raises(ProtocolError, match="expected"):
        Exclusions.from_json(value)


def test_an_unknown_version_of_the_exclusions_is_refused():
    with pytest.raises(ProtocolError, match="versions 0 to 0"):
        Exclusions().at_version(1)


@pytest.mark.parametrize("total", [None, 100])
def test_the_last_validation_of_the_clock_has_numbers_of_its_own(total):
    layout = StreamLayout(10, 3, total)
    places = [layout.place(LAST_VALIDATION + k) for k in range(3)]
    assert [(place.kind, place.number) for place in places] == [("validation", k) for k in range(3)]
    with pytest.raises(IndexError):
        layout.place(LAST_VALIDATION + 3)
    assert StreamLayout(10, 0, total).num_validation_batches == 0
    with pytest.raises(IndexError):
        StreamLayout(10, 0, total).place(LAST_VALIDATION)


def test_the_last_validation_is_the_same_as_any_other():
    plan = make_plan()[0].with_layout(validate_every_batches=4)
    first = next(n for n in range(50) if plan.layout.place(n).kind == "validation")
    for k in range(plan.num_validation_batches):
        usual, last = plan.batch(first + k), plan.batch(LAST_VALIDATION + k)
        np.testing.assert_array_equal(usual.rows, last.rows)
        np.testing.assert_array_equal(usual.companions, last.companions)
        np.testing.assert_array_equal(usual.companion_offsets, last.companion_offsets)


@given(
    every=st.integers(0, 7),
    held_out=st.integers(0, 3),
    total=st.one_of(st.none(), st.integers(0, 40)),
    data=st.data(),
)
def test_a_stream_goes_on_where_the_batches_that_were_trained_end(every, held_out, total, data):
    """Whatever end the stream had then: no training batch is left out and none comes twice."""
    layout = StreamLayout(every, held_out, total)
    num_trained = data.draw(st.integers(0, 45 if total is None else total + 5))
    for is_validated in (False, True):
        start = layout.index_after(num_trained, is_validated)
        end = layout.num_stream_batches
        if total is not None and num_trained > total:
            assert start == end
            continue
        ahead = []
        for n in range(start, start + 12 if end is None else end):
            ahead.append(layout.place(n))
        trained = [place.number for place in ahead if place.kind == "train"]
        assert trained == list(range(num_trained, num_trained + len(trained)))
        if end is not None:
            assert len(trained) == total - num_trained
        validates = bool(ahead) and ahead[0].kind == "validation"
        follows = (
            start > 0
            and held_out
            and num_trained
            and (num_trained == total or (every and num_trained % every == 0))
        )
        assert validates == bool(follows and not is_validated)
        assert not validates or ahead[0].number == 0


def flat_plan(num_rows=50, companion=None, lengths=(), **settings):
    """The plan of a task whose examples have no length, or no companions."""
    form = BatchForm({"x": Array("float32", 3)}, tuple(lengths), companion)
    split = np.arange(num_rows) % 10 == 0
    group = np.arange(num_rows) % 3
    settings = {"batch_size": 8, "seed": 1} | settings
    return AnyPlan(dict(lengths), group, split.astype(np.uint8), form, **settings)


@pytest.mark.parametrize("companion", [None, "group"])
def test_a_plan_without_lengths_has_one_shape_and_every_row_once(companion):
    plan = flat_plan(companion=companion)
    assert plan.buckets == (BatchShape(8, (), plan.buckets[0].form),)
    assert plan.batches_per_epoch == 6 and plan.num_validation_batches == 1
    for epoch in range(2):
        batches = [plan.batch(epoch * 6 + number) for number in range(6)]
        rows = np.concatenate([batch.rows for batch in batches])
        assert sorted(rows[rows != FILLER]) == [row for row in range(50) if row % 10]
    arrays = plan.batch(0).shape.arrays()
    assert arrays == {
        "x": ("float32", (8, 3)),
        "weight": ("float32", (8,)),
        "rows": ("int32", (8,)),
    }
    assert plan.nbytes(3) == 8 * (3 * 4 + 4 + 4)


def test_a_plan_without_companions_has_none_and_the_same_rows():
    alone, with_others = flat_plan(), flat_plan(companion="group")
    for number in range(12):
        one, other = alone.batch(number), with_others.batch(number)
        np.testing.assert_array_equal(one.rows, other.rows)
        assert (one.companions == FILLER).all() and not one.companion_offsets.any()
        real = other.rows != FILLER
        assert (other.companions[real] % 3 == other.rows[real] % 3).all()
        assert (other.companions[real] != other.rows[real]).all()


def test_every_row_has_its_own_draw_in_each_epoch_and_one_for_all_validations():
    plan = flat_plan(num_rows=60, validate_every_batches=flat_plan(num_rows=60).batches_per_epoch)
    draws = {}
    for n in range(3 * (plan.batches_per_epoch + plan.num_validation_batches)):
        batch = plan.batch(n)
        for row, draw in zip(batch.rows.tolist(), batch.draws.tolist(), strict=True):
            if row != FILLER:
                draws.setdefault((batch.kind, row), []).append(draw)
    for (kind, _), found in draws.items():
        assert len(found) == 3 and len(set(found)) == (3 if kind == "train" else 1)
    assert len({kind for kind, _ in draws}) == 2
    everywhere = [draw for found in draws.values() for draw in set(found)]
    assert len(set(everywhere)) == len(everywhere)


def test_an_exclusion_leaves_the_draws_of_all_other_rows():
    plan = flat_plan()
    for n in range(plan.batches_per_epoch):
        usual = plan.batch(n)
        other = plan.batch(n, Exclusions().with_added(int(usual.rows[0]), 0))
        assert usual.rows[0] != other.rows[0]
        np.testing.assert_array_equal(usual.rows[1:], other.rows[1:])
        np.testing.assert_array_equal(usual.draws[1:], other.draws[1:])


def test_an_exclusion_of_a_plan_without_lengths_is_substituted():
    plan = flat_plan()
    before = plan.batch(0).rows
    gone = int(before[before != FILLER][0])
    after = plan.batch(0, Exclusions().with_added(gone, 0)).rows
    assert gone not in after and np.count_nonzero(before != after) == 1


def test_a_plan_of_one_length_is_cut_by_it():
    sizes = np.repeat([10, 200], 2_000)
    plan = flat_plan(4_000, lengths={"size": sizes}, max_buckets=4)
    assert [bucket["size"] for bucket in plan.buckets] == [16, 200]
    assert plan.shape(0)["size"] in (16, 200)


def test_the_fingerprint_knows_the_lengths_by_name_and_whether_there_are_companions():
    sizes = np.arange(1, 51)
    prints = {
        flat_plan().fingerprint(),
        flat_plan(companion="group").fingerprint(),
        flat_plan(lengths={"size": sizes}).fingerprint(),
        flat_plan(lengths={"width": sizes}).fingerprint(),
    }
    assert len(prints) == 4
    assert flat_plan().fingerprint() == flat_plan().fingerprint()
