"""Names: which column of which relation each name in a query stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.plan import Unplannable

__all__ = ["Scope", "UnknownColumn", "VisibleRelation"]


class UnknownColumn(Unplannable):
    """A name that no relation here has; perhaps one of the query around has it."""

    def __init__(self) -> None:
        super().__init__("UNKNOWN_COLUMN")


@dataclass(frozen=True)
class VisibleRelation:
    """A relation in FROM: what the query calls it, and its columns by the names they have."""

    alias: str
    relation: str
    columns: Sequence[tuple[str, str]]

    def column(self, name: str) -> exp.Column | None:
        """The column of that name."""
        found = [column for shown, column in self.columns if shown.casefold() == name]
        if len(found) > 1:
            raise Unplannable("AMBIGUOUS_COLUMN")
        return trees.column(self.relation, found[0]) if found else None


@dataclass
class Scope:
    """What the expressions of one query see; `merged` are the columns of USING.

    After SELECT, where engines differ about which comes first, a name cannot be both a column and
    an alias of something else.
    """

    outer: Scope | None = None
    seen: list[VisibleRelation] = field(default_factory=list)
    merged: dict[str, exp.Expr] = field(default_factory=dict)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    is_after_select: bool = False

    def relations(self) -> set[str]:
        """The relations of this query."""
        return {seen.relation for seen in self.seen}

    def column(self, node: exp.Column) -> exp.Expr:
        """What a name stands for."""
        found = self._column(node)
        if found is None and self.outer is not None:
            return self.outer.column(node)
        if found is None:
            raise UnknownColumn
        return found

    def _column(self, node: exp.Column) -> exp.Expr | None:
        parts = [part.name.casefold() for part in node.parts]
        fields = node.parts
        if len(parts) > 1:
            for seen in self.seen:
                if seen.alias == parts[0]:
                    found = seen.column(parts[1])
                    if found is not None:
                        return _fields(found, fields[2:])
        found_plain = self.plain(parts[0])
        if len(parts) == 1 and parts[0] in self.aliases:
            alias = self.aliases[parts[0]]
            if found_plain is None:
                return trees.parenthesize(alias.copy(), node)
            if self.is_after_select and alias != found_plain:
                raise Unplannable("AMBIGUOUS_COLUMN")
        return None if found_plain is None else _fields(found_plain, fields[1:])

    def plain(self, name: str) -> exp.Expr | None:
        """The column of a name without a relation's."""
        if name in self.merged:
            return self.merged[name].copy()
        found = [column for seen in self.seen if (column := seen.column(name)) is not None]
        if len(found) > 1:
            raise Unplannable("AMBIGUOUS_COLUMN")
        return found[0] if found else None

    def star(self, relation: str = "") -> list[tuple[str, exp.Expr]]:
        """The columns a star stands for, by their names; those of USING come first."""
        found: list[tuple[str, exp.Expr]] = []
        seen_here = [seen for seen in self.seen if not relation or seen.alias == relation]
        if not seen_here:
            raise Unplannable("UNKNOWN_RELATION")
        if not relation:
            for seen in self.seen[:1]:
                shown = {name.casefold(): name for name, _ in seen.columns}
                found += [(shown.get(n, n), e.copy()) for n, e in self.merged.items()]
        for seen in seen_here:
            for name, column in seen.columns:
                if relation or name.casefold() not in self.merged:
                    found.append((name, trees.column(seen.relation, column)))
        return found


def _fields(found: exp.Expr, names: Sequence[exp.Expr]) -> exp.Expr:
    for name in names:
        found = exp.Dot(this=found, expression=name.copy())
    return found
