"""`watch --web`: the page, until Ctrl-C."""

from __future__ import annotations

import ipaddress
import platform
import secrets
from collections.abc import Sequence
from pathlib import Path

from shared.console.say import say_plainly
from shared.console.web.answers import LivePage
from shared.console.web.guard import Guard
from shared.console.web.live_runs import LiveRuns
from shared.console.web.server import PageServer

LOOPBACK = "127.0.0.1"
_TOKEN_BYTES = 24


def page_server(paths: Sequence[Path], host: str, port: int) -> tuple[PageServer, str]:
    """The server, and the link that leads to its page.

    Raises:
        InputError: the address can't be had.
    """
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    server = PageServer(host, port, Guard(token, [host]), LivePage(LiveRuns(paths)))
    shown = platform.node() if _is_any(host) else host
    name = f"[{shown}]" if ":" in shown else shown
    return server, f"http://{name}:{server.server_port}/{token}/"


def serve(paths: Sequence[Path], host: str, port: int) -> None:
    """Serve the page until Ctrl-C."""
    server, link = page_server(paths, host, port)
    with server:
        say_plainly(f"🌐 {link}")
        if is_loopback(host):
            there = f"{server.server_port}:{host}:{server.server_port}"
            say_plainly(f"   On another machine: ssh -L {there} {platform.node()}, then this link")
        else:
            say_plainly(
                "⚠️  Anyone with this link can see the runs, and nothing is encrypted on the way; ssh -L "
                "to a page on loopback is safer"
            )
        say_plainly("   Ctrl-C ends the page; the runs go on")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say_plainly("👋 The page is closed; the runs go on")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
