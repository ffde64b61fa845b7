"""What was observed of reads and writes: counts by subject, which fade as time goes by."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import Connection, func, select

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["HALF_LIFE_MICROSECONDS", "MOST_SUBJECTS", "Observations"]

HALF_LIFE_MICROSECONDS = 7 * 86_400 * 1_000_000
"""After so long a thing that was met counts for half."""
MOST_SUBJECTS = 512
_MOST_NAMES = 64
_LEAST = 0.5
"""What was met less often than this is forgotten."""

Counts = Mapping[str, Mapping[str, float]]

_observation = schema.observation
_rows = SealedRows(_observation)


class Observations:
    """Reads and writes them."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def all(self, now: int) -> dict[str, Counts]:
        """All of them, as they count at a time."""
        rows = _rows.read_all(self._queries.all(_rows.every))
        return {str(subject): _faded(text, now - time) for subject, time, text in rows}

    def add(self, connection: Connection, now: int, found: Mapping[str, Counts]) -> None:
        """Add what was met to what is known of the same subjects, in a transaction."""
        asked = _rows.every.where(_observation.c.subject.in_(list(found)))
        rows = [_rows.named(row) for row in connection.execute(asked)]
        known = {row["subject"]: _faded(row["counts"], now - row["time"]) for row in rows}
        made = [
            {"subject": subject, "time": now, "counts": json.dumps(_sum(known.get(subject), new))}
            for subject, new in sorted(found.items())  # as all do, so that nobody waits in circles
        ]
        _rows.put(connection, made)
        self._forget_oldest(connection)

    def clear(self, connection: Connection) -> None:
        """Forget all of them."""
        _rows.delete(connection)

    def _forget_oldest(self, connection: Connection) -> None:
        count = select(func.count()).select_from(_observation)
        surplus = int(connection.execute(count).scalar_one()) - MOST_SUBJECTS
        if surplus > 0:
            order = (_observation.c.time, _observation.c.subject)
            oldest = select(_observation.c.subject).order_by(*order).limit(surplus)
            gone = [subject for (subject,) in connection.execute(oldest)]
            _rows.delete(connection, _observation.c.subject.in_(gone))


def _faded(text: str, age: int) -> Counts:
    """Counts of some microseconds ago, as they count now."""
    share = 0.5 ** (max(age, 0) / HALF_LIFE_MICROSECONDS)
    return {
        kind: {name: count * share for name, count in counts.items()}
        for kind, counts in json.loads(text).items()
    }


def _sum(known: Counts | None, new: Counts) -> dict[str, dict[str, float]]:
    """Both together; of each kind the names that were met most."""
    found: dict[str, dict[str, float]] = {}
    for part in (known or {}, new):
        for kind, counts in part.items():
            names = found.setdefault(kind, {})
            for name, count in counts.items():
                names[name] = names.get(name, 0.0) + count
    for kind, names in found.items():
        most = sorted(names.items(), key=lambda item: (-item[1], item[0]))[:_MOST_NAMES]
        found[kind] = {name: round(count, 3) for name, count in most if count >= _LEAST}
    return found
