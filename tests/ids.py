"""Identities that count from one, so that what is written does not depend on chance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from livingdb.catalog import ids as catalog_ids
from livingdb.commit.evolving import evolve
from livingdb.commit.writing.table_writes import TableWrites
from livingdb.tables import identity
from livingdb.tables.recipe import Definition

__all__ = ["Counter", "counted", "unidentified"]


class Counter:
    """Gives numbers where chance would."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def token_hex(self, size_bytes: int) -> str:
        """As the module `secrets` has it."""
        return next(self._numbers).to_bytes(size_bytes, "big").hex()


@contextmanager
def counted() -> Iterator[Counter]:
    """A counter that all new identities come from, in this process."""
    counter = Counter()
    with pytest.MonkeyPatch.context() as patch:
        for module in (identity, catalog_ids):
            patch.setattr(module, "secrets", counter)
        yield counter


@contextmanager
def unidentified() -> Iterator[None]:
    """What is written has no identities, as in formats before there were any."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Definition, "identified", lambda self, change: self)
        patch.setattr(TableWrites, "schema_changes", lambda self: [])
        patch.setattr(evolve, "identify_changes", lambda changes, trust: tuple(changes))
        yield
