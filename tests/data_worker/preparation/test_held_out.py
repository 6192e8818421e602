"""The held-out share."""

from data_worker.preparation.held_out import hold_out


def test_the_hold_out_is_a_seeded_share_that_leaves_every_speaker_something():
    ids = [f"u{n}" for n in range(200)]
    speakers = ["many"] * 190 + [f"rare{n}" for n in range(10)]
    split = hold_out(ids, speakers, 0.05, 1)
    assert split.sum() == 10 and not split[190:].any()
    assert (split == hold_out(ids, speakers, 0.05, 1)).all()
    assert (split != hold_out(ids, speakers, 0.05, 2)).any()
    assert hold_out(ids[:2], ["a", "b"], 0.05, 1).sum() == 1
    assert hold_out(ids, speakers, 0.0, 1).sum() == 0
    fewer = hold_out(ids[:-1], speakers[:-1], 0.05, 1)
    assert (fewer == split[:-1]).all()
