"""What collecting garbage did, or would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.graph.retention import Retention
from livingdb.maintenance.retention.keepers import Kept

__all__ = ["Collection", "Link", "ids_of", "kinds_of"]


@dataclass(frozen=True)
class Link:
    """One link of the chain that keeps a snapshot: which, the kind of reason, and its words."""

    snapshot: str
    kind: str
    by: str

    def __str__(self) -> str:
        return f"{self.snapshot[:12]}: {self.kind}: {self.by}"


@dataclass(frozen=True)
class Collection:
    """What went, or would go if `is_dry`.

    `snapshots` are the ids of those that are forgotten, newest first, `dropped` the branches that
    were idle.  `kept` counts the others by the kind of what keeps them.  `before_bytes` and
    `after_bytes` are those of packs, once the journal was drained; of what would go, an estimate.
    """

    policy: Retention
    is_dry: bool
    snapshots: Sequence[str] = ()
    dropped: Sequence[str] = ()
    kept: Mapping[str, int] = field(default_factory=dict)
    forgotten: int = 0
    """How many had been forgotten before."""
    versions: int = 0
    anchors: int = 0
    before_bytes: int = 0
    after_bytes: int = 0
    _found: Kept | None = field(default=None, repr=False, compare=False)

    @property
    def freed_bytes(self) -> int:
        """How many bytes fewer there are, or would be."""
        return self.before_bytes - self.after_bytes

    def why(self, snapshot: object) -> list[Link]:
        """The chain of reasons that keeps a snapshot, given by its id; nothing if it goes."""
        if self._found is None:
            return []
        history = self._found.history
        text = str(snapshot)
        numbers = [n for address, n in history.by_address.items() if address.hex() == text]
        chain = self._found.chain(numbers[0]) if numbers else []
        return [Link(history.rows[n].address.hex(), each.kind, each.by) for n, each in chain]

    def __str__(self) -> str:
        if not self.policy.forgets:
            return "nothing goes: the policy keeps everything"
        would = "would be " if self.is_dry else ""
        told = f"{len(self.snapshots):,} snapshots {would}forgotten"
        if self.dropped:
            told += f", {len(self.dropped):,} idle branches {would}dropped"
        about = "about " if self.is_dry else ""
        told += f"; {about}{self.freed_bytes:,} bytes {would}freed"
        parts = (f"{count:,} by {kind}" for kind, count in self.kept.items())
        return f"{told}; {sum(self.kept.values()):,} kept: {', '.join(parts)}"


def kinds_of(kept: Kept) -> dict[str, int]:
    """How many snapshots are kept by what, the most first."""
    counts = Counter(reason.kind for reason in kept.reasons.values())
    return dict(counts.most_common())


def ids_of(rows: Sequence[SnapshotRow]) -> list[str]:
    """The ids of snapshots, newest first."""
    return [row.address.hex() for row in sorted(rows, key=lambda row: -row.sequence)]
