"""How much one call of an agent may ask for, and be told."""

from __future__ import annotations

from dataclasses import dataclass, fields

from livingdb.errors import InvalidData, LimitExceeded

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """What a call may take.

    rows         rows of an answer, if the call does not say fewer
    characters   characters of an answer, of which `cell_characters` are of one value
    seconds      time that a call may take
    calls        calls of one session that run at a time
    given_rows   rows that a change may bring
    statements   statements of one change, each of `sql_characters`
    """

    rows: int = 200
    characters: int = 40_000
    cell_characters: int = 500
    seconds: float = 30.0
    calls: int = 4
    given_rows: int = 1_000
    statements: int = 20
    sql_characters: int = 20_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not value > 0:
                raise InvalidData(f"{field.name}={value!r}: a limit is more than nothing")

    def check(self, name: str, count: int) -> None:
        """`LimitExceeded` if there are more than a limit allows."""
        most = getattr(self, name)
        if count > most:
            what = name.replace("_", " ")
            raise LimitExceeded(f"{count:,} {what}: one call takes {most:,} at most")
