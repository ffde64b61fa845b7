"""The lines of branches' logs, which are a chain.

Each line has the digest of the one before it, and the branch has that of the newest, so that none
is missing.  A log whose beginning was cut off has a checkpoint: a line without a movement, which
has the digest of the last line that went.  How a branch began, its line 0, is never cut off.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import DIGEST, SealedRows
from livingdb.errors import Corruption, InvalidData

__all__ = [
    "CHECKPOINT",
    "Movement",
    "check_chain",
    "check_next",
    "check_told",
    "is_movement",
    "lines",
    "log_line",
    "log_lines",
    "movement",
    "operation_text",
]

CHECKPOINT = "checkpoint"
"""The operation of the line that stands for those that were cut off a log."""

lines = SealedRows(schema.branch_log)

_POSITION, _SNAPSHOT, _, _OPERATION, _PREVIOUS = range(1, 6)


@dataclass(frozen=True, slots=True)
class Movement:
    """One line of a branch's log; `author` and `message` are of what makes no snapshot."""

    position: int
    snapshot: int
    time: int
    operation: str
    author: str = ""
    message: str = ""


def movement(row: Sequence[Any]) -> Movement:
    """A line of a log, compared with its digest."""
    position, snapshot, time, text = lines.read(row)[_POSITION:_PREVIOUS]
    if not text.startswith("{"):
        return Movement(position, snapshot, time, text)
    known = json.loads(text)
    return Movement(position, snapshot, time, known["operation"], known["author"], known["message"])


def is_movement(row: Sequence[Any]) -> bool:
    """Whether a line is no checkpoint."""
    return bool(row[_OPERATION] != CHECKPOINT)


def check_told(author: str, message: str) -> None:
    """`InvalidData` if who did something, or why, is nothing that can be written down."""
    for what, text in (("author", author), ("message", message)):
        if not isinstance(text, str):
            raise InvalidData(f"the {what} is a text, not {type(text).__name__}")
        if "\0" in text:
            raise InvalidData(f"the {what} holds a null character")
        try:
            text.encode()
        except UnicodeEncodeError:
            said = f"the {what} is not Unicode: it holds half a character"
            raise InvalidData(said) from None


def operation_text(operation: str, author: str, message: str) -> str:
    """What the log has of an operation: a word, or with who did it and why, the three as JSON."""
    check_told(author, message)
    if not author and not message:
        return operation
    return json.dumps({"operation": operation, "author": author, "message": message})


def log_line(
    branch: int, position: int, head: int, time: int, how: str, previous: bytes | None
) -> dict[str, Any]:
    """A line of a log, with its digest; `previous` is that of the line before it."""
    values = {
        "branch": branch,
        "position": position,
        "snapshot": head,
        "time": time,
        "operation": how,
        "previous": previous,
    }
    return lines.seal(values)


def log_lines(branch: int, movements: Iterable[tuple[int, int, str]]) -> list[dict[str, Any]]:
    """A whole log of snapshots, times and operations, oldest first."""
    found: list[dict[str, Any]] = []
    for at, (snapshot, time, how) in enumerate(movements):
        previous = found[-1][DIGEST] if found else None
        found.append(log_line(branch, at, snapshot, time, how, previous))
    return found


def check_chain(
    branch: int,
    rows: Iterable[Sequence[Any]],
    after: int,
    upto: int,
    chain: bytes | None = None,
) -> None:
    """Compare lines of a branch's log, newest first, with their digests, and each with the next.

    They are those after a position and up to another, whose digest is `chain`, if that is known;
    `Corruption` if one is missing.
    """
    position, wanted = upto, chain
    for row in rows:
        values = lines.read(row)
        found = values[_POSITION]
        mark = row[-1] if is_movement(row) else values[_PREVIOUS]
        if found != position or (wanted is not None and mark != wanted):
            raise _broken_chain(branch, position)
        position, wanted = (found - 1, values[_PREVIOUS]) if is_movement(row) else (0, None)
    if position > after:
        raise _broken_chain(branch, position)


def check_next(branch: int, row: Sequence[Any] | None, after: int) -> None:
    """Compare the first line of a branch's log after a position with its digest.

    `Corruption` if it is damaged, or if there are lines between that were not cut off.
    """
    if row is None or (lines.read(row)[_POSITION] > after + 1 and is_movement(row)):
        raise _broken_chain(branch, after + 1)


def _broken_chain(branch: int, position: int) -> Corruption:
    place = lines.place([branch, position, *[None] * (len(lines.columns) - 2)])
    return Corruption(
        f"the catalog is damaged: {place} is missing, or not the one that was written"
    )
