"""Addresses of agents: hosts, ports, and endpoints as Zenoh takes them."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from dataclasses import dataclass
from typing import Any

from .._refused import Refused

LOCAL = "127.0.0.1"
HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
MOST_PORT = 65_535


@dataclass(frozen=True)
class Address:
    """An agent's address: its host and its port."""

    host: str
    port: int

    @property
    def endpoint(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tls/{host}:{self.port}"

    @property
    def listen(self) -> str:
        """Endpoint to listen at: all addresses of the machine, or the host itself if it is a loopback address."""
        host = same_host(self.host)
        if _is_address(host) and ipaddress.ip_address(host).is_loopback:
            return self.endpoint
        return f"tls/{'[::]' if ':' in self.host else '0.0.0.0'}:{self.port}"


def host_and_port(text: str) -> tuple[str, int | None] | None:
    """Return host, without brackets, and port of HOST, HOST:PORT, [IPv6] or [IPv6]:PORT; None for other texts."""
    found = re.fullmatch(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::([0-9]{1,5}))?", text)
    if found is None:
        return None
    six, name, digits = found.groups()
    port = None if digits is None else int(digits)
    if port is not None and not 1 <= port <= MOST_PORT:
        return None
    if six is not None:
        return (six, port) if _is_address(six) and ":" in six and "%" not in six else None
    if not HOST.fullmatch(name) or (name.rpartition(".")[2].isdigit() and not _is_address(name)):
        return None
    return name, port


def check_endpoint(what: str, endpoint: Any) -> str:
    """Return `endpoint` if it is tls/HOST:PORT, and refuse it otherwise."""
    place = host_and_port(endpoint.removeprefix("tls/")) if isinstance(endpoint, str) else None
    if place is None or place[1] is None or not endpoint.startswith("tls/"):
        raise Refused(f'{what} = "{endpoint}"', "tls/HOST:PORT is needed", 'Write "tls/10.0.0.1:7447".')
    return str(endpoint)


def dialed(endpoint: str) -> str:
    """Return an endpoint as Zenoh 1.10 connects to it: without the brackets of an IPv6 address.

    Zenoh would look for them in the certificate. It takes the port from after the last colon: they are not needed.
    """
    return endpoint.replace("[", "").replace("]", "")


def same_host(host: str) -> str:
    """Return one spelling for all spellings of a host, to compare hosts."""
    if host.lower() == "localhost":
        return LOCAL
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host))
    return host.lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
