"""A Flight SQL server over one database: started, reached at a port, and stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from livingdb.errors import RuleViolation, Unsupported
from livingdb.server.flight.limits import FlightLimits
from livingdb.server.flight.observed_call import Observer, tell_nobody

if TYPE_CHECKING:
    from livingdb.database.database import Database
    from livingdb.server.flight.entrance import Keeper
    from livingdb.server.flight.service import FlightService

__all__ = ["FlightServer"]


class FlightServer:
    """Answers ADBC and other clients of Flight SQL; also a context manager.

    location      where it listens: grpc://host:port, or grpc+tls:// with certificates; port 0
                  is any that is free
    certificates  pairs of a certificate and its key, both as PEM
    keeper        knows who comes in by their tokens; without, the people of the database do
    limits        what one user may take
    observe       is told of each call when it has ended
    clock         says, in seconds, how long things rest
    """

    def __init__(
        self,
        database: Database,
        location: str = "grpc://127.0.0.1:0",
        *,
        keeper: Keeper | None = None,
        certificates: Sequence[tuple[bytes, bytes]] | None = None,
        limits: FlightLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        observe: Observer = tell_nobody,
    ):
        self._database = database
        self._location = location
        self._keeper = keeper
        self._certificates = None if certificates is None else list(certificates)
        self._limits = limits or FlightLimits()
        self._clock = clock
        self._observe = observe
        self._service: FlightService | None = None

    def start(self) -> Self:
        """Listen, in threads of its own."""
        try:
            from livingdb.server.flight.entrance import PeopleKeeper
            from livingdb.server.flight.service import FlightService
        except ImportError as error:
            raise Unsupported(
                f"Flight SQL needs a library that is not there ({error.name}): "
                "pip install livingdb[server]"
            ) from None
        if self._service is not None:
            raise RuleViolation("the server runs already")
        keeper = self._keeper or PeopleKeeper(self._database)
        self._service = FlightService(
            self._database,
            keeper,
            self._location,
            self._limits,
            self._certificates,
            self._clock,
            self._observe,
        )
        return self

    @property
    def port(self) -> int:
        """The port it listens at."""
        return int(self._running.port)

    @property
    def open_things(self) -> dict[str, int]:
        """What it keeps and works at now: calls, statements, transactions and answers."""
        return self._running.open_things

    def stop(self) -> None:
        """Stop; answers on their way end with an error, and what was not committed is gone."""
        service, self._service = self._service, None
        if service is not None:
            service.end()

    @property
    def _running(self) -> FlightService:
        if self._service is None:
            raise RuleViolation("the server does not run: start() starts it")
        return self._service

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()
