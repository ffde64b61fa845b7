"""What the routes of one server share, and how they get at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, get_args, get_origin

from fastapi import Depends, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError

import livingdb
from livingdb.server.http.browser_sessions import BrowserSessions
from livingdb.server.http.doorkeeper import Caller, Doorkeeper
from livingdb.server.http.events import Events
from livingdb.server.http.jobs import Jobs
from livingdb.server.http.metrics import Metrics
from livingdb.server.http.sql_sessions import SqlSessions
from livingdb.server.settings import ServerSettings

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.database.database import Database

__all__ = [
    "Asking",
    "BranchName",
    "Context",
    "Db",
    "OptionalBranch",
    "OptionalRef",
    "Server",
    "TableName",
    "branch_of",
    "ref_of",
    "refuse_unknown_parameters",
]


@dataclass(frozen=True)
class Context:
    """One server: its database, and what it remembers between requests."""

    db: Database
    settings: ServerSettings
    keeper: Doorkeeper
    browsers: BrowserSessions
    jobs: Jobs
    sessions: SqlSessions
    events: Events
    metrics: Metrics


# They are coroutines, since a plain function would be called in a thread.
async def _server(request: Request) -> Context:
    found: Context = request.app.state.server
    return found


async def _database(request: Request) -> livingdb.Database:
    return (await _server(request)).db


async def _asking(request: Request) -> Caller:
    found: Caller = request.state.caller
    return found


Server = Annotated[Context, Depends(_server)]
Db = Annotated[livingdb.Database, Depends(_database)]
Asking = Annotated[Caller, Depends(_asking)]

_REF = "A branch, a tag, a snapshot id, `branch~3` or `branch@2026-11-15T10:00:00`."
OptionalRef = Annotated[
    str | None,
    Query(
        alias="ref", description=f"{_REF} The default branch, if it is left out.", examples=["main"]
    ),
]
OptionalBranch = Annotated[
    str | None,
    Query(alias="branch", description="The default branch, if it is left out.", examples=["main"]),
]
BranchName = Annotated[str, Query(alias="name", description="The branch.", examples=["dev"])]
TableName = Annotated[str, Query(alias="table", description="The table.", examples=["orders"])]


def ref_of(db: Database, ref: str | None) -> str:
    """A ref, or the default branch where none is named."""
    return db.default_branch.name if ref is None else ref


def branch_of(db: Database, name: str | None) -> Branch:
    """A branch, or the default branch where none is named."""
    return db.default_branch if name is None else db.branch(name)


async def refuse_unknown_parameters(request: Request) -> None:
    """What a query says that no operation knows, or twice, is refused by name."""
    known = _query_names(request.scope["route"].dependant)
    said: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name not in known:
            raise _wrong_parameter(
                name, f"there is no such parameter; there are: {', '.join(sorted(known))}"
            )
        if name in said and not known[name]:
            raise _wrong_parameter(name, "it is said twice")
        said.add(name)


def _wrong_parameter(name: str, problem: str) -> RequestValidationError:
    return RequestValidationError(
        [{"loc": ("query", name), "msg": problem, "type": "wrong_parameter"}]
    )


def _query_names(dependant: Dependant) -> dict[str, bool]:
    """The parameters that a query may have, and whether they may be said more than once."""
    found = {one.alias: _takes_many(one.field_info.annotation) for one in dependant.query_params}
    for inner in dependant.dependencies:
        found |= _query_names(inner)
    return found


def _takes_many(annotation: object) -> bool:
    return get_origin(annotation) is list or any(map(_takes_many, get_args(annotation)))
