"""`livingdb serve`: the database over HTTP and Arrow Flight SQL."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from livingdb.cli.open_database import Engine, Settings, Trust
from livingdb.errors import InvalidData

if TYPE_CHECKING:
    from livingdb.server.serve import Server

__all__ = ["serve"]


class LogLevel(StrEnum):
    """How much the log tells."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option("--host", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="For HTTP; 0 is any that is free.")
    ] = 8765,
    flight_port: Annotated[
        int | None,
        typer.Option(
            "--flight-port",
            min=0,
            max=65535,
            help="For Arrow Flight SQL, which ADBC speaks.  [default: no such server]",
        ),
    ] = None,
    no_upkeep: Annotated[
        bool, typer.Option("--no-upkeep", help="Another process is the runner.")
    ] = False,
    certificate: Annotated[
        str | None, typer.Option("--certificate", help="A file with the certificate, for TLS.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="A file with its key.")] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", help="Another name it is called by, behind a proxy; repeatable."
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option("--allow-origin", help="A site whose pages may call it; repeatable."),
    ] = None,
    export_folder: Annotated[
        str | None, typer.Option("--export-folder", help="Below which users may export.")
    ] = None,
    backup_place: Annotated[
        str | None, typer.Option("--backup-place", help="Below which users may back up.")
    ] = None,
    metrics_token: Annotated[
        str | None,
        typer.Option(
            "--metrics-token",
            help="A file with a token that opens /metrics alone.  [default: owners see them]",
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="For the queries of one request.")
    ] = 60.0,
    concurrent: Annotated[
        int, typer.Option("--concurrent", min=1, help="Requests of a user at a time.")
    ] = 16,
    body_bytes: Annotated[
        int, typer.Option("--body-bytes", min=1, help="Of one request, at most.")
    ] = 64 << 20,
    memory_limit: Annotated[
        str | None,
        typer.Option("--memory-limit", help="What queries may take together, like '2 GB'."),
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="How much the log on standard error tells.")
    ] = LogLevel.info,
    engine: Engine = None,
    trust: Trust = None,
) -> None:
    """Serve the database over HTTP, until SIGINT or SIGTERM.

    One without users is served to this machine alone, with a token that is printed at the start;
    one with users (see `livingdb user add`) lets in their tokens.

    \b
    Example:
      livingdb serve
      livingdb serve --port 0 --no-upkeep
      livingdb serve --host 0.0.0.0 --certificate server.pem --key server.key --flight-port 8766
    """
    from livingdb.cli.commands.propagate import StopSignal
    from livingdb.server.logs import log_to
    from livingdb.server.serve import Server
    from livingdb.server.settings import Limits, ServerSettings, is_loopback

    settings = Settings.of(context)
    asked = ServerSettings(
        host=host,
        port=port,
        flight_port=flight_port,
        certificate=certificate,
        key=key,
        allowed_hosts=tuple(allow_host or ()),
        allowed_origins=tuple(allow_origin or ()),
        upkeep=not no_upkeep,
        export_folder=export_folder,
        backup_place=backup_place,
        metrics_token=None if metrics_token is None else _read_secret(metrics_token),
        log_level=log_level.value,
        limits=Limits(seconds=seconds, concurrent=concurrent, body_bytes=body_bytes),
    )
    if memory_limit is not None:
        from livingdb.engines.embedded.session import limit_memory

        limit_memory(memory_limit)
    log_to(level=asked.log_level)
    with settings.open(trust, engine) as db, StopSignal() as ending:
        server = Server(db, asked)
        if not is_loopback(host) and not asked.has_tls:
            typer.echo(
                "livingdb: without TLS everybody on the way reads tokens and rows: "
                "--certificate and --key, or a proxy that has them",
                err=True,
            )
        with server:
            told = {
                "address": server.address,
                "flight_address": server.flight_address,
                "token": server.run_token,
            }
            settings.output().write_record(told, _sentences(server))
            ending.listen()
            while not ending.is_requested:
                ending.wait(3600)


def _read_secret(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise InvalidData(f"the token in {path} cannot be read: {error}") from None


def _sentences(server: Server) -> str:
    lines = [f"{server.db.name} is served at {server.address}"]
    if server.flight_address is not None:
        lines.append(f"Flight SQL at {server.flight_address}")
    if server.run_token is not None:
        lines.append(f"for this run, and this machine, come with the token {server.run_token}")
        lines.append(f"in a browser: {server.address}/#token={server.run_token}")
    return "\n".join(lines)
