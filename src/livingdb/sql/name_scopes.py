"""What a name in a query stands for: relations of FROM, outputs of SELECT, queries around.

The rules are Spark's, as the compiler of views and the check of portability have them.  Where a
name could stand for a column and for an output, and engines differ, the answer is `UNCLEAR`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["UNCLEAR", "Found", "Output", "Outputs", "Relation", "Scope"]

Outputs = Sequence[str] | None
"""The names of the columns a query gives; None if that is not known."""


@dataclass(frozen=True)
class Found:
    """What a name stands for.

    `kind` is "column" (of the table with the number `of`, by its id), "derived" (of the relation
    with the number `of`, by its name), "merged" (by USING), "output" (of SELECT, by its place),
    "variable" or "unclear".  `part` is which part of a dotted name names it.
    """

    kind: str
    of: int = -1
    name: str = ""
    part: int = 0
    is_path: bool = False

    @property
    def meaning(self) -> tuple[str, int, str]:
        """What it stands for, however that is written."""
        return self.kind, self.of, self.name


UNCLEAR = Found("unclear")


@dataclass
class Relation:
    """Something in FROM.

    `columns` are the names of its columns, with ids if it is the table of the number `table`; None
    if they are not known.
    """

    number: int
    called: str
    columns: Sequence[tuple[str, str]] | None
    table: int | None = None
    branch: str = ""

    def find(self, name: str) -> Found | None:
        """The column of a name."""
        if self.columns is None:
            return None
        exact = [item for item in self.columns if item[0].casefold() == name]
        if len(exact) > 1:
            return UNCLEAR
        if not exact:
            return None
        shown, column = exact[0]
        if self.table is not None:
            return Found("column", self.table, column)
        return Found("derived", self.number, shown.casefold())


@dataclass(frozen=True)
class Output:
    """An item of SELECT: its name, the column it is if it is one, and whether AS names it."""

    name: str
    column: Found | None = None
    is_named: bool = False


@dataclass
class Scope:
    """What the expressions of one SELECT see.

    `has_stars`: a star there stands for the columns of the relations, one by one.
    """

    outer: Scope | None = None
    ctes: Mapping[str, Outputs] = field(default_factory=dict)
    relations: list[Relation] = field(default_factory=list)
    every: list[Relation] = field(default_factory=list)
    merged: dict[str, Found] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)
    are_outputs_known: bool = True
    has_stars: bool = True
    is_distinct: bool = False
    is_held: bool = False
    clause: str = "FROM"

    def add(self, relation: Relation) -> None:
        """Let what follows see a relation."""
        self.relations.append(relation)
        self.every.append(relation)
        if relation.columns is None:
            self.hold()

    def hold(self) -> None:
        """Keep the names of all tables here: something depends on them that is not bound."""
        scope: Scope | None = self
        while scope is not None:
            scope.is_held = True
            scope = scope.outer

    def find(self, names: Sequence[str], is_bare: bool = False) -> Found | None:
        """What a dotted name in lower case stands for; None if nothing is known of it.

        `is_bare`: it is all of an item of ORDER BY.
        """
        column = self._column(names)
        if (
            column is not None
            and len(names) > 1
            and not column.part
            and self.has_relation(names[0])
        ):
            return UNCLEAR
        if self.clause in ("HAVING", "QUALIFY", "ORDER BY") and len(names) == 1:
            return self._after_select(names[0], column, is_bare) or self._outer_column(names)
        if column is not None:
            return column
        if self.clause in ("SELECT", "GROUP BY"):
            found = self._output(names[0], named_only=self.clause == "SELECT")
            if found is not None:
                return found
        return self._outer_column(names)

    def has_relation(self, name: str) -> bool:
        """Whether a relation here or around has a name: a column of it may be meant by `name.x`."""
        if any(relation.called.casefold() == name for relation in self.relations):
            return True
        return self.outer is not None and self.outer.has_relation(name)

    def _outer_column(self, names: Sequence[str]) -> Found | None:
        return None if self.outer is None else self.outer.find(names)

    def _column(self, names: Sequence[str]) -> Found | None:
        if len(names) > 1:
            called = [r for r in self.relations if r.called.casefold() == names[0]]
            if len(called) > 1:
                return UNCLEAR
            found = called[0].find(names[1]) if called else None
            if found is not None:
                return _at(found, 1)
            if called and called[0].columns is None:
                return Found("derived", called[0].number, names[1], 1)
        if len(names) > 2:
            for relation in self.relations:
                ends = relation.called.casefold() in (names[1], f"{names[0]}.{names[1]}")
                found = relation.find(names[2])
                if relation.branch == names[0] and ends and found is not None:
                    return _at(found, 2, is_path=True)
        return self.plain(names[0])

    def plain(self, name: str) -> Found | None:
        """The column of a name without a relation's."""
        if name in self.merged:
            return self.merged[name]
        found = [one for r in self.relations if (one := r.find(name)) is not None]
        if len(found) > 1:
            return UNCLEAR
        return found[0] if found else None

    def _output(self, name: str, named_only: bool = False) -> Found | None:
        found = [
            Found("output", at)
            for at, output in enumerate(self.outputs)
            if output.name.casefold() == name and (output.is_named or not named_only)
        ]
        if len(found) > 1:
            return UNCLEAR
        if not found and not self.are_outputs_known and not named_only:
            return UNCLEAR
        return found[0] if found else None

    def _after_select(self, name: str, column: Found | None, is_bare: bool) -> Found | None:
        """A name after SELECT, where it may be that of an output.

        All of an item of ORDER BY is the output.  Within an expression it is the column, if both
        are the same.
        """
        output = self._output(name)
        if output is None or column is None or output == UNCLEAR:
            return output or column
        if self.clause == "ORDER BY" and is_bare:
            return output
        same = self.outputs[output.of].column
        is_same = same is not None and same.meaning == column.meaning
        return column if is_same and not self.is_distinct else UNCLEAR


def _at(found: Found, part: int, is_path: bool = False) -> Found:
    return Found(found.kind, found.of, found.name, part, is_path)
