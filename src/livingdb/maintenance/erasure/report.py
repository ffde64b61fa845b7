"""What erasing did or would do, as people who must answer for it need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ErasureReport", "OutsideCopy"]


@dataclass(frozen=True)
class OutsideCopy:
    """A backup or an export that was made while the rows were there, and what would clean it."""

    kind: str
    place: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.kind} {self.place}: {self.remedy}"


@dataclass(frozen=True)
class ErasureReport:
    """Rows that left a table, or would leave it: where they were, and what still tells of them.

    `places` were cleared: branches, views and clones, by their tables.  `kept` are derived objects
    that were made of the rows and are not rows of their own: groups, aggregates, models.  `copies`
    are backups and exports.  `waiting` is what goes as soon as nobody reads it any more.
    """

    table: str
    rows: int
    dry_run: bool
    number: int | None
    versions: int
    trees: int
    snapshots: int
    places: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    copies: tuple[OutsideCopy, ...] = ()
    waiting: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "table": self.table,
            "rows": self.rows,
            "dry_run": self.dry_run,
            "erasure": self.number,
            "versions": self.versions,
            "trees": self.trees,
            "snapshots": self.snapshots,
            "places": list(self.places),
            "kept": list(self.kept),
            "copies": [str(copy) for copy in self.copies],
            "waiting": list(self.waiting),
        }

    def __str__(self) -> str:
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        verb = "would be" if self.dry_run else "are" if self.rows != 1 else "is"
        versions = "1 version" if self.versions == 1 else f"{self.versions:,} versions"
        head = f"{rows} of table {self.table} {verb} erased: {versions} redacted"
        if not (self.versions or self.trees or self.snapshots):
            head = f"nothing of {rows} of table {self.table} is there"
        elif self.snapshots:
            head += f", words of {self.snapshots} snapshots"
        lines = [f"  cleared: {place}" for place in self.places]
        lines += [f"  kept: {what}" for what in self.kept]
        lines += [f"  copy: {copy}" for copy in self.copies]
        lines += [f"  waiting: {what}" for what in self.waiting]
        return "\n".join([head, *lines])
