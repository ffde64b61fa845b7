"""Makes databases of backups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from livingdb.catalog.connect import locate
from livingdb.database.database import Database
from livingdb.database.open_database import default_author, open_database
from livingdb.engines.engine_names import check_engine
from livingdb.files.url import open_files, url_text
from livingdb.graph.graph import Graph
from livingdb.graph.refs import parse_time
from livingdb.maintenance.backup.erasures import Erasure, erasures_in
from livingdb.maintenance.backup.place import BackupPlace
from livingdb.maintenance.backup.restore import RESTORING, restore_point

__all__ = ["restore"]


def restore(
    backup: str | Path,
    url: str | Path,
    *,
    at: datetime | str | None = None,
    redactions: Database | str | Path | None = None,
    bring_back: bool = False,
    send: bool = False,
    author: str | None = None,
    trust: Sequence[str] = (),
    engine: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Database:
    """Make a database of a backup, at a path or URL where there is none; it is open then.

    It is what was backed up last, or last not after a time: `at`, UTC unless a zone is given.
    Every file is compared with what was written.  If rows were erased since, as the backups know
    or a living database whose `redactions` count, it is `Forbidden`, unless it shall `bring_back`
    what was erased.  Alerts that were waiting to be sent are not, unless it shall `send` them: what
    it is a copy of may have done so.
    `AlreadyExists` if there is a database; one whose restoring was killed is gone on with.
    """
    check_engine(engine)
    source = BackupPlace.open(open_files(url_text("a backup", backup)))
    point = source.point_at(None if at is None else _time(at))
    erasures = set() if redactions is None else _erasures(redactions)
    place = locate(url, create=True, unfinished=RESTORING)
    try:
        restore_point(source, point, place, erasures, bring_back, send, progress)
    except BaseException:
        place.close()
        raise
    who = author or default_author()
    found = Database(lambda given: Graph.open(place, given), who, trust, engine)
    try:
        _read_heads(found._graph)
    except BaseException:
        found.close()
        raise
    return found


def _time(at: datetime | str) -> int:
    if not isinstance(at, datetime):
        return parse_time(str(at))
    moment = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _erasures(given: Database | str | Path) -> set[Erasure]:
    """What a living database knows of rows that were erased."""
    if not isinstance(given, Database):
        with open_database(given, read_only=True) as db:
            return _erasures(db)
    catalog = given._graph.catalog
    with catalog.in_one_transaction() as moment, moment.queries.connection() as connection:
        return erasures_in(connection)


def _read_heads(graph: Graph) -> None:
    """Read what every branch has: `Corruption` if it is not there."""
    for branch in graph.catalog.branches.all():
        for version in graph.tables(graph.snapshots.at(branch.head)).values():
            graph.versions.require(version)
