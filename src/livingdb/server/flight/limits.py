"""What one user may take of a Flight server."""

from __future__ import annotations

from dataclasses import dataclass

from livingdb.errors import InvalidData

__all__ = ["FlightLimits"]


@dataclass(frozen=True)
class FlightLimits:
    """What one user may take.

    rows                  in one answer
    seconds               of computing for one answer; how long it takes to be sent does not count
    concurrent            calls at a time, answers that are being read among them; others wait
    wait_seconds          for that turn; then they are refused
    batch_bytes           of a message that is sent, about: clients take 16 MiB unless told
    upload_bytes          of the rows that one call brings
    handles               of each kind (statements, transactions, answers) at a time
    idle_seconds          for which an answer waits to be fetched, and changes to be committed
    session_seconds       for which a session, a prepared statement and a transaction that has
                          changed nothing are kept for a client that rests
    """

    rows: int = 100_000_000
    seconds: float = 60.0
    concurrent: int = 16
    wait_seconds: float = 30.0
    batch_bytes: int = 2 << 20
    upload_bytes: int = 4 << 30
    handles: int = 1024
    idle_seconds: float = 300.0
    session_seconds: float = 86_400.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise InvalidData(f"limits: {name} is a number above 0: {value!r}")
