"""What stands where a forest would: rows that are found as they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.trees.changes import Delta
from livingdb.trees.forest import Grouping
from livingdb.trees.keys import KeyArray
from livingdb.trees.scan import ALL, Span, ZoneFilter
from livingdb.trees.shape import Shape

__all__ = ["VirtualForest"]


class VirtualForest(ABC):
    """Read as a forest is.  Its roots name nothing that is stored: it cannot be edited."""

    grouping: Grouping

    @property
    def shape(self) -> Shape:
        """The shape of whole rows."""
        return self.grouping.whole

    @abstractmethod
    def scan(
        self,
        root: Address,
        positions: Sequence[int] | None = None,
        span: Span = ALL,
        filters: Sequence[ZoneFilter] = (),
        changes: Delta | None = None,
        keep: bool = False,
    ) -> Iterator[list[pa.Array]]:
        """Batches of the columns asked for, in key order, with the changes made."""

    @abstractmethod
    def seek_many(
        self, root: Address, keys: KeyArray, positions: Sequence[int]
    ) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
        """Which of the sorted keys are there, and the columns of those that are."""

    @abstractmethod
    def contains(self, root: Address, keys: KeyArray) -> npt.NDArray[np.bool_]:
        """Which of the sorted keys are there."""

    def get(self, root: Address, key: Any, positions: Sequence[int]) -> list[Any] | None:
        """One row as Arrow scalars; None if there is none."""
        one = np.array([key], dtype=object if isinstance(key, bytes) else None)
        found, columns = self.seek_many(root, one, positions)
        return [column[0] for column in columns] if found[0] else None

    @abstractmethod
    def count_rows(self, root: Address) -> int:
        """How many rows there are."""

    @abstractmethod
    def split(self, root: Address, parts: int) -> list[Span]:
        """Ranges of keys that hold about equally many rows."""
