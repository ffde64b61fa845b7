"""Connects to a database: in files, open already, or at a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

from livingdb.dbapi.connection import Connection, check_isolation
from livingdb.dbapi.errors import InterfaceError, translated_errors
from livingdb.dbapi.server_address import is_server_url, parse_server_url

if TYPE_CHECKING:
    from livingdb.database.database import Database
    from livingdb.dbapi.database_connection import DatabaseConnection

__all__ = ["connect"]


@overload
def connect(
    database: Path | Database,
    *,
    branch: str | None = None,
    autocommit: bool | None = None,
    isolation: str | None = None,
    author: str | None = None,
    trust: Sequence[str] = (),
    engine: str | None = None,
    read_only: bool = False,
) -> DatabaseConnection: ...


@overload
def connect(
    database: str,
    *,
    branch: str | None = None,
    autocommit: bool | None = None,
    isolation: str | None = None,
    author: str | None = None,
    trust: Sequence[str] = (),
    engine: str | None = None,
    read_only: bool = False,
    token: str | None = None,
    user: str | None = None,
    tls: bool | None = None,
    certificate: str | None = None,
) -> Connection: ...


def connect(
    database: str | Path | Database,
    *,
    branch: str | None = None,
    autocommit: bool | None = None,
    isolation: str | None = None,
    author: str | None = None,
    trust: Sequence[str] = (),
    engine: str | None = None,
    read_only: bool = False,
    token: str | None = None,
    user: str | None = None,
    tls: bool | None = None,
    certificate: str | None = None,
) -> Connection:
    """Connect to a branch of a database: its path or URL, one that is open, or that of a server.

    Without `branch` it is the default branch.  `isolation` is that of its transactions, "snapshot"
    or "serializable".  A database that was open stays open when the connection is closed.

    `livingdb://host:8765/?branch=dev` is a server, `livingdb+https://host` one with TLS.  `token`
    says who asks, or else the environment's LIVINGDB_TOKEN; `user` is whose token it has to be;
    `certificate` is a file with those that vouch for the server, in place of the system's.
    """
    opening = {"author": author, "trust": trust, "engine": engine, "read_only": read_only}
    asking = {"token": token, "user": user, "tls": tls, "certificate": certificate}
    if isinstance(database, str) and is_server_url(database):
        _refuse(opening, "is told when a database is opened, which its server did: leave it out")
        chosen = {"branch": branch, "autocommit": autocommit, "isolation": isolation}
        return _connect_to_server(database, asking | chosen)
    _refuse(asking, "is for a server, as livingdb://host:8765: leave it out")
    checked = check_isolation(isolation or "snapshot")
    from livingdb.database.database import Database
    from livingdb.database.open_database import open_database
    from livingdb.dbapi.database_connection import DatabaseConnection

    if isinstance(database, Database):
        if any(opening.values()):
            raise InterfaceError(
                "author, trust, engine and read_only are told when a database is opened: this "
                "one is open already"
            )
        return DatabaseConnection(database, branch, bool(autocommit), checked, is_owner=False)
    with translated_errors():
        opened = open_database(
            database, author=author, trust=trust, engine=engine, read_only=read_only
        )
    try:
        return DatabaseConnection(opened, branch, bool(autocommit), checked, is_owner=True)
    except BaseException:
        opened.close()
        raise


def _refuse(given: Mapping[str, object], why: str) -> None:
    for name, value in given.items():
        if value is not None and value is not False and value != ():
            raise InterfaceError(f"{name} {why}")


def _connect_to_server(url: str, given: Mapping[str, object]) -> Connection:
    from livingdb.dbapi.server_session import ServerSession

    address, said = parse_server_url(url, given)
    isolation = check_isolation(said.get("isolation", "snapshot"))
    with translated_errors():
        session = ServerSession.connect(address, said.get("branch"))
    return Connection(session, said.get("autocommit", False), isolation)
