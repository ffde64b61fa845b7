"""The picture of a snapshot graph: what there is to draw, whatever draws it.

Every branch has a lane.  Time goes from column to column: a snapshot is in a column after those
of all the snapshots it was made from, and no two are in one place.  A branch that was cloned, or
kept beside a schema change, begins with a *start*: a place on a snapshot of another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from livingdb.files.failures import storage_failure

__all__ = [
    "BLOCK_KINDS",
    "START",
    "Details",
    "Lane",
    "Link",
    "Node",
    "SnapshotGraph",
    "SyncMark",
]

START = "start"
BLOCK_KINDS = ("schema_change", "clone", "derive")
"""The kinds of links that are block arrows; `propagate` is dashed, and all others are solid."""


@dataclass(frozen=True, slots=True)
class Node:
    """A snapshot, or the place where a branch starts; `time` is in microseconds since 1970, UTC.

    `heads` are the branches that stand on it, `hidden` counts its parents that are not shown.  The
    rows of one that `is_forgotten` are gone: it is drawn hollow.
    """

    id: str
    sequence: int
    lane: int
    column: int
    kind: str
    time: int
    author: str = ""
    message: str = ""
    operation: str = ""
    heads: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    hidden: int = 0
    is_forgotten: bool = False

    @property
    def is_start(self) -> bool:
        """Whether it is no snapshot, but the place where a branch starts."""
        return self.kind == START

    @property
    def title(self) -> str:
        """What to call it: its message, or else what was done."""
        return self.message or self.operation.replace("_", " ") or self.kind.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Link:
    """An arrow from one node to a later one, by their places in the list.

    `is_source`: the later one was made from it, and does not follow it.  `sync` is the place of
    the sync that began with it.
    """

    source: int
    target: int
    kind: str
    is_source: bool = False
    sync: int | None = None

    @property
    def is_block(self) -> bool:
        """Whether it is a block arrow."""
        return self.kind in BLOCK_KINDS


@dataclass(frozen=True, slots=True)
class Lane:
    """A branch; one that `is_dropped` has no name any more, or had this one."""

    name: str
    is_dropped: bool = False


@dataclass(frozen=True, slots=True)
class SyncMark:
    """A sync between lanes; `conditions` in words, each with what it does."""

    name: str
    sources: tuple[int, ...]
    target: int
    direction: str
    when: str
    state: str
    kind: str = ""
    reason: str = ""
    conditions: tuple[str, ...] = ()

    @property
    def arrow(self) -> str:
        """Where changes go."""
        return {"forward": "→", "reverse": "←", "both": "↔"}.get(self.direction, "–")


class Details(Protocol):
    """Knows more of snapshots than a picture shows, for who clicks on one."""

    def of(self, nodes: tuple[Node, ...], diffs: int) -> Mapping[str, Any]:
        """As plain values: see `livingdb.render.page_details`."""
        ...

    def tables(self, node: Node) -> list[str]:
        """The names of a snapshot's tables."""
        ...


@dataclass(frozen=True)
class SnapshotGraph:
    """A picture of a snapshot graph, oldest snapshots first, ready to be drawn."""

    title: str
    lanes: tuple[Lane, ...]
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    syncs: tuple[SyncMark, ...] = ()
    details: Details | None = field(default=None, repr=False, compare=False)

    def to_text(self, width: int | None = None, color: bool = False) -> str:
        """For a terminal, time going down; `width` in characters, by default the terminal's."""
        from livingdb.render.text import to_text

        return to_text(self, width, color)

    def to_mermaid(self) -> str:
        """A Mermaid flowchart, one subgraph for each branch."""
        from livingdb.render.mermaid import to_mermaid

        return to_mermaid(self)

    def to_svg(self, path: str | Path | None = None) -> str:
        """An SVG image, time going right; written to `path`, if one is given."""
        from livingdb.render.svg import to_svg

        return _write_picture(to_svg(self), path)

    def to_html(self, path: str | Path | None = None, diffs: int = 200) -> str:
        """A page to look around in, in one file that loads nothing; written to `path` if given.

        Changed rows are counted for the newest `diffs` snapshots, as far as a few seconds reach;
        for others the page shows what their commits wrote down.
        """
        from livingdb.render.page import to_html

        return _write_picture(to_html(self, diffs), path)

    def tables(self, node: Node) -> list[str]:
        """The names of a snapshot's tables."""
        return [] if self.details is None else self.details.tables(node)

    def __len__(self) -> int:
        return sum(not node.is_start for node in self.nodes)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<SnapshotGraph of {self.title}: {len(self)} snapshots on {len(self.lanes)} lanes>"

    def _repr_html_(self) -> str:
        return self.to_svg()


def _write_picture(text: str, path: str | Path | None) -> str:
    if path is not None:
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise storage_failure(error, "write", str(path)) from error
    return text
