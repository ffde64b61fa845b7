"""Bindings of a query as plain values, beside what is known of it since they were made.

Views over many branches have one query: what it is over tables of some columns is found out once
for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livingdb.sql.bindings import BoundQuery

if TYPE_CHECKING:
    from livingdb.derivation.plan_cache import ViewFacts

__all__ = ["KnownBindings"]


class KnownBindings(dict[str, Any]):
    """The plain values of a bound query, which nobody changes."""

    def __init__(self, bound: BoundQuery):
        super().__init__(bound.to_json())
        self.bound = bound
        self.queries: dict[tuple[object, ...], str | None] = {}
        """The text by what columns are called; None if it cannot be read over them."""
        self.facts: dict[object, ViewFacts] = {}
        """What was found out about views, by their queries and definitions of tables."""
