"""What a studio is started with."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

from attnlab.errors import AttnlabError, InputError
from attnlab.studio.guard import Access

FIRST_PORT = 8421
LOG = "studio.log"  # what a comparison that the studio started says, in its folder
_TRIED = 20  # ports, if none was asked for
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class Settings:
    """Where the studio listens, and the folder of the runs that it shows."""

    runs: Path
    host: str = "127.0.0.1"
    port: int | None = None  # None: the first that is free
    exposed: bool = False  # whether others than this machine may be let in

    def __post_init__(self) -> None:
        if self.port is not None and not 0 <= self.port < 65536:
            raise InputError(
                f"{self.port} is no port", hint="use a number from 1024 to 65535, or 0 for any that is free"
            )
        if self.runs.exists() and not self.runs.is_dir():
            raise InputError(f"{self.runs} is no folder", hint="name the folder that the runs lie in")
        if not self.exposed and not is_loopback(self.host):
            raise InputError(
                f"{self.host} can be reached by other machines: whoever has the printed address could train, stop and "
                "read runs here, and the connection is not encrypted",
                hint="leave --host out, or say --expose if you mean it",
            )

    def listen(self) -> socket.socket:
        """A socket that listens, so that nobody is too early."""
        last: OSError | None = None
        for port in range(FIRST_PORT, FIRST_PORT + _TRIED) if self.port is None else [self.port]:
            try:
                return _bind(self.host, port)
            except OSError as error:
                last = error
        where = f"port {self.port}" if self.port is not None else f"any port from {FIRST_PORT} on"
        reason = (last.strerror or str(last)).lower() if last else "it is taken"
        raise AttnlabError(f"cannot listen at {where} of {self.host}: {reason}", hint="choose another with --port")

    def access(self, port: int) -> Access:
        """Who is let in at this port."""
        wildcard = not is_loopback(self.host) and _is_wildcard(self.host)
        names = set(_LOOPBACK) if is_loopback(self.host) or wildcard else {self.host.lower()}
        if not is_loopback(self.host):
            names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        return Access(port=port, hosts=frozenset(names | {self.host.lower()}), any_address=wildcard)

    def address(self, access: Access) -> str:
        """What a person opens."""
        name = socket.gethostname() if _is_wildcard(self.host) else self.host
        host = f"[{name}]" if ":" in name else name
        return f"http://{host}:{access.port}/?token={access.token}"


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_wildcard(host: str) -> bool:
    return host in {"0.0.0.0", "::", ""}


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening
