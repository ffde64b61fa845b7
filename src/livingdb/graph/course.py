"""A course: the branches that follow a branch along the syncs of schema changes, one by one.

It holds the names of branches and syncs as they were, which the edges of snapshots have, so that
what follows on it does not depend on when it follows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.syncs import ActiveSyncs
from livingdb.errors import Corruption

__all__ = ["Course", "Leg", "followers"]


@dataclass(frozen=True, slots=True)
class Leg:
    """A branch that follows another one along a sync; `is_right`: from its old schema on."""

    branch: BranchId
    source: BranchId
    source_name: str
    sync: SyncId
    sync_name: str
    is_right: bool


@dataclass(frozen=True)
class Course:
    """The legs of a course, each after the one that its source follows on."""

    start: BranchId
    legs: tuple[Leg, ...]

    @classmethod
    def plan(
        cls, syncs: ActiveSyncs, start: BranchId, names: Mapping[BranchId, BranchRow]
    ) -> Course:
        """The course of the branches that a change of one reaches, as syncs are."""
        legs: list[Leg] = []
        seen, waiting = {start}, [start]
        for here in waiting:
            for sync, far in syncs.schema_syncs_from(here):
                if far not in seen:
                    seen.add(far)
                    waiting.append(far)
                    is_right = here in sync.sources
                    legs.append(Leg(far, here, names[here].name, sync.id, sync.name, is_right))
        return cls(start, tuple(legs))

    @cached_property
    def branches(self) -> frozenset[BranchId]:
        """The branches that follow."""
        return frozenset(leg.branch for leg in self.legs)

    @cached_property
    def text(self) -> str:
        """The course as text."""
        legs = [
            [leg.branch, leg.source, leg.source_name, leg.sync, leg.sync_name, int(leg.is_right)]
            for leg in self.legs
        ]
        return json.dumps([self.start, legs], ensure_ascii=False, separators=(",", ":"))

    @cached_property
    def id(self) -> str:
        """What it is known by: the same for equal courses."""
        return sha256(self.text.encode()).hexdigest()[:32]

    @classmethod
    def from_text(cls, name: str, text: str | None) -> Course:
        """The course of a name, as it was written down; `Corruption` if it was not."""
        try:
            start, legs = json.loads(text or "")
            found = cls(
                start,
                tuple(
                    Leg(branch, source, source_name, sync, sync_name, bool(is_right))
                    for branch, source, source_name, sync, sync_name, is_right in legs
                ),
            )
        except (ValueError, TypeError):
            raise Corruption(f"the course {name} of branches in step cannot be read") from None
        if found.id != name:
            raise Corruption(f"the course {name} of branches in step is not what it was")
        return found


def followers(courses: Mapping[str, str]) -> frozenset[BranchId]:
    """The branches that follow on one of some courses, which are given as text by their ids."""
    every = (Course.from_text(name, text).branches for name, text in courses.items())
    return frozenset[BranchId]().union(*every)
