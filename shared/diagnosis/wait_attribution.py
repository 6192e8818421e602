"""What the training loop waited for, batch by batch: durations in, milliseconds by cause out.

Pure. It needs durations alone, so data processes on other hosts, with other clocks, count alike.

The batches come through a chain: readers (reading and decoding) → feature thread → socket → link →
copying thread → training loop, bounded by tickets. All of them work at the same time on different
batches, so the part that happened to be last before a batch arrived says little. What matters is
who was never idle. A link of the chain that had to wait itself passes the blame on:

  1. before the batch's ticket was given to the process that made it: no data process was there;
  2. the copying thread had the batch and the loop still waited: the device copy;
  3. the feature thread had no ticket to work on, although the loop waited: what tickets and batches
     spent on their way, and in the socket's thread;
  4. the feature thread waited for its examples: the readers, by what they did, reading or decoding;
  5. the feature thread worked, on this batch or on those before it.

So with times per batch of readers R, features F and the step S, and R the longest, the wait R - S
falls into R - max(F, S) for the readers and max(F, S) - S for the features: what would be won by
mending the first, and then the second.
"""

from __future__ import annotations

import dataclasses

READING, DECODING, FEATURES = "reading", "decoding", "features"
SERIALISING, TRANSPORT, DEVICE_COPY = "serialising", "transport", "device_copy"
COMPILING, ABSENT = "compiling", "absent"
STAGES = (READING, DECODING, FEATURES, SERIALISING, TRANSPORT, DEVICE_COPY)
CAUSES = (*STAGES, COMPILING, ABSENT)

# Of a feature thread's time; less of it without a ticket is merely being woken.
_LACKS_TICKETS = 0.1


@dataclasses.dataclass(frozen=True)
class Made:
    """How a data process made one batch, in milliseconds; its fields travel with the batch.

    `reading` and `decoding` are added up over the reader threads. All others passed on the clock.
    """

    look_up: float = 0.0  # in the feature cache, in the socket's thread
    read_wait: float = 0.0  # the feature thread, for the readers
    reading: float = 0.0
    decoding: float = 0.0
    features: float = 0.0
    compiling: float = 0.0  # the features of a batch that needed a new graph, and that graph
    serialising: float = 0.0  # from the feature thread into the socket
    in_process: float = 0.0  # from the ticket's coming to the batch's going
    # Not times: the share of its time that the feature thread had no ticket, over its last batches
    # (tickets come several at a time); the reader threads; the busy share of the cores.
    idle_share: float = 0.0
    readers: float = 0.0
    cores_busy: float = 0.0

    @classmethod
    def from_timings(cls, timings_ms: dict[str, float]) -> Made:
        """Of what came off the wire: unknown names are left, negative times are nothing."""
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{n: max(0.0, ms) for n, ms in timings_ms.items() if n in known})


@dataclasses.dataclass(frozen=True)
class BatchLife:
    """One batch as the model process saw it come, in milliseconds."""

    waited: float  # the training loop, for this batch
    ticket_age: float  # from the ticket's going to the moment the loop had the batch
    round_trip: float  # from the ticket's going to the batch's coming
    copier_idle: float  # the copying thread, before the batch was there
    made: Made


def attribute(life: BatchLife) -> dict[str, float]:
    """Milliseconds of `life.waited` by cause; what they lack of it, nothing explains."""
    made = life.made
    found = dict.fromkeys(CAUSES, 0.0)
    left = life.waited

    def give(most_ms: float, **weights: float) -> None:
        """Up to `most_ms` of what is left, shared out by the weights."""
        nonlocal left
        total = sum(weights.values())
        part = min(left, most_ms) if total > 0 else 0.0
        if part <= 0:
            return
        for cause, weight in weights.items():
            found[cause] += part * weight / total
        left -= part

    give(left - life.ticket_age, absent=1)
    give(left - life.copier_idle, device_copy=1)
    thread_ms = made.read_wait + made.features + made.compiling
    on_the_way = max(0.0, life.round_trip - made.in_process)
    lacked_tickets = made.idle_share > _LACKS_TICKETS
    if lacked_tickets:
        give(on_the_way + made.serialising, transport=on_the_way, serialising=made.serialising)
    give(made.look_up, reading=1)
    reader_ms = made.reading + made.decoding
    if reader_ms > 0:
        give(made.read_wait, reading=made.reading, decoding=made.decoding)
    give(made.features + made.compiling, features=made.features, compiling=made.compiling)
    if not lacked_tickets and thread_ms > 0:
        # More than this batch took: it was busy all the while, with batches that were like this.
        read_share = made.read_wait / reader_ms if reader_ms > 0 else 0.0
        give(
            left,
            reading=made.reading * read_share,
            decoding=made.decoding * read_share,
            features=made.features,
            compiling=made.compiling,
        )
    return found
