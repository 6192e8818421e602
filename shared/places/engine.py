"""--engine: where a run's workers are to live, checked before anything heavy and opened when it is time."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence

from shared.config.settings import Config
from shared.errors import ConfigError
from shared.places.local_place import LocalPlace
from shared.places.place import Place
from shared.run.directory import RunDirectory
from shared.stream.run_wire import RunWire


@dataclasses.dataclass(frozen=True)
class Engine:
    """Where the workers live, and where batches flow if that is not for the configuration to say."""

    place: Place
    wire: RunWire | None = None
    # Has this function called, from another thread, where the run must end for want of the place.
    when_lost: Callable[[Callable[[str], None]], None] = lambda stop: None


def check_engine(config: Config) -> None:
    """See that what the flags ask for can be had.

    Raises:
        InputError: it can't, and what to do.
    """
    run = config.run
    if run.engine == "ray":
        from shared.places.ray_cluster import import_ray
        from shared.places.ray_refusals import check_ray_flags

        import_ray()
        check_ray_flags(config)
    elif run.ray_address != "auto" or run.trusted_network:
        raise ConfigError(
            "--ray-address and --trusted-network are for --engine ray. Add that, or leave them out."
        )


@contextlib.contextmanager
def open_engine(
    config: Config,
    run: RunDirectory,
    data_workers: Sequence[str],
    say: Callable[[str], None],
) -> Iterator[Engine]:
    """The place for the workers of a run whose data was looked at; `data_workers` by name.

    Raises:
        InputError: it can't be had, and what to do.
    """
    if config.run.engine == "local":
        yield Engine(LocalPlace())
        return
    from shared.places.hosts import Hosts
    from shared.places.ray_cluster import RayCluster
    from shared.places.ray_place import RayPlace
    from shared.places.ray_refusals import mend_token_file

    mend_token_file(say)
    cluster = RayCluster(config.run.ray_address)
    try:
        hosts = Hosts(cluster, run, config)
        try:
            hosts.look(say)
            wire = RunWire.between_hosts(
                cluster.address, config.data.num_model_replicas, data_workers
            )
            place = RayPlace(cluster, hosts.fit)
            yield Engine(place, wire, place.stop_without_head)
        finally:
            hosts.close()
    finally:
        cluster.close()
