"""A server: HTTP, Flight SQL beside it if asked for, and the runner, over one open database."""

from __future__ import annotations

import os
import socket
import time as clock
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

from livingdb.errors import Forbidden, InvalidData, LivingDBError, StorageFailure, Unsupported
from livingdb.server.logs import tell
from livingdb.server.runner import Runner
from livingdb.server.settings import ServerSettings, is_loopback

if TYPE_CHECKING:
    import uvicorn

    from livingdb import Database
    from livingdb.server.flight.observed_call import ObservedCall
    from livingdb.server.flight.server import FlightServer
    from livingdb.server.http.app import HttpApp

__all__ = ["Server"]

_START_SECONDS = 30.0
_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 30
_FLIGHT_THINGS = ("calls", "fetches", "statements", "transactions", "answers")


class Server:
    """Serves a database until it is stopped; also a context manager.

    A database without users is served to this machine alone, and lets in who knows `run_token`,
    which is made anew each time; one with users lets in their tokens.
    """

    def __init__(self, db: Database, settings: ServerSettings | None = None):
        self.db = db
        self.settings = settings or ServerSettings()
        self._app = self._make_app()
        self._socket: socket.socket | None = None
        self._uvicorn: uvicorn.Server | None = None
        self._thread: Thread | None = None
        self._flight: FlightServer | None = None
        for name in _FLIGHT_THINGS if self.settings.flight_port is not None else ():
            said = f"Of Flight SQL: {name} that are open."
            count = partial(self._count_flight, name)
            self._app.context.metrics.watch(f"flight_open_{name}", said, count)
        self._runner = Runner(db) if self.settings.upkeep and db.read_only is None else None

    def _make_app(self) -> HttpApp:
        try:
            from livingdb.server.http.app import create_app
            from livingdb.server.http.doorkeeper import new_run_token
        except ImportError as error:
            raise Unsupported(
                f"the server needs {error.name}: pip install livingdb[server]"
            ) from None
        has_users = self.db.people.are_any
        if not has_users and not is_loopback(self.settings.host):
            raise Forbidden(
                "a database without users is served to this machine alone: add one with "
                "`livingdb user add`, or leave --host out"
            )
        self.run_token = None if has_users else new_run_token()
        return create_app(self.db, self.settings, self.run_token)

    @property
    def app(self) -> HttpApp:
        """The application that answers."""
        return self._app

    @property
    def port(self) -> int:
        """The port it listens on, also where any was asked for."""
        if self._socket is None:
            raise LivingDBError("the server does not run: start() starts it")
        return int(self._socket.getsockname()[1])

    @property
    def address(self) -> str:
        """Where it is reached."""
        host = self.settings.host
        return f"{self.settings.scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def flight_address(self) -> str | None:
        """Where Flight SQL is reached; None if it was not asked for."""
        if self._flight is None:
            return None
        return f"{self._flight_scheme}://{self.settings.host}:{self._flight.port}"

    @property
    def _flight_scheme(self) -> str:
        return "grpc+tls" if self.settings.has_tls else "grpc"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen and answer, in threads of its own; comes back when it can be asked."""
        import uvicorn

        configuration = self._configuration()
        self._socket = _listen(self.settings.host, self.settings.port)
        self._uvicorn = uvicorn.Server(configuration)
        self._thread = Thread(
            target=self._uvicorn.run,
            kwargs={"sockets": [self._socket]},
            name="livingdb-http",
            daemon=True,
        )
        self._thread.start()
        try:
            self._wait_for_start()
            self._start_flight()
        except BaseException:
            self.stop()
            raise
        if self._runner is not None:
            self._runner.start()
        tell("serving", address=self.address, flight=self.flight_address, pid=os.getpid())

    def stop(self) -> None:
        """Let running requests end, cancel jobs, and stop, within the time that is set for it."""
        server, self._uvicorn = self._uvicorn, None
        if server is None:
            return
        end = clock.monotonic() + self.settings.stop_seconds
        server.should_exit = True
        flight, self._flight = self._flight, None
        if flight is not None:
            flight.stop()
        if self._runner is not None:
            self._runner.stop(_left(end))
        self._app.close(_left(end))
        assert self._thread is not None
        self._thread.join(_left(end) + 1)
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        tell("stopped")

    def _configuration(self) -> uvicorn.Config:
        import uvicorn

        from livingdb.server.http.protocol import patient_protocol

        settings = self.settings
        protocol: Any = patient_protocol(settings.limits.stall_seconds)
        made = uvicorn.Config(
            self._app,
            http=protocol,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, int(settings.stop_seconds)),
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
            reset_contextvars=True,
        )
        try:
            made.load()
        except OSError as error:
            raise InvalidData(
                f"the certificate {settings.certificate} and its key {settings.key} cannot be "
                f"used: {error}"
            ) from None
        return made

    def _wait_for_start(self) -> None:
        assert self._uvicorn is not None
        assert self._thread is not None
        end = clock.monotonic() + _START_SECONDS
        while not self._uvicorn.started:
            if not self._thread.is_alive() or clock.monotonic() > end:
                raise LivingDBError("the server does not start; its log says why")
            clock.sleep(0.005)

    def _start_flight(self) -> None:
        settings = self.settings
        if settings.flight_port is None:
            return
        from livingdb.server.flight.limits import FlightLimits
        from livingdb.server.flight.server import FlightServer

        pair = None
        if settings.certificate is not None and settings.key is not None:
            pair = [(Path(settings.certificate).read_bytes(), Path(settings.key).read_bytes())]
        self._flight = FlightServer(
            self.db,
            f"{self._flight_scheme}://{settings.host}:{settings.flight_port}",
            keeper=self._app.context.keeper,
            certificates=pair,
            limits=FlightLimits(
                rows=settings.limits.rows,
                seconds=settings.limits.seconds,
                concurrent=settings.limits.concurrent,
                wait_seconds=settings.limits.wait_seconds,
                idle_seconds=settings.limits.idle_seconds,
            ),
            observe=self._note_flight_call,
        )
        self._flight.start()

    def _note_flight_call(self, call: ObservedCall) -> None:
        metrics = self._app.context.metrics
        metrics.flight_calls.labels(call.operation, call.outcome).inc()
        metrics.flight_seconds.labels(call.operation).observe(call.seconds)
        tell(
            "flight call",
            operation=call.operation,
            outcome=call.outcome,
            seconds=round(call.seconds, 6),
            user=call.user,
        )

    def _count_flight(self, name: str) -> int:
        return 0 if self._flight is None else self._flight.open_things[name]


def _left(end: float) -> float:
    return max(0.0, end - clock.monotonic())


def _listen(host: str, port: int) -> socket.socket:
    """A socket on an address; an error says why there is none."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # Named, TCP is not delayed by asyncio: an answer's head would wait for its client's word.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.set_inheritable(False)
    except (OSError, OverflowError, UnicodeError) as error:
        kind = (
            InvalidData if isinstance(error, (socket.gaierror, OverflowError)) else StorageFailure
        )
        raise kind(f"cannot listen on {host}:{port}: {error}") from None
    return made
