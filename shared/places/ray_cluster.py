"""The Ray cluster that a run is placed on: reached, asked for actors, left. Nothing else knows Ray."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from shared.config.installation import pip_install
from shared.errors import InputError

_NAMESPACE = "tandem"
_REACHED_WITHIN_S = 5.0
_REFUSALS = (ConnectionError, RuntimeError, ValueError, OSError)
_INSTALL = pip_install("requirements-ray.lock")


def import_ray() -> ModuleType:
    """Ray, which is an extra.

    Raises:
        InputError: it is not installed.
    """
    # Until it is connected, Ray's core would tell the terminal what it tries.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # or a call after the end would start a cluster
    try:
        import ray
    except ImportError:
        raise InputError(
            f"--engine ray needs Ray, which is not installed here: run '{_INSTALL}' on every host."
        ) from None
    return ray


class ActorLost(Exception):
    """The actor has died, with all that it had started."""


class ActorSilent(Exception):
    """The actor has not answered yet; it may live."""


class ActorUnreachable(ActorSilent):
    """The connection to it is broken; Ray does not know yet whether it will come back."""


@dataclasses.dataclass(frozen=True)
class Host:
    """One of the cluster's."""

    node: str  # as Ray calls it
    address: str


class RayCluster:
    """A connection of this process to a cluster. Safe to use from several threads."""

    def __init__(self, address: str):
        """
        Raises:
            InputError: there is no such cluster, or this host is not part of it.
        """
        self._ray = import_ray()
        self._util = self._ray.util
        self._is_gone = False
        self._head = address_of(address)
        _check_reachable(self._head)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._ray.init(
                address=address,
                namespace=_NAMESPACE,
                configure_logging=False,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
        except (*_REFUSALS, self._ray.exceptions.RayError) as error:
            words = str(error).strip().splitlines()
            raise InputError(
                f"--ray-address {address}: {words[0] if words else type(error).__name__} "
                "Start Ray on this host too: 'ray start --head', or 'ray start --address HOST:PORT' "
                "where there is a head elsewhere."
            ) from None
        finally:
            for number, handler in handlers.items():  # Ray has one of its own for SIGTERM
                with contextlib.suppress(ValueError, TypeError):
                    signal.signal(number, handler)

        self._ray._private.worker.print_to_stdstream = _say_nothing

    @property
    def address(self) -> str:
        """Of this host, as the others reach it."""
        return str(self._util.get_node_ip_address())

    def head_answers(self) -> bool:
        """Whether someone listens where the cluster's head is."""
        return not _why_unreachable(self._head)

    def hosts(self) -> list[Host]:
        """Those that live."""
        return [
            Host(str(node["NodeID"]), str(node["NodeManagerAddress"]))
            for node in self._ray.nodes()
            if node["Alive"]
        ]

    def ask_hosts(
        self, hosts: Sequence[Host], function: Callable[..., Any], argument: Any, within_s: float
    ) -> dict[str, Any]:
        """What a function says on each of these hosts, by node; nothing of one that says nothing."""
        affinity = self._util.scheduling_strategies.NodeAffinitySchedulingStrategy
        task = self._ray.remote(function)
        asked = {}
        for host in hosts:
            there = affinity(node_id=host.node, soft=False)
            options = task.options(num_cpus=0, max_retries=0, scheduling_strategy=there)
            asked[options.remote(argument)] = host.node
        said, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=within_s)
        answers = {}
        for each in said:
            try:
                answers[asked[each]] = self._ray.get(each)
            except self._ray.exceptions.RayError as error:
                answers[asked[each]] = error
        return answers

    def actor(self, kind: type, arguments: Sequence[Any], nodes: Sequence[str], cpus: float) -> Any:
        """Ask for an actor on one of these nodes, spread over them; it may be long in coming."""
        return (
            self._ray.remote(kind)
            .options(
                num_cpus=cpus,
                max_restarts=0,  # what is done about a death is the launcher's to decide
                max_task_retries=0,
                max_concurrency=4,
                scheduling_strategy="SPREAD",
                label_selector={"ray.io/node-id": f"in({','.join(nodes)})"},
            )
            .remote(*arguments)
        )

    def get(self, asked: Any, within_s: float) -> Any:
        """What a method of an actor returns.

        Raises:
            ActorLost: it will never return.
            ActorSilent: it has not yet.
        """
        failures = self._ray.exceptions
        try:
            return self._ray.get(asked, timeout=within_s)
        except failures.GetTimeoutError:
            raise ActorSilent("it does not answer") from None
        except failures.ActorUnavailableError:
            raise ActorUnreachable("its host can't be reached") from None
        except failures.RayActorError as error:
            raise ActorLost(_in_words(error)) from None

    def do_without(self) -> None:
        """The head is gone: ask it for nothing more. Agents that nobody asks end by themselves."""
        self._is_gone = True
        atexit.unregister(self._ray.shutdown)

    def end(self, actor: Any) -> None:
        if self._is_gone:
            return
        with contextlib.suppress(Exception):  # it, or its host, is gone
            self._ray.kill(actor, no_restart=True)

    def close(self) -> None:
        if not self._is_gone:
            self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray itself would try for a minute and more.

    Raises:
        InputError: nobody listens there.
    """
    if why := _why_unreachable(address):
        raise InputError(
            f"--ray-address {address}: no Ray answers there ({why}). Start it with 'ray start "
            "--head', or name the host and port of its head."
        )


def _why_unreachable(address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACHED_WITHIN_S).close()
    except (OSError, ValueError, OverflowError) as error:
        return str(getattr(error, "strerror", "") or error)
    return ""


def _say_nothing(data: Any, ignore_prefix: bool = False) -> None:
    """What Ray notices of its processes is told by the launcher, in words of its own.

    Ray prints it on the driver's terminal even where it is asked not to (log_to_driver).
    """


def _in_words(error: Exception) -> str:
    text = str(error)
    if "its node has died" in text:
        return "its host is gone"
    return "its actor was ended"


def address_of(address: str) -> str:
    """HOST:PORT of a cluster that is named, or of the one that this host belongs to; "" if none is."""
    if address != "auto":
        return address
    if found := os.environ.get("RAY_ADDRESS", ""):
        return "" if found == "auto" else found
    folder = os.environ.get("RAY_TMPDIR") or "/tmp"
    try:
        with open(os.path.join(folder, "ray", "ray_current_cluster"), encoding="utf-8") as file:
            return file.read(256).strip()
    except OSError:
        return ""
