"""The launcher's decisions: each rule a test, then any order of events."""

import signal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import Trouble
from shared.launching.events_and_actions import (
    AskToStop,
    DumpStack,
    Event,
    Exited,
    Finish,
    GiveUp,
    Inspected,
    Kill,
    Replace,
    Reported,
    Spawn,
    StopAsked,
    TakeOver,
    Tell,
    Ticked,
)
from shared.launching.supervisor import Supervisor
from shared.launching.watched_worker import RESTART_WINDOW_S
from shared.worker.contract import (
    CLOSING,
    CRASH_SIGNALS,
    EXIT_TO_BEGIN_AGAIN,
    SHOWING,
    STANDING_BY,
    WAITING,
    WAITING_FOR_REPLICAS,
    status_in_words,
)
from shared.worker.reports import Cause, Convicted, Failure, Phase, Progress

DATA, MODEL, SPARE = "data_worker-0", "model_worker", "data_spare-0"
SECOND = "model_worker-1"  # a replica


def reported(worker, kind, now_s, text="", deadline_s=0.0, count=0, will_pass=False):
    """A worker's report of a kind, with what that kind has."""
    report = {
        "phase": Phase(text, deadline_s),
        "progress": Progress(count),
        "convicted": Convicted((0,)),
        "cause": Cause(text, will_pass),
        "failure": Failure(text),
    }[kind]
    return Reported(worker, report, now_s)


def started(data_workers=(DATA,), max_restarts=10):
    supervisor = Supervisor(list(data_workers), MODEL, max_restarts)
    assert supervisor.handle(Ticked(0.0)) == [*(Spawn(name) for name in data_workers), Spawn(MODEL)]
    return supervisor


def tick_until(supervisor, now_s, from_s=0.0):
    """Tick as the launcher does when nothing holds it up; what the last tick brings."""
    while from_s < now_s - 1.0:
        from_s += 1.0
        assert supervisor.handle(Ticked(from_s)) == []
    return supervisor.handle(Ticked(now_s))


def without_words(actions):
    return [action for action in actions if not isinstance(action, (Replace, Tell))]


def test_the_first_tick_starts_everyone_once():
    supervisor = started()
    assert supervisor.handle(Ticked(0.1)) == []


def test_a_data_worker_that_dies_is_replaced_at_once_and_the_user_is_told_why():
    actions = started().handle(Exited(DATA, -signal.SIGKILL, 5.0))
    assert actions == [
        Replace(DATA, f"{DATA}: killed by SIGKILL"),
        Spawn(DATA),
    ]


def test_a_worker_that_keeps_dying_is_replaced_after_growing_delays():
    supervisor, now_s, delays = started(max_restarts=20), 0.0, []
    for _ in range(8):
        actions, died_s = supervisor.handle(Exited(DATA, 1, now_s)), now_s
        while Spawn(DATA) not in actions:
            now_s += 0.25
            actions = supervisor.handle(Ticked(now_s))
        delays.append(now_s - died_s)
    assert delays == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_a_worker_that_had_got_to_work_is_replaced_without_delay_however_often_it_is_killed():
    supervisor = started(max_restarts=50)
    for now_s in range(1, 40):
        supervisor.handle(reported(DATA, "phase", now_s - 0.5, "serving", 8.0))
        supervisor.handle(reported(DATA, "progress", now_s - 0.4))
        actions = supervisor.handle(Exited(DATA, -signal.SIGKILL, float(now_s)))
        assert without_words(actions) == [Spawn(DATA)]


def fail_model(supervisor, now_s, batch, words, will_pass=False):
    """The model worker gets as far as a batch and ends with these words."""
    supervisor.handle(reported(MODEL, "progress", now_s, count=batch))
    supervisor.handle(reported(MODEL, "cause", now_s, words, will_pass=will_pass))
    actions = supervisor.handle(Exited(MODEL, 1, now_s))
    supervisor.handle(Ticked(now_s + 20))
    return actions


def test_a_worker_that_says_why_it_ends_is_replaced_and_quoted():
    supervisor = started()
    actions = fail_model(supervisor, 5.0, 3, "ValueError: odd")
    assert Replace(MODEL, f"{MODEL}: ValueError: odd") in actions
    actions = supervisor.handle(Exited(MODEL, -signal.SIGKILL, 40.0))
    assert Replace(MODEL, f"{MODEL}: killed by SIGKILL") in actions


def test_a_model_worker_that_fails_for_the_same_cause_at_the_same_batch_ends_the_run():
    supervisor = started()
    for now_s in (100.0, 1000.0, 2000.0):  # too slow for any window
        last = fail_model(supervisor, now_s, 0, "out of memory")
    assert AskToStop(DATA) in last
    (finish,) = supervisor.handle(Exited(DATA, 130, 2001.0))
    assert finish == Finish(1, f"{MODEL}: out of memory (3 times at the same batch)")


@pytest.mark.parametrize(
    "failures",
    [
        [(n, "out of memory", False) for n in range(1, 9)],  # it gets further each time
        [(0, f"error {n}", False) for n in range(8)],
        [(0, "OSError: no storage", True)] * 8,
    ],
)
def test_a_model_worker_that_may_have_more_luck_the_next_time_is_started_again(failures):
    supervisor = started()
    for number, (batch, words, will_pass) in enumerate(failures):
        actions = fail_model(supervisor, 100.0 * number, batch, words, will_pass)
        assert any(isinstance(action, Replace) for action in actions)
        assert AskToStop(DATA) not in actions


def with_a_spare(now_s=1.0, data_workers=(DATA,), max_restarts=10):
    """Everyone at work, and a spare that stands by."""
    spares = dict.fromkeys(data_workers, SPARE)
    supervisor = Supervisor(list(data_workers), MODEL, max_restarts, spares)
    supervisor.handle(Ticked(0.0))
    for name in data_workers:
        assert Spawn(SPARE) not in supervisor.handle(Ticked(now_s))
        supervisor.handle(reported(name, "progress", now_s))
    assert supervisor.handle(Ticked(now_s)) == [Spawn(SPARE)]
    supervisor.handle(reported(SPARE, "phase", now_s, STANDING_BY, 8.0))
    supervisor.handle(reported(SPARE, "progress", now_s))
    return supervisor


def test_a_spare_is_started_once_the_data_workers_are_at_work_and_takes_over_at_once():
    supervisor = with_a_spare(data_workers=(DATA, "data_worker-1"))
    assert supervisor.handle(Exited(DATA, -signal.SIGKILL, 2.0)) == [
        Replace(DATA, f"{DATA}: killed by SIGKILL", by_spare=True),
        TakeOver(SPARE, DATA),
    ]
    # There is none until the next one is ready, and that waits for those who work.
    actions = supervisor.handle(Exited("data_worker-1", -signal.SIGKILL, 2.1))
    assert without_words(actions) == [Spawn("data_worker-1")]
    supervisor.handle(reported(DATA, "progress", 2.2))
    assert supervisor.handle(Ticked(2.3)) == []
    supervisor.handle(reported("data_worker-1", "progress", 5.0))
    assert supervisor.handle(Ticked(5.1)) == [Spawn(SPARE)]


def test_a_spare_that_is_not_ready_yet_is_not_waited_for():
    supervisor = Supervisor([DATA], MODEL, 10, {DATA: SPARE})
    supervisor.handle(Ticked(0.0))
    supervisor.handle(reported(DATA, "progress", 1.0))
    assert supervisor.handle(Ticked(1.0)) == [Spawn(SPARE)]
    supervisor.handle(reported(SPARE, "phase", 2.0, "compiling", 600.0))
    assert without_words(supervisor.handle(Exited(DATA, -9, 3.0))) == [Spawn(DATA)]


def test_the_one_who_took_over_is_watched_like_any_other():
    supervisor = with_a_spare()
    supervisor.handle(Exited(DATA, -9, 2.0))
    supervisor.handle(reported(MODEL, "phase", 2.0, "training", 0.0))
    assert without_words(tick_until(supervisor, 10.1, from_s=2.0)) == [DumpStack(DATA)]


def test_a_spare_that_dies_or_hangs_is_replaced_without_a_word_of_trouble():
    supervisor = with_a_spare()
    assert supervisor.handle(Exited(SPARE, -9, 2.0)) == [Spawn(SPARE)]
    supervisor.handle(reported(MODEL, "phase", 2.0, "training", 0.0))
    supervisor.handle(reported(DATA, "phase", 2.0, "serving", 0.0))
    supervisor.handle(reported(SPARE, "phase", 3.0, STANDING_BY, 8.0))
    assert without_words(tick_until(supervisor, 11.1, from_s=3.0)) == [DumpStack(SPARE)]


@pytest.mark.parametrize("says_why", [True, False])
def test_a_spare_that_can_not_live_is_done_without(says_why):
    supervisor, actions = with_a_spare(max_restarts=2), []
    supervisor.handle(reported(DATA, "phase", 2.0, "serving", 0.0))
    supervisor.handle(reported(MODEL, "phase", 2.0, "training", 0.0))
    if says_why:
        supervisor.handle(reported(SPARE, "failure", 2.0, "no GPU"))
    for now_s in (2.0, 3.0, 4.0):
        actions += supervisor.handle(Exited(SPARE, 1, now_s))
    cause = "no GPU" if says_why else f"{SPARE}: exit status 1"
    assert Tell(f"⚠️  Going on without a spare: {cause}") in actions
    assert supervisor.handle(Ticked(60.0)) == []
    # Not even a restarted model worker, which brings back those who had left, brings it back.
    assert without_words(supervisor.handle(Exited(MODEL, -9, 61.0))) == [Spawn(MODEL)]
    assert supervisor.handle(Exited(MODEL, 0, 62.0)) == [AskToStop(DATA)]
    assert supervisor.handle(Exited(DATA, 0, 62.5)) == [Finish(0, "finished")]


def test_a_spare_is_stopped_with_the_data_workers():
    supervisor = with_a_spare()
    assert supervisor.handle(StopAsked(2.0)) == [AskToStop(MODEL)]
    assert supervisor.handle(Exited(MODEL, 130, 3.0)) == [AskToStop(DATA), AskToStop(SPARE)]
    assert supervisor.handle(Exited(SPARE, 130, 3.1)) == []
    (finish,) = supervisor.handle(Exited(DATA, 130, 3.2))
    assert finish.exit_code == 130


@pytest.mark.parametrize("number", sorted(CRASH_SIGNALS), ids=lambda number: number.name)
def test_a_crash_makes_suspects_of_the_files_that_were_being_read(number):
    actions = started().handle(Exited(DATA, -number, 5.0, reading=(3, 7)))
    assert without_words(actions) == [Spawn(DATA, suspects=(3, 7))]


@pytest.mark.parametrize("status", [-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, 1, 70])
def test_any_other_death_makes_no_suspects(status):
    actions = started().handle(Exited(DATA, status, 5.0, reading=(3, 7)))
    assert without_words(actions) == [Spawn(DATA)]


def test_suspects_are_remembered_until_someone_who_has_looked_at_them_works():
    supervisor = started()
    supervisor.handle(Exited(DATA, -signal.SIGSEGV, 1.0, reading=(3, 7)))
    supervisor.handle(Exited(DATA, -signal.SIGKILL, 2.0, reading=()))
    assert supervisor.handle(Ticked(3.0)) == [Spawn(DATA, suspects=(3, 7))]
    supervisor.handle(reported(DATA, "progress", 4.0))
    actions = supervisor.handle(Exited(DATA, -signal.SIGKILL, 5.0, reading=(9,)))
    assert without_words(actions) == [Spawn(DATA)]


def test_a_spare_that_takes_over_after_a_crash_is_told_the_suspects():
    actions = with_a_spare().handle(Exited(DATA, -signal.SIGBUS, 2.0, reading=(3,)))
    assert without_words(actions) == [TakeOver(SPARE, DATA, suspects=(3,))]


def test_deaths_for_which_a_file_is_convicted_do_not_count():
    supervisor = started(max_restarts=2)
    for now_s in range(1, 30):
        actions = supervisor.handle(Exited(DATA, -signal.SIGSEGV, float(now_s), reading=(now_s,)))
        assert without_words(actions) == [Spawn(DATA, suspects=(now_s,))]
        supervisor.handle(reported(DATA, "convicted", now_s + 0.1))
        supervisor.handle(reported(DATA, "progress", now_s + 0.2))


def test_a_model_worker_that_is_killed_is_restarted_and_the_data_workers_stay():
    actions = started().handle(Exited(MODEL, -signal.SIGKILL, 5.0))
    assert without_words(actions) == [Spawn(MODEL)]


def test_data_workers_that_had_left_come_back_for_a_model_worker_that_is_restarted():
    supervisor = started()
    assert supervisor.handle(Exited(DATA, 0, 5.0)) == []
    actions = supervisor.handle(Exited(MODEL, -signal.SIGKILL, 5.1))
    assert set(without_words(actions)) == {Spawn(MODEL), Spawn(DATA)}


def test_too_many_deaths_within_the_window_end_the_run_with_the_first_cause():
    supervisor = started(max_restarts=2)
    supervisor.handle(Exited(DATA, -signal.SIGSEGV, 1.0))
    supervisor.handle(Exited(DATA, 7, 2.0))
    supervisor.handle(Ticked(3.0))
    assert supervisor.handle(Exited(DATA, 9, 4.0)) == [AskToStop(MODEL)]
    (finish,) = supervisor.handle(Exited(MODEL, 130, 5.0))
    assert finish.exit_code == 1
    assert finish.cause == (
        f"{DATA} ended 3 times within 10 minutes, more than --max-restarts 2 allows. "
        f"First cause: {DATA}: killed by SIGSEGV"
    )


def test_deaths_that_are_long_past_do_not_count():
    supervisor, now_s = started(max_restarts=1), 0.0
    supervisor.handle(reported(MODEL, "phase", 0.0, "training", 0.0))
    for _ in range(5):
        now_s += RESTART_WINDOW_S + 1
        supervisor.handle(reported(DATA, "progress", now_s, count=1))
        assert without_words(supervisor.handle(Exited(DATA, 1, now_s))) == [Spawn(DATA)]


@pytest.mark.parametrize("apart_s", [210.0, 700.0, 1900.0])
@pytest.mark.parametrize("worker", [DATA, MODEL])
def test_a_worker_that_never_gets_any_further_ends_the_run_however_long_it_takes(worker, apart_s):
    supervisor, now_s, ended = started(max_restarts=3), 0.0, 0
    other = MODEL if worker == DATA else DATA
    supervisor.handle(reported(other, "phase", 0.0, "training", 0.0))
    supervisor.handle(reported(MODEL, "progress", 0.0, count=70))
    while ended < 20:
        now_s += apart_s
        supervisor.handle(Ticked(now_s - apart_s + 9))  # past any delay before its start
        supervisor.handle(reported(worker, "phase", now_s - 1, "starting", 0.0))
        if worker == MODEL:  # from its last checkpoint up to where it was killed before
            supervisor.handle(reported(MODEL, "progress", now_s - 1, count=70))
        actions, ended = supervisor.handle(Exited(worker, -signal.SIGKILL, now_s)), ended + 1
        if AskToStop(other) in actions:
            break
    assert ended == 4
    (finish,) = supervisor.handle(Exited(other, 130, now_s))
    assert finish.exit_code == 1 and "without getting any further" in finish.cause
    assert f"First cause: {worker}: killed by SIGKILL" in finish.cause


def test_a_worker_that_gets_further_each_time_is_started_again_for_ever():
    supervisor, now_s = started(max_restarts=3), 0.0
    supervisor.handle(reported(DATA, "phase", 0.0, "serving", 0.0))
    for batch in range(1, 50):
        now_s += 300.0
        supervisor.handle(reported(MODEL, "progress", now_s - 1, count=batch))
        assert Spawn(MODEL) in supervisor.handle(Exited(MODEL, -signal.SIGKILL, now_s))


def test_a_process_that_a_signal_stopped_is_a_hang_in_any_phase():
    supervisor = started()
    supervisor.handle(reported(MODEL, "phase", 1.0, "compiling", 1800.0))
    supervisor.handle(Ticked(1.5))
    supervisor.handle(Inspected(MODEL, False, 2.0))
    for second in range(3, 12):
        supervisor.handle(Inspected(MODEL, True, float(second)))
        assert supervisor.handle(Ticked(float(second))) == []
    supervisor.handle(Inspected(MODEL, True, 12.0))
    assert supervisor.handle(Ticked(12.0)) == [
        Tell(f"⚠️  {MODEL}: stopped by a signal for 9 s while compiling; its stack is in its log"),
        DumpStack(MODEL),
    ]


def test_a_process_that_goes_on_in_time_was_not_hanging():
    supervisor = started()
    supervisor.handle(reported(MODEL, "phase", 1.0, "compiling", 1800.0))
    for second in range(1, 60):
        supervisor.handle(Inspected(MODEL, second % 7 != 0, float(second)))
        assert supervisor.handle(Ticked(float(second))) == []


def standing_still(data_counts=(5, 5), phase=WAITING):
    """A model worker that waits while the data worker says that it has nothing to do."""
    supervisor = started()
    supervisor.handle(reported(MODEL, "phase", 0.5, phase, 60.0))
    supervisor.handle(reported(DATA, "phase", 0.5, "serving", 8.0))
    found = []
    for second in range(1, 100):
        supervisor.handle(reported(MODEL, "progress", float(second), count=9))
        supervisor.handle(reported(DATA, "progress", float(second), count=data_counts[second % 2]))
        found += supervisor.handle(Ticked(float(second)))
    return found


def test_a_run_in_which_everyone_waits_for_the_other_is_noticed_and_begun_anew():
    found = standing_still()
    assert found[:2] == [
        Tell(f"⚠️  {MODEL}: waiting for 60 s for data that nobody is making; "
             "its stack is in its log"),
        DumpStack(MODEL),
    ]  # fmt: skip
    assert found[2] == Kill(MODEL)


def test_a_model_worker_that_waits_for_data_that_is_being_made_just_waits():
    assert standing_still(data_counts=(5, 6)) == []
    assert standing_still(phase="training") == []


def test_a_process_that_can_not_be_killed_is_not_waited_for():
    supervisor = started()
    supervisor.handle(reported(MODEL, "phase", 0.5, "training", 0.0))
    supervisor.handle(reported(DATA, "phase", 1.0, "serving", 8.0))
    tick_until(supervisor, 9.1)
    assert supervisor.handle(Ticked(10.2)) == [Kill(DATA)]
    for second in range(11, 15):
        assert without_words(supervisor.handle(Ticked(second + 0.3))) in ([], [Kill(DATA)])
    told, *acted = supervisor.handle(Ticked(15.5))
    assert "not even SIGKILL" in told.text
    assert without_words(acted) == [GiveUp(DATA), Spawn(DATA)]


def test_a_stop_does_not_wait_for_a_process_that_can_not_be_killed():
    supervisor = started()
    supervisor.handle(reported(MODEL, "progress", 0.5))
    supervisor.handle(StopAsked(1.0))
    supervisor.handle(Exited(MODEL, 130, 2.0))
    now_s, finish = 2.0, None
    while finish is None and now_s < 30.0:
        now_s += 0.5
        finish = next((a for a in supervisor.handle(Ticked(now_s)) if isinstance(a, Finish)), None)
    assert finish.exit_code == 130 and now_s < 15.0


def test_no_restarts_means_the_first_death_ends_the_run():
    supervisor = started(max_restarts=0)
    assert supervisor.handle(Exited(DATA, -signal.SIGKILL, 1.0)) == [AskToStop(MODEL)]
    (finish,) = supervisor.handle(Exited(MODEL, 130, 2.0))
    assert finish.exit_code == 1


@pytest.mark.parametrize(("status", "code"), [(1, 1), (2, 2), (-9, 1), (70, 1)])
def test_a_worker_that_says_why_it_fails_ends_the_run_with_that_cause(status, code):
    supervisor = started()
    supervisor.handle(reported(DATA, "failure", 1.0, "the index differs"))
    supervisor.handle(reported(DATA, "failure", 1.0, "a later word"))
    assert supervisor.handle(Exited(DATA, status, 2.0)) == [AskToStop(MODEL)]
    assert supervisor.handle(Exited(MODEL, 130, 3.0)) == [Finish(code, "the index differs")]


def test_the_first_failure_is_the_one_reported():
    supervisor = started()
    supervisor.handle(reported(DATA, "failure", 1.0, "the cause"))
    supervisor.handle(Exited(DATA, 1, 2.0))
    supervisor.handle(reported(MODEL, "failure", 2.5, "a consequence"))
    assert supervisor.handle(Exited(MODEL, 1, 3.0)) == [Finish(1, "the cause")]


def test_a_model_worker_that_finishes_ends_the_run_well():
    supervisor = started()
    assert supervisor.handle(Exited(MODEL, 0, 5.0)) == [AskToStop(DATA)]
    assert supervisor.handle(Exited(DATA, 0, 5.5)) == [Finish(0, "finished")]


def test_data_workers_that_have_already_left_are_not_waited_for():
    supervisor = started()
    supervisor.handle(Exited(DATA, 0, 4.0))
    assert supervisor.handle(Exited(MODEL, 0, 5.0)) == [Finish(0, "finished")]


def test_a_stop_lets_the_model_worker_save_before_the_data_workers_are_stopped():
    supervisor = started()
    supervisor.handle(reported(MODEL, "progress", 0.5))
    assert supervisor.handle(StopAsked(1.0)) == [AskToStop(MODEL)]
    assert supervisor.handle(StopAsked(1.1)) == []
    assert supervisor.handle(Exited(MODEL, 130, 4.0)) == [AskToStop(DATA)]
    (finish,) = supervisor.handle(Exited(DATA, 130, 4.5))
    assert finish == Finish(130, "interrupted; the checkpoint is saved")


def test_a_run_that_finishes_while_it_is_being_stopped_is_finished():
    supervisor = started()
    supervisor.handle(StopAsked(1.0))
    supervisor.handle(Exited(MODEL, 0, 2.0))
    assert supervisor.handle(Exited(DATA, 0, 2.0)) == [Finish(0, "finished")]


def test_a_model_worker_that_does_not_stop_is_killed_and_the_user_is_told_it_did_not_save():
    supervisor = started()
    supervisor.handle(reported(MODEL, "progress", 0.5))
    supervisor.handle(StopAsked(1.0))
    assert supervisor.handle(Ticked(15.9)) == []
    assert supervisor.handle(Ticked(16.0)) == [Kill(MODEL)]
    assert supervisor.handle(Exited(MODEL, -signal.SIGKILL, 16.1)) == [AskToStop(DATA)]
    assert supervisor.handle(Ticked(19.0)) == []
    assert supervisor.handle(Ticked(19.1)) == [Kill(DATA)]  # all within 20 s of the stop
    (finish,) = supervisor.handle(Exited(DATA, -signal.SIGKILL, 19.2))
    assert finish.exit_code == 1
    assert "did not save (not done after 15 s, so ended)" in finish.cause


@pytest.mark.parametrize("phase", [SHOWING, CLOSING])
def test_a_model_worker_that_is_killed_after_its_save_did_save(phase):
    supervisor = started()
    supervisor.handle(reported(MODEL, "progress", 0.5))
    supervisor.handle(reported(MODEL, "phase", 0.6, phase, 600.0))
    supervisor.handle(StopAsked(1.0))
    supervisor.handle(Exited(MODEL, -signal.SIGKILL, 16.1))
    (finish,) = supervisor.handle(Exited(DATA, 130, 16.2))
    assert finish == Finish(130, "interrupted; the checkpoint is saved")


@pytest.mark.parametrize("status", [130, -signal.SIGTERM, -signal.SIGKILL])
def test_a_model_worker_that_was_still_starting_had_nothing_to_save(status):
    supervisor = started()
    supervisor.handle(reported(MODEL, "phase", 0.5, "compiling", 1800.0))
    supervisor.handle(StopAsked(1.0))
    supervisor.handle(Exited(MODEL, status, 2.0))
    (finish,) = supervisor.handle(Exited(DATA, 130, 2.5))
    assert finish == Finish(130, "interrupted while it was starting; there was nothing to save")


def test_a_data_worker_that_does_not_stop_is_killed_soon():
    supervisor = started()
    supervisor.handle(Exited(MODEL, 0, 1.0))
    assert supervisor.handle(Ticked(3.9)) == []
    assert supervisor.handle(Ticked(4.0)) == [Kill(DATA)]
    assert supervisor.handle(Ticked(4.5)) == []
    assert supervisor.handle(Ticked(5.0)) == [Kill(DATA)]


def test_a_death_during_the_stop_is_not_replaced():
    supervisor = started()
    supervisor.handle(StopAsked(1.0))
    assert supervisor.handle(Exited(DATA, -signal.SIGKILL, 1.5)) == []
    assert supervisor.handle(Ticked(2.0)) == []


def test_a_stop_before_anything_has_started_finishes_at_once():
    assert Supervisor([DATA], MODEL, 3).handle(StopAsked(0.0)) == [
        Finish(130, "interrupted; the checkpoint is saved")
    ]


def test_a_worker_waiting_for_its_restart_does_not_hold_up_a_stop():
    supervisor = started()
    supervisor.handle(Exited(DATA, 1, 1.0))
    assert without_words(supervisor.handle(Exited(DATA, 1, 1.0))) == []
    assert supervisor.handle(StopAsked(1.2)) == [AskToStop(MODEL)]
    (finish,) = supervisor.handle(Exited(MODEL, 130, 1.3))
    assert finish.exit_code == 130


def test_silence_past_the_deadline_is_a_hang_with_a_stack_and_then_a_kill():
    supervisor = started()
    supervisor.handle(reported(DATA, "phase", 1.0, "serving", 8.0))
    assert tick_until(supervisor, 9.0) == []
    assert supervisor.handle(Ticked(9.1)) == [
        Tell(f"⚠️  {DATA}: no progress for 8 s while serving; its stack is in its log"),
        DumpStack(DATA),
    ]
    assert supervisor.handle(Ticked(10.0)) == []
    assert supervisor.handle(Ticked(10.1)) == [Kill(DATA)]
    assert supervisor.handle(Exited(DATA, -signal.SIGKILL, 10.2)) == [
        Replace(DATA, f"{DATA}: no progress for 8 s while serving"),
        Spawn(DATA),
    ]


def test_progress_puts_the_deadline_off():
    supervisor = started()
    supervisor.handle(reported(DATA, "phase", 0.0, "serving", 8.0))
    for now_s in range(1, 100):
        supervisor.handle(reported(DATA, "progress", float(now_s)))
        assert supervisor.handle(Ticked(now_s + 0.5)) == []


@pytest.mark.parametrize("asleep_s", [3.0, 30.0, 3600.0])
def test_what_a_launcher_that_was_held_up_did_not_hear_is_nobodys_silence(asleep_s):
    supervisor = started()
    supervisor.handle(reported(MODEL, "phase", 0.0, "training", 0.0))
    supervisor.handle(reported(DATA, "phase", 4.0, "serving", 8.0))
    assert tick_until(supervisor, 9.0) == []
    woken_s = 9.0 + asleep_s
    assert supervisor.handle(Ticked(woken_s)) == []
    assert tick_until(supervisor, woken_s + 3.0, from_s=woken_s) == []
    # Whoever hangs has hung before and after.
    assert without_words(supervisor.handle(Ticked(woken_s + 3.1))) == [DumpStack(DATA)]


def test_what_was_heard_when_the_launcher_woke_up_is_not_later_than_now():
    supervisor = started()
    supervisor.handle(reported(MODEL, "phase", 0.0, "training", 0.0))
    supervisor.handle(reported(DATA, "phase", 30.0, "serving", 8.0))
    assert supervisor.handle(Ticked(30.0)) == []
    assert without_words(tick_until(supervisor, 38.5, from_s=30.0)) == [DumpStack(DATA)]


def test_a_phase_brings_its_own_deadline():
    supervisor = started()
    supervisor.handle(reported(DATA, "phase", 0.0, "compiling", 600.0))
    supervisor.handle(reported(MODEL, "phase", 0.0, "saving", 0.0))
    assert supervisor.handle(Ticked(599.0)) == []


def test_a_restarted_worker_has_the_time_that_starting_takes():
    supervisor = started()
    supervisor.handle(reported(DATA, "phase", 0.0, "serving", 8.0))
    supervisor.handle(reported(MODEL, "phase", 0.0, "training", 0.0))
    supervisor.handle(Exited(DATA, 1, 1.0))
    assert supervisor.handle(Ticked(60.0)) == []


def test_nothing_is_done_after_the_end():
    supervisor = started()
    supervisor.handle(Exited(DATA, 0, 1.0))
    assert supervisor.handle(Exited(MODEL, 0, 1.0)) == [Finish(0, "finished")]
    for event in (Ticked(9.0), StopAsked(9.0), Exited(DATA, 1, 9.0), Exited(MODEL, 1, 9.0)):
        assert supervisor.handle(event) == []


def test_the_end_says_what_sort_of_thing_went_wrong():
    supervisor = started(max_restarts=0)
    supervisor.handle(Exited(DATA, -signal.SIGKILL, 1.0))
    (finish,) = supervisor.handle(Exited(MODEL, 130, 2.0))
    assert finish.exit_code == 1 and finish.trouble is Trouble.KILLED
    supervisor = started(max_restarts=0)
    supervisor.handle(Reported(MODEL, Cause("out of memory", False, Trouble.MEMORY), 1.0))
    supervisor.handle(Exited(MODEL, 1, 1.0))
    (finish,) = supervisor.handle(Exited(DATA, 130, 2.0))
    assert finish.exit_code == 1 and finish.trouble is Trouble.MEMORY


def test_restarts_are_counted():
    supervisor = started()
    supervisor.handle(Exited(DATA, 1, 1.0))
    supervisor.handle(Exited(MODEL, -9, 2.0))
    assert supervisor.num_restarts == 2


def test_a_status_is_said_in_words():
    assert status_in_words(-signal.SIGBUS) == "killed by SIGBUS"
    assert status_in_words(-99) == "killed by signal 99"
    assert status_in_words(3) == "exit status 3"


DATA_WORKERS = [DATA, "data_worker-1"]
NAMES = [*DATA_WORKERS, SPARE, MODEL]
SPARES = dict.fromkeys(DATA_WORKERS, SPARE)
moments = st.floats(0, 30)
happenings = st.one_of(
    st.tuples(st.just("tick"), moments),
    st.tuples(st.just("stop"), moments),
    st.tuples(st.just("exit"), moments, st.sampled_from(NAMES),
              st.sampled_from([0, 1, 2, 130, -9, -11, 70])),
    st.tuples(st.just("report"), moments, st.sampled_from(NAMES),
              st.sampled_from(["phase", "standing by", "progress", "convicted", "failure"]),
              st.sampled_from([0.0, 3.0, 60.0])),
)  # fmt: skip


class World:
    """Processes as the supervisor's actions make them: only those alive can exit or report."""

    def __init__(self, max_restarts):
        self.supervisor = Supervisor(DATA_WORKERS, MODEL, max_restarts, SPARES)
        self.now_s = 0.0
        self.alive: set[str] = set()
        self.finishes: list[Finish] = []
        self.stop_begun = False

    def tell(self, event):
        for action in self.supervisor.handle(event):
            assert not self.finishes, "an action after the end"
            if isinstance(action, Spawn):
                assert action.worker not in self.alive, "started twice"
                assert not self.stop_begun, "started during the stop"
                self.alive.add(action.worker)
            elif isinstance(action, TakeOver):
                assert action.spare in self.alive and action.worker not in self.alive
                assert not self.stop_begun, "taken over during the stop"
                self.alive ^= {action.spare, action.worker}
            elif isinstance(action, Finish):
                assert not self.alive, "finished while a process is alive"
                self.finishes.append(action)
            elif isinstance(action, GiveUp):
                assert action.worker in self.alive
                self.alive.discard(action.worker)
            elif isinstance(action, (AskToStop, Kill, DumpStack)):
                assert action.worker in self.alive
                self.stop_begun |= isinstance(action, AskToStop)

    def happen(self, kind, later_s, worker=None, detail=None, deadline_s=0.0):
        self.now_s += later_s
        if kind == "tick":
            self.tell(Ticked(self.now_s))
        elif kind == "stop":
            self.tell(StopAsked(self.now_s))
        elif kind == "exit" and worker in self.alive:
            self.alive.discard(worker)
            self.tell(Exited(worker, detail, self.now_s))
        elif kind == "report" and worker in self.alive:
            self.tell(report(worker, detail, self.now_s, deadline_s))


def report(worker, kind, now_s, deadline_s):
    if kind == "standing by":
        return reported(worker, "phase", now_s, STANDING_BY, deadline_s)
    return reported(worker, kind, now_s, "words", deadline_s)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 4), st.lists(happenings, max_size=40))
def test_whatever_happens_the_run_ends_once_and_nothing_is_started_after_it(max_restarts, story):
    world = World(max_restarts)
    for happening in story:
        world.happen(*happening)
    assert len(world.finishes) <= 1
    # And it can always be ended: a stop, and processes that die when they are killed.
    world.happen("stop", 0.0)
    for _ in range(200):
        if world.finishes:
            break
        world.now_s += 0.5
        for action in world.supervisor.handle(Ticked(world.now_s)):
            assert not isinstance(action, Spawn)
            if isinstance(action, Kill):
                world.happen("exit", 0.0, action.worker, -9)
    assert len(world.finishes) == 1
    assert world.supervisor.handle(Ticked(world.now_s + 1000)) == []


@settings(max_examples=200, deadline=None)
@given(st.lists(happenings, max_size=40))
def test_even_impossible_events_bring_at_most_one_end_and_no_start_after_it(story):
    supervisor, now_s, finished = Supervisor(DATA_WORKERS, MODEL, 3, SPARES), 0.0, False
    for kind, later_s, *rest in story:
        now_s += later_s
        event: Event
        if kind == "tick":
            event = Ticked(now_s)
        elif kind == "stop":
            event = StopAsked(now_s)
        elif kind == "exit":
            event = Exited(rest[0], rest[1], now_s)
        else:
            event = report(rest[0], rest[1], now_s, rest[2])
        for action in supervisor.handle(event):
            assert not finished
            finished |= isinstance(action, Finish)


def with_a_replica(max_restarts=10):
    supervisor = Supervisor([DATA], MODEL, max_restarts, replicas=[SECOND])
    assert supervisor.handle(Ticked(0.0)) == [Spawn(DATA), Spawn(MODEL), Spawn(SECOND)]
    for name in (DATA, MODEL, SECOND):
        supervisor.handle(reported(name, "progress", 0.5, count=1))
    return supervisor


@pytest.mark.parametrize(("dead", "well"), [(SECOND, MODEL), (MODEL, SECOND)])
def test_replicas_that_end_because_one_died_are_started_again_and_have_not_died(dead, well):
    supervisor = with_a_replica(max_restarts=1)
    for now_s in (5.0, 1000.0):
        supervisor.handle(reported(MODEL, "progress", now_s - 1, count=int(now_s)))
        supervisor.handle(reported(SECOND, "progress", now_s - 1, count=int(now_s)))
        actions = supervisor.handle(Exited(dead, -signal.SIGKILL, now_s))
        assert actions == [Replace(dead, f"{dead}: killed by SIGKILL"), Spawn(dead)]
        actions = supervisor.handle(Exited(well, EXIT_TO_BEGIN_AGAIN, now_s + 1))
        assert actions == [Replace(well, f"{well}: it has lost another replica"), Spawn(well)]


def test_replicas_that_only_lose_each_other_end_the_run():
    supervisor = with_a_replica(max_restarts=2)
    for now_s in (5.0, 6.0):
        assert Spawn(MODEL) in supervisor.handle(Exited(MODEL, EXIT_TO_BEGIN_AGAIN, now_s))
    actions = supervisor.handle(Exited(MODEL, EXIT_TO_BEGIN_AGAIN, 7.0))
    assert without_words(actions) == [AskToStop(DATA), AskToStop(SECOND)]
    supervisor.handle(Exited(DATA, 0, 8.0))
    (finish,) = supervisor.handle(Exited(SECOND, 130, 8.0))
    assert finish.exit_code == 1 and "lost another replica" in finish.cause


def test_a_stop_reaches_the_first_replica_alone_until_it_has_saved():
    supervisor = with_a_replica()
    assert supervisor.handle(StopAsked(5.0)) == [AskToStop(MODEL)]
    assert supervisor.handle(Exited(SECOND, 130, 6.0)) == []
    assert supervisor.handle(Exited(MODEL, 130, 7.0)) == [AskToStop(DATA)]
    (finish,) = supervisor.handle(Exited(DATA, 0, 8.0))
    assert finish == Finish(130, "interrupted; the checkpoint is saved")


def test_a_replica_that_was_told_of_the_end_is_not_replaced_unless_the_run_goes_on():
    supervisor = with_a_replica()
    assert supervisor.handle(Exited(SECOND, 0, 5.0)) == []
    actions = supervisor.handle(Exited(MODEL, -signal.SIGKILL, 6.0))
    assert without_words(actions) == [Spawn(MODEL), Spawn(SECOND)]


def test_replicas_that_wait_for_each_other_for_ever_are_found():
    supervisor = with_a_replica()
    for name in (MODEL, SECOND):
        supervisor.handle(reported(name, "phase", 1.0, WAITING_FOR_REPLICAS, 0.0))
    for now_s in range(2, 62):
        for name in (MODEL, SECOND):
            supervisor.handle(reported(name, "progress", now_s, count=1))
        assert supervisor.handle(Ticked(float(now_s))) == []
    actions = supervisor.handle(Ticked(62.5))
    assert DumpStack(MODEL) in actions and DumpStack(SECOND) not in actions


def test_a_replica_that_waits_for_one_that_saves_is_left_alone():
    supervisor = with_a_replica()
    supervisor.handle(reported(MODEL, "phase", 1.0, "saving", 600.0))
    supervisor.handle(reported(SECOND, "phase", 1.0, WAITING_FOR_REPLICAS, 0.0))
    for now_s in range(2, 150):
        assert supervisor.handle(Ticked(float(now_s))) == []
