"""Memory that two processes share: no slot is written while it is read, no block is lost."""

import fcntl
import gc
import os
import subprocess
import sys

import numpy as np
import pytest

from shared.errors import ProtocolError
from shared.stream.batch_memory import BatchMemory, PeerMemory

PAGE = os.sysconf("SC_PAGE_SIZE")
BLOCK = PAGE + 100  # takes two pages


@pytest.fixture
def memory():
    memory = BatchMemory(BLOCK, 3)
    yield memory
    memory.close()


@pytest.fixture
def peer(memory):
    return PeerMemory(os.getpid(), memory.descriptor, memory.slot_bytes, memory.token)


def handed_over(memory, value):
    """Where a block is that is full of `value` and belongs to the other side."""
    block = memory.take(BLOCK)
    block.fill(value)
    return memory.hand_over(block)


def test_a_block_is_read_where_it_was_written(memory, peer):
    block = memory.take(BLOCK)
    block.fill(7)
    found = peer.block(memory.hand_over(block), BLOCK)
    assert (found == 7).all()
    block[0] = 8
    assert found[0] == 8


def test_what_is_read_can_t_be_written(memory, peer):
    found = peer.block(handed_over(memory, 7), BLOCK)
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1


def test_a_slot_is_free_only_when_both_sides_are_done_with_it(memory, peer):
    one, other = memory.take(BLOCK), memory.take(BLOCK)
    found = peer.block(memory.hand_over(one), BLOCK)
    view = found[10:20].view(np.int16)
    del one, found
    gc.collect()
    third = memory.take(BLOCK)
    assert memory.take(BLOCK) is None
    del view
    again = memory.take(BLOCK)
    assert again is not None
    assert memory.take(BLOCK) is None
    del other, third


def test_a_block_that_was_never_handed_over_is_free_again(memory):
    for _ in range(10):
        assert memory.take(BLOCK) is not None


def test_the_lowest_slots_are_used_first_so_that_few_pages_become_real(memory):
    places = {handed_over(BatchMemory(BLOCK, 3), 1) for _ in range(3)}
    assert places == {PAGE}
    first = memory.take(BLOCK)
    assert memory.hand_over(first) == PAGE


def test_a_block_from_elsewhere_has_no_place(memory):
    assert memory.hand_over(np.zeros(BLOCK, np.uint8)) == 0
    other = BatchMemory(BLOCK, 3)
    assert other.hand_over(memory.take(BLOCK)) == 0
    assert not memory.is_handed_over and not other.is_handed_over
    other.close()


def test_a_block_that_is_too_large_is_not_given(memory):
    assert memory.take(memory.slot_bytes + 1) is None


def test_a_block_outlives_the_process_that_made_it():
    program = (
        "import sys\n"
        "from shared.stream.batch_memory import BatchMemory\n"
        f"memory = BatchMemory({BLOCK}, 3)\n"
        f"block = memory.take({BLOCK})\n"
        "block.fill(9)\n"
        "print(memory.token)\n"
        "print(memory.descriptor, memory.slot_bytes, memory.hand_over(block), flush=True)\n"
        "sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    token = child.stdout.readline().strip()
    descriptor, slot_bytes, place = map(int, child.stdout.readline().split())
    found = PeerMemory(child.pid, descriptor, slot_bytes, token).block(place, BLOCK)
    child.kill()
    child.communicate()
    assert (found == 9).all()


@pytest.mark.parametrize("place", [0, 1, PAGE + 1, PAGE + 6 * PAGE, 2**53])
def test_a_place_that_is_no_slot_is_refused(memory, peer, place):
    handed_over(memory, 1)
    with pytest.raises(ProtocolError, match="no slot"):
        peer.block(place, BLOCK)


def test_more_than_a_slot_holds_is_refused(memory, peer):
    with pytest.raises(ProtocolError, match="no slot"):
        peer.block(handed_over(memory, 1), memory.slot_bytes + 1)


def test_a_slot_that_was_not_handed_over_is_refused(memory, peer):
    with pytest.raises(ProtocolError, match="not handed over"):
        peer.block(PAGE, BLOCK)


def test_a_slot_that_is_still_read_is_refused(memory, peer):
    place = handed_over(memory, 1)
    found = peer.block(place, BLOCK)
    with pytest.raises(ProtocolError, match="not handed over"):
        peer.block(place, BLOCK)
    del found


def test_memory_that_its_owner_could_cut_off_is_not_mapped():
    descriptor = os.memfd_create("tandem-batches-open", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, 2 * PAGE)
    with pytest.raises(OSError, match="cut it off"):
        PeerMemory(os.getpid(), descriptor, PAGE, "open")
    os.close(descriptor)


def test_other_memory_that_has_got_the_same_number_is_not_mapped(memory):
    with pytest.raises(OSError, match="uses other memory by now"):
        PeerMemory(os.getpid(), memory.descriptor, memory.slot_bytes, "of-one-before")


def test_what_is_no_memory_is_not_mapped(tmp_path):
    (tmp_path / "file").write_bytes(b"\0" * 2 * PAGE)
    os.mkfifo(tmp_path / "fifo")
    for opened in (
        os.open(tmp_path / "file", os.O_RDWR),
        os.open(tmp_path / "fifo", os.O_RDWR),
        os.open("/dev/null", os.O_RDWR),
    ):
        with pytest.raises(OSError):
            PeerMemory(os.getpid(), opened, PAGE, "open")
        os.close(opened)
    with pytest.raises(OSError):
        PeerMemory(os.getpid(), 10_000, PAGE, "open")


@pytest.mark.parametrize("slot_bytes", [0, 1, PAGE - 1, PAGE + 1, 4 * PAGE, 2**53])
def test_slots_that_do_not_fit_the_memory_are_not_mapped(memory, slot_bytes):
    with pytest.raises(OSError, match="does not fit"):
        PeerMemory(os.getpid(), memory.descriptor, slot_bytes, memory.token)


def test_the_memory_can_t_be_resized(memory):
    seals = fcntl.fcntl(memory.descriptor, fcntl.F_GET_SEALS)
    assert seals & fcntl.F_SEAL_SHRINK and seals & fcntl.F_SEAL_GROW
    with pytest.raises(PermissionError):
        os.ftruncate(memory.descriptor, 0)
