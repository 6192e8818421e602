"""Lines out of pipes."""

import os

from shared.places.line_reader import LineReader


def test_a_pipe_that_has_ended_leaves_its_number_to_others():
    read, write = os.pipe()
    os.write(write, b"one\ntwo")
    os.close(write)
    lines = []
    reader = LineReader(read, lines.append)
    assert reader.read() and not reader.read() and reader.is_closed
    assert lines == ["one", "two"]
    next_read, next_write = os.pipe()
    assert next_read == read
    os.write(next_write, b"another's")
    reader.drain()
    reader.close()
    assert os.read(next_read, 100) == b"another's"
    os.close(next_read)
    os.close(next_write)
