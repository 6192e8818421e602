"""events.jsonl: what is written is read, whatever happened to the file in between."""

from shared.run.event_log import Ended, EventLog, Restarted, Started, read_events

STORY = [
    Started(1.5),
    Restarted(2.0, "data_worker-0", "data_worker-0: killed by SIGKILL", by_spare=True),
    Ended(3.0, 130, "interrupted; the checkpoint is saved"),
]


def write(path, *events):
    log = EventLog(path)
    for event in events:
        log.add(event)
    log.close()


def test_events_are_read_in_the_order_in_which_they_were_written(tmp_path):
    path = tmp_path / "events.jsonl"
    assert read_events(path) == []
    write(path, *STORY[:1])
    write(path, *STORY[1:])
    assert read_events(path) == STORY


def test_a_line_that_was_cut_off_costs_itself_alone(tmp_path):
    path = tmp_path / "events.jsonl"
    write(path, *STORY)
    path.write_bytes(path.read_bytes()[:-9])
    write(path, Started(9.0))
    assert read_events(path) == [*STORY[:2], Started(9.0)]


def test_what_is_no_event_is_passed_over(tmp_path):
    path = tmp_path / "events.jsonl"
    lines = (
        b"\xff",
        b'{"kind": "started"}',
        b'{"kind": "phase"}',
        b'{"kind": "started", "time_s": 4}',
    )
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert read_events(path) == [Started(4.0)]


def test_a_log_that_can_not_be_written_ends_no_run(tmp_path):
    path = tmp_path / "events.jsonl"
    path.mkdir()
    write(path, *STORY)
    assert read_events(path) == []
