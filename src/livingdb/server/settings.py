"""What a server is told when it starts: where it listens, whom it lets in, and what it allows."""

from __future__ import annotations

from dataclasses import dataclass, field

from livingdb.errors import InvalidData

__all__ = ["Limits", "ServerSettings", "is_loopback"]

_SECRET_CHARACTERS = 16
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Limits:
    """What one user may take of a server.

    body_bytes    of a request
    rows          in one answer; pages of JSON are shorter
    page_rows     in one answer as JSON
    seconds       for the queries of a request
    concurrent    requests at a time; others wait their turn
    wait_seconds  for that turn; then they are refused
    streams       of events at a time
    sessions      of SQL at a time
    jobs          that wait or run at a time
    stall_seconds a client may let an answer wait, or a request be incomplete
    idle_seconds  a session of SQL may rest; then it ends, and what it did not commit is gone
    """

    body_bytes: int = 64 << 20
    rows: int = 10_000_000
    page_rows: int = 10_000
    seconds: float = 60.0
    concurrent: int = 16
    wait_seconds: float = 30.0
    streams: int = 16
    sessions: int = 16
    jobs: int = 8
    stall_seconds: float = 30.0
    idle_seconds: float = 300.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise InvalidData(f"limits: {name} is a number above 0: {value!r}")


@dataclass(frozen=True)
class ServerSettings:
    """Where a server listens, and how.

    certificate, key   files for TLS; without, connections are plain
    allowed_hosts      names it is called by besides loopback and `host`: what proxies pass on
    allowed_origins    pages of other sites that may call it, as https://host
    upkeep             whether the runner is inside
    export_folder      below which exports are written; without, nobody can export over HTTP
    backup_place       a folder or URL below which backups are written; without, nobody can
    metrics_token      a secret that opens /metrics and nothing else, for what gathers counts;
                       without, only owners see them
    """

    host: str = "127.0.0.1"
    port: int = 8765
    flight_port: int | None = None
    certificate: str | None = None
    key: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    upkeep: bool = True
    export_folder: str | None = None
    backup_place: str | None = None
    metrics_token: str | None = field(default=None, repr=False)
    log_level: str = "info"
    stop_seconds: float = 10.0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise InvalidData("TLS takes a certificate and its key: give both, or none")
        if self.metrics_token is not None and len(self.metrics_token) < _SECRET_CHARACTERS:
            raise InvalidData(f"the token of /metrics has at least {_SECRET_CHARACTERS} characters")

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.certificate is not None

    @property
    def scheme(self) -> str:
        """How its addresses begin."""
        return "https" if self.has_tls else "http"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    return host in _LOOPBACK or host.startswith("127.")
