"""What is made of which versions: by changes of their rows, or as answers over them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from livingdb.chunks.address import Address
from livingdb.graph.graph import Graph
from livingdb.maintenance.reach import recipe_inputs
from livingdb.tables.index import Version
from livingdb.tables.recipe import Derived, load_recipe

__all__ = ["VersionReaders"]

Readers = dict[Address, list[Address]]


@dataclass(frozen=True)
class VersionReaders:
    """For versions, those that are changes of them and those that are answers over them."""

    changes: Readers
    answers: Readers
    computed: frozenset[Address]
    """The versions that are answers over others."""

    @classmethod
    def of(cls, graph: Graph, versions: Mapping[Address, Version]) -> VersionReaders:
        """Those among versions, which are all there are."""
        changes: Readers = {}
        answers: Readers = {}
        computed = set()
        for address, version in versions.items():
            if version.base is not None:
                changes.setdefault(version.base, []).append(address)
                continue
            recipe = load_recipe(graph.store, address)
            if isinstance(recipe, Derived):
                computed.add(address)
            for read in recipe_inputs(recipe):
                answers.setdefault(read, []).append(address)
        return cls(changes, answers, frozenset(computed))

    def made_of(self, sources: Collection[Address]) -> set[Address]:
        """Versions, and whatever is made of them, to the end."""
        return _closure(sources, lambda one: [*self._changes(one), *self._answers(one)])

    def answers_over(
        self, sources: Collection[Address], known: Collection[Address]
    ) -> set[Address]:
        """Versions, and the answers over them, with the changes of those, to the end.

        Of versions that are `known` it is known already whether they are among them.
        """
        first = set(sources)

        def readers(one: Address) -> list[Address]:
            found = [*self._answers(one), *(() if one in first else self._changes(one))]
            return [each for each in found if each not in known]

        return _closure(first, readers)

    def _changes(self, version: Address) -> list[Address]:
        return self.changes.get(version, [])

    def _answers(self, version: Address) -> list[Address]:
        return self.answers.get(version, [])


def _closure(
    sources: Iterable[Address], readers: Callable[[Address], list[Address]]
) -> set[Address]:
    found, waiting = set(sources), list(sources)
    while waiting:
        for reader in readers(waiting.pop()):
            if reader not in found:
                found.add(reader)
                waiting.append(reader)
    return found
