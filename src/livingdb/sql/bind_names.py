"""Bind the names in an expression: of columns, of variables of lambdas, of fields of structs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from sqlglot import exp

from livingdb.errors import Unsupported
from livingdb.sql.bindings import Binding, ColumnBinding, VariableBinding
from livingdb.sql.name_scopes import UNCLEAR, Found, Outputs, Scope

__all__ = ["NameBinder", "is_named_by_arguments"]

_NAMING = (exp.Dot, exp.Window)
"""Nodes with names that are no columns' or variables', but for the first of their parts."""
_NAMED_BY_ARGUMENTS = ("arrays_zip",)
"""Functions whose result has fields named by their arguments, which cannot be given names."""


class NameBinder(ABC):
    """Finds out what the names in expressions stand for, and where they are in the text.

    `trace` is what each name stands for, in order, with the place of its binding, or -1;
    `unknown` are the names that stand for nothing.
    """

    def __init__(self, text: str):
        self.text = text
        self.bindings: list[Binding] = []
        self.trace: list[tuple[tuple[str, int, str], int]] = []
        self.unknown: list[str] = []
        self._seen: set[int] = set()
        self._variables = 0

    @abstractmethod
    def query(
        self, tree: exp.Expr, ctes: Mapping[str, Outputs], outer: Scope | None
    ) -> Sequence[str] | None:
        """Bind what is in a query; the names of the columns it gives."""

    def expression(
        self, node: exp.Expr, scope: Scope, variables: Mapping[str, int] | None = None
    ) -> None:
        """Bind the names in an expression."""
        known = variables or {}
        if node.is_star and isinstance(node, (exp.Column, exp.Star)):
            if not isinstance(node.parent, exp.Count) or isinstance(node, exp.Column):
                scope.hold()
        elif isinstance(node, exp.Column):
            self._column(node, scope, variables=known)
        elif isinstance(node, exp.Query):
            self.query(node, scope.ctes, scope)
        elif isinstance(node, exp.Lambda):
            self._lambda(node, scope, known)
        elif isinstance(node, exp.Identifier):
            self._variable(node, scope, known)
        elif isinstance(node, exp.PropertyEQ):
            self._field(node, scope, known)
        elif not isinstance(node, exp.DataType):
            if isinstance(node, exp.Func) and is_named_by_arguments(node):
                scope.hold()
            for child in node.iter_expressions():
                self.expression(child, scope, known)

    def _lambda(self, node: exp.Lambda, scope: Scope, variables: Mapping[str, int]) -> None:
        inner = dict(variables)
        for name in node.expressions:
            self._variables += 1
            inner[name.name.casefold()] = self._variables
            self._variable(name, scope, inner)
        self.expression(node.this, scope, inner)

    def _field(self, node: exp.PropertyEQ, scope: Scope, variables: Mapping[str, int]) -> None:
        """A field of a struct that is made; from what it is made it may have its name."""
        value, name = node.expression, node.this.name
        last = value.this if isinstance(value, exp.Column) else value
        is_implicit = "start" in node.this.meta and node.this.meta == last.meta
        if isinstance(value, exp.Column):
            self._column(value, scope, output=name if is_implicit else None, variables=variables)
        elif isinstance(value, exp.Identifier):
            self._variable(value, scope, variables, name if is_implicit else None)
        else:
            self.expression(value, scope, variables)

    def _variable(
        self,
        node: exp.Identifier,
        scope: Scope,
        variables: Mapping[str, int],
        output: str | None = None,
    ) -> None:
        """Bind the name of a variable.  Engines differ about `x.y`, if a relation is called `x`."""
        name = node.name.casefold()
        group = variables.get(name)
        is_dotted = isinstance(node.parent, exp.Dot)
        if group is None or (node.arg_key != "this" and isinstance(node.parent, _NAMING)):
            return
        if is_dotted and scope.has_relation(name):
            scope.hold()
        self._note(("variable", group, ""))
        self.bindings.append(VariableBinding(*self._span(node), group, output))

    def _column(
        self,
        node: exp.Column,
        scope: Scope,
        *,
        is_bare: bool = False,
        output: str | None = None,
        variables: Mapping[str, int] | None = None,
    ) -> Found | None:
        """Bind the name of a column.  `output` is the name that something has from it."""
        self._seen.add(id(node))
        parts = node.parts
        names = [part.name.casefold() for part in parts]
        group = (variables or {}).get(names[0])
        if group is not None:
            if len(parts) > 1 and scope.has_relation(names[0]):
                scope.hold()
            self._note(("variable", group, ""))
            output = output if len(parts) == 1 else None
            self.bindings.append(VariableBinding(*self._span(parts[0]), group, output))
            return None
        found = scope.find(names, is_bare) or UNCLEAR
        if found == UNCLEAR:
            scope.hold()
            self.unknown.append(parts[0].name)
        if found.kind != "column":
            self._note(found.meaning)
            return found
        start, end = self._span(parts[found.part])
        if found.is_path:
            start = self._span(parts[0])[0]
        self._note(found.meaning, start)
        is_whole = found.part == len(parts) - 1
        self.bindings.append(
            ColumnBinding(
                start,
                end,
                found.of,
                found.name,
                is_qualified=found.part > 0 and not found.is_path,
                is_path=found.is_path,
                output=output if is_whole else None,
            )
        )
        return found

    def _note(self, meaning: tuple[str, int, str], place: int = -1) -> None:
        self.trace.append((meaning, place))

    def _span(self, node: exp.Expr) -> tuple[int, int]:
        """Where a name is in the text."""
        place = node.meta
        if "start" in place:
            start, end = int(place["start"]), int(place["end"]) + 1
            if self.text[start:end].strip("`").replace("``", "`") == node.name.strip("`"):
                return start, end
        raise Unsupported(f"where {node.name!r} stands in the query cannot be told")


def is_named_by_arguments(call: exp.Func) -> bool:
    """Whether the fields of its result are named by its arguments."""
    name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
    return name.casefold() in _NAMED_BY_ARGUMENTS
