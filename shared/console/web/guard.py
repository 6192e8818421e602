"""Which requests are answered: those that know the token, by a name that is this machine's."""

from __future__ import annotations

import hmac
import ipaddress
import platform
from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import unquote, urlsplit


class Guard:
    """Lets a request through, or names the status that refuses it."""

    def __init__(self, token: str, names: Iterable[str] = ()):
        """`names`: of this machine, beside those that are its own anyway."""
        self._token = token.encode()
        self._names = {"localhost", platform.node().lower(), *(name.lower() for name in names)}

    def check(self, method: str, host: str | None, target: str) -> list[str] | HTTPStatus:
        """The parts of the address behind the token; or why there is no answer."""
        if method != "GET":
            return HTTPStatus.METHOD_NOT_ALLOWED
        if not self._is_own_name(host):
            return HTTPStatus.FORBIDDEN
        path = urlsplit(target).path if target.startswith("/") else ""
        _, _, rest = path.partition("/")
        token, slash, rest = rest.partition("/")
        if not hmac.compare_digest(token.encode(errors="surrogateescape"), self._token):
            return HTTPStatus.NOT_FOUND
        if not slash:
            return HTTPStatus.NOT_FOUND  # addresses on the page lead from the folder
        return [unquote(part) for part in rest.split("/")]

    def _is_own_name(self, host: str | None) -> bool:
        """Whether a Host header names this machine.

        A page of another site whose name was made to lead here (DNS rebinding) sends that name. An
        address can't be made to; and the port may be another one, behind ssh -L.
        """
        if not host:
            return False
        name = host.strip().lower()
        if name.startswith("["):
            name = name[1:].partition("]")[0]
        elif name.count(":") == 1:
            name = name.partition(":")[0]
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True
