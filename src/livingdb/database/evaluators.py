"""Who reads versions that are derived, imported when the first of a kind is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from livingdb.tables.evaluator import Evaluator

__all__ = ["Evaluators"]

_KINDS = ("lens", "query")


class Evaluators(Mapping[str, "Evaluator"]):
    """The evaluators by the kind of the recipes they read; each is made once."""

    def __init__(self, trust: Sequence[str]):
        self._trust = trust
        self._made: dict[str, Evaluator] = {}

    def __getitem__(self, kind: str) -> Evaluator:
        if kind not in self._made:
            self._made[kind] = self._make(kind)
        return self._made[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(_KINDS)

    def __len__(self) -> int:
        return len(_KINDS)

    def _make(self, kind: str) -> Evaluator:
        if kind == "lens":
            from livingdb.evolution.lens_evaluator import LensEvaluator

            return LensEvaluator(self._trust)
        if kind == "query":
            from livingdb.derivation.query_evaluator import QueryEvaluator

            return QueryEvaluator()
        raise KeyError(kind)
