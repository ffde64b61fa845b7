"""The types of expressions, as Spark sees them; what is not on the whitelist has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.portable.grouping_sets import Sets
from livingdb.engines.portable.literal_arguments import LITERALS, is_time_literal
from livingdb.engines.portable.signature_matching import (
    AGGREGATE_CALLS,
    CALLS,
    WINDOW_CALLS,
    NotPortable,
    WrongKind,
    arguments_of,
    fits,
    key_of,
    name_of,
    sql_excerpt,
    takes_none,
)
from livingdb.engines.portable.signatures import CASTS, Signature
from livingdb.engines.portable.type_annotations import annotate_type
from livingdb.engines.spark_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    NTZ,
    NULL,
    TIMESTAMP,
    cast_target_type,
    common_type,
    kind_of,
    literal_type,
    map_type,
    parameter_type,
)

__all__ = ["ExpressionTyper", "Resolver", "field_type", "require_common"]


class Resolver(Protocol):
    """What an expression asks its query for."""

    parameters: Mapping[str, object]
    sets: Sets | None
    clause: str

    def column(self, node: exp.Column) -> pa.DataType:
        """The type of a column."""
        ...

    def subquery(self, query: exp.Expr, *, single: bool) -> pa.DataType:
        """The type of the only column of a query in an expression."""
        ...


_TRUTHS = (exp.Like, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_DAY_UNITS = ("YEAR", "MONTH", "WEEK", "DAY")
_UNITS = (*_DAY_UNITS, "HOUR", "MINUTE", "SECOND")
_FRAMED = (exp.First, exp.FirstValue, exp.Last, exp.LastValue)
_FRAME_ENDS = ("UNBOUNDED", "CURRENT ROW")


def require_common(types: Sequence[pa.DataType], what: str) -> pa.DataType:
    """The common type; `NotPortable` if there is none."""
    found = common_type(types)
    if found is None:
        kinds = " and ".join(dict.fromkeys(kind_of(data_type) for data_type in types))
        raise NotPortable(f"{what} brings {kinds} together, which engines do differently")
    return found


_LENIENT = (exp.Binary, exp.Extract, exp.Median, exp.TsOrDsToDate)
"""What Spark takes more kinds for than the whitelist has, of one or another."""

_LEAST = frozenset(str(2**bits) for bits in (7, 15, 31, 63))
"""Numbers that a type has with a minus only."""


class ExpressionTyper:
    """Types the expressions of one query."""

    def __init__(self, resolver: Resolver):
        self._resolver = resolver
        self._found: dict[int, pa.DataType] = {}
        """Types of operands that are asked for next, by the identity of their nodes."""

    def type_of(self, node: exp.Expr) -> pa.DataType:
        """The type of an expression, noted on it and on every part of it.

        Of a long chain of operators the first operands are typed first, and not one in another.
        """
        found = self._found.pop(id(node), None)
        if found is not None:
            return found
        for part in reversed(_first_operands(node)):
            self._found[id(part)] = self._own_type(part)
        return self._own_type(node)

    def _own_type(self, node: exp.Expr) -> pa.DataType:
        typed = _TYPE_RULES.get(type(node))
        found = self._call_type(node) if typed is None else typed(self, node)
        return annotate_type(node, found)

    def check_condition(self, node: exp.Expr, clause: str) -> None:
        """Check that an expression is a condition."""
        if self.type_of(node) not in (BOOLEAN, NULL):
            raise NotPortable(f"{clause} takes a condition, not {sql_excerpt(node)}")

    def _types_of(self, nodes: Iterable[exp.Expr]) -> list[pa.DataType]:
        return [self.type_of(node) for node in nodes]

    def _aligned_types(self, nodes: Sequence[exp.Expr]) -> list[pa.DataType]:
        """The types of expressions that meet; text beside a day or moment is one, too."""
        types = self._types_of(nodes)
        for time in (TIMESTAMP, NTZ, DATE):
            if time in types:
                for at, node in enumerate(nodes):
                    if is_time_literal(node, time):
                        types[at] = annotate_type(node, time)
        return types

    def _call_type(self, node: exp.Expr) -> pa.DataType:
        """The type of a call or an operator, by the whitelist."""
        key = key_of(node)
        if key in AGGREGATE_CALLS:
            return self._aggregate(node)
        lines = CALLS.get(key)
        if lines is None:
            raise NotPortable(f"{name_of(node)} is not tested to be the same on every engine")
        if isinstance(node, exp.Binary) and isinstance(node.expression, exp.Interval):
            return self._interval_sum_type(node)
        if isinstance(node, exp.Concat) and not node.args.get("safe"):
            raise NotPortable("quoted text beside quoted text may differ between engines")
        return self._signature_type(node, lines, arguments_of(node))

    def _signature_type(
        self, node: exp.Expr, lines: Sequence[Signature], nodes: list[exp.Expr]
    ) -> pa.DataType:
        literal = {at for line in lines for at, kind in enumerate(line.kinds) if kind in LITERALS}
        plain = [item for at, item in enumerate(nodes) if at not in literal]
        found = iter(
            self._aligned_types(plain) if isinstance(node, _TRUTHS) else self._types_of(plain)
        )
        types = [NULL if at in literal else next(found) for at in range(len(nodes))]
        for line in lines:
            if not fits(line, types, nodes):
                continue
            result = line.result
            if isinstance(result, pa.DataType):
                return result
            made = result(types, [self._as_written(item) for item in nodes])
            if made is not None:
                return made
        kinds = ", ".join(
            sql_excerpt(item) if at in literal else kind_of(data_type)
            for at, (item, data_type) in enumerate(zip(nodes, types, strict=True))
        )
        is_strict = isinstance(node, exp.Func) and not isinstance(node, _LENIENT)
        is_time = isinstance(node, exp.AggFunc) and any(map(pa.types.is_timestamp, types))
        if is_strict and not is_time and takes_none(lines, types, nodes):
            raise WrongKind(f"{name_of(node)} takes no {kinds}")
        raise NotPortable(f"{name_of(node)} of {kinds} may differ between engines")

    def _as_written(self, node: exp.Expr) -> exp.Expr:
        """A whole number that is a parameter as the literal that Spark puts in its place."""
        if isinstance(node, exp.Paren):
            inner = self._as_written(node.this)
            return node if inner is node.this else exp.Paren(this=inner)
        is_negative = isinstance(node, exp.Neg) and isinstance(node.this, exp.Placeholder)
        place = node.this if is_negative else node
        if not isinstance(place, exp.Placeholder):
            return node
        value = self._resolver.parameters.get(str(place.this))
        if not isinstance(value, int) or isinstance(value, bool) or (is_negative and value < 0):
            return node
        return exp.Literal.number(-value if is_negative else value)

    def _interval_sum_type(self, node: exp.Binary) -> pa.DataType:
        """A day or moment and an interval."""
        time, interval = self.type_of(node.this), node.expression
        unit = interval.args.get("unit")
        name = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
        amount = interval.this
        is_plain = isinstance(amount, exp.Literal) and amount.name.isdecimal()
        units = _DAY_UNITS if time == DATE else _UNITS
        if time not in (DATE, TIMESTAMP, NTZ) or not is_plain or name not in units:
            raise NotPortable(f"{sql_excerpt(node)} may differ between engines")
        return time

    def _aggregate(self, node: exp.Expr) -> pa.DataType:
        key = key_of(node)
        nodes = arguments_of(node)
        if len(nodes) == 1 and isinstance(nodes[0], exp.Star) and isinstance(node, exp.Count):
            return pa.int64()
        if len(nodes) == 1 and isinstance(nodes[0], exp.Distinct):
            distinct = nodes[0]
            if distinct.args.get("on") is not None:
                raise NotPortable("DISTINCT ON is not Spark's")
            nodes = distinct.expressions
            if any(
                kind_of(data_type) in ("array", "struct", "map")
                for data_type in self._types_of(nodes)
            ):
                raise NotPortable("DISTINCT of nested values may differ between engines")
        elif len(nodes) != 1:
            raise NotPortable(f"{name_of(node)} with several arguments may differ between engines")
        return self._signature_type(node, AGGREGATE_CALLS[key], nodes)

    def _filter(self, node: exp.Filter) -> pa.DataType:
        if key_of(node.this) not in AGGREGATE_CALLS:
            raise NotPortable(f"FILTER after {name_of(node.this)} is not portable")
        self.check_condition(node.expression.this, "FILTER")
        return self.type_of(node.this)

    def _window(self, node: exp.Window) -> pa.DataType:
        """A function over a window."""
        refused = ("alias", "exclude", "first")
        if any(node.args.get(key) is not None for key in refused):
            raise NotPortable("this kind of window may differ between engines")
        call, order, spec = node.this, node.args.get("order"), node.args.get("spec")
        for part in node.args.get("partition_by") or ():
            self.key_type(part, "PARTITION BY")
        for item in order.expressions if order is not None else ():
            self.key_type(item.this, "ORDER BY")
        key = key_of(call)
        if key in WINDOW_CALLS:
            if order is None:
                raise NotPortable(f"{name_of(call)} needs an ORDER BY in its window")
            if spec is not None and not isinstance(call, _FRAMED):
                raise NotPortable(f"{name_of(call)} takes no frame")
            _check_frame(spec)
            found = self._signature_type(call, WINDOW_CALLS[key], arguments_of(call))
        elif key in AGGREGATE_CALLS or isinstance(call, exp.Filter):
            if call.find(exp.Distinct, exp.Median) is not None:
                raise NotPortable(f"{name_of(call)} over a window is not Spark's")
            _check_frame(spec)
            return self.type_of(call)
        else:
            raise NotPortable(f"{name_of(call)} over a window may differ between engines")
        return annotate_type(call, found)

    def key_type(self, node: exp.Expr, clause: str) -> pa.DataType:
        """The type of an expression that rows are grouped, sorted or joined by."""
        found = self.type_of(node)
        if kind_of(found) in ("array", "struct", "map"):
            raise NotPortable(f"{clause} of nested values may differ between engines")
        return found

    def _grouping(self, node: exp.Grouping | exp.GroupingId) -> pa.DataType:
        """Which columns of a group are rolled up; all of them in order, or one."""
        sets = self._resolver.sets
        is_inside = isinstance(node.find_ancestor(exp.AggFunc, exp.Query), exp.AggFunc)
        if sets is None or is_inside or self._resolver.clause == "GROUP BY":
            raise NotPortable(f"{name_of(node)} in this place may differ between engines")
        self._types_of(node.expressions)
        places = [sets.place(argument) for argument in node.expressions]
        if isinstance(node, exp.Grouping):
            if len(places) != 1 or places[0] is None:
                raise NotPortable(f"{sql_excerpt(node)} asks for no column of GROUP BY")
            return pa.int8()
        if places and places != list(range(len(sets.columns))):
            raise NotPortable(f"{sql_excerpt(node)} does not ask for the columns of GROUP BY")
        return BIGINT

    def _array(self, node: exp.Array) -> pa.DataType:
        return pa.list_(require_common(self._types_of(node.expressions), "array(…)"))

    def _struct(self, node: exp.Struct) -> pa.DataType:
        if not all(isinstance(item, exp.PropertyEQ) for item in node.expressions):
            raise NotPortable("a struct whose fields have no names may differ between engines")
        names = [item.this.name for item in node.expressions]
        types = self._types_of(item.expression for item in node.expressions)
        is_clear = len({name.casefold() for name in names}) == len(names) > 0
        if not is_clear:
            raise NotPortable(f"{sql_excerpt(node)} may differ between engines")
        return pa.struct(list(zip(names, types, strict=True)))

    def _map(self, node: exp.VarMap) -> pa.DataType:
        keys, values = (self.type_of(node.args[part]).value_type for part in ("keys", "values"))
        if kind_of(keys) in ("array", "struct", "map", "float", "double"):
            raise NotPortable(f"keys of {kind_of(keys)} may differ between engines")
        if keys == NULL and node.args["keys"].expressions:
            raise NotPortable("a map has no key that is null")
        return map_type(keys, values)

    def _column(self, node: exp.Column) -> pa.DataType:
        return self._resolver.column(node)

    def _field(self, node: exp.Dot) -> pa.DataType:
        return field_type(self.type_of(node.this), node.expression.name)

    def _literal(self, node: exp.Literal) -> pa.DataType:
        found = literal_type(node)
        if found is None:
            raise NotPortable(f"the number {node.name} has too many digits")
        return found

    def _negative(self, node: exp.Neg) -> pa.DataType:
        """The least integer is written with a number that is none."""
        number = node.this
        if isinstance(number, exp.Literal) and not number.is_string:
            least = {str(2**31): pa.int32(), str(2**63): pa.int64()}
            return least.get(number.name) or self.type_of(number)
        if isinstance(number, exp.Cast) and number.this.name in _LEAST:
            raise NotPortable(f"-{number.this.name} may be the least number of its type")
        return self._call_type(node)

    def _parameter(self, node: exp.Placeholder) -> pa.DataType:
        name = str(node.this)
        if name not in self._resolver.parameters:
            raise NotPortable(f"the parameter {name} has no value")
        found = parameter_type(self._resolver.parameters[name])
        if found is None:
            raise NotPortable("a parameter is of a type engines read differently")
        return found

    def _cast(self, node: exp.Cast) -> pa.DataType:
        target = cast_target_type(node.to)
        if target is None or node.args.get("format") is not None:
            raise NotPortable(f"a cast to {node.to.sql('spark').lower()} may differ")
        if is_time_literal(node.this, target):
            return target
        source = self.type_of(node.this)
        one, other = kind_of(source), kind_of(target)
        if one != "null" and other not in CASTS.get(one, ()):
            raise NotPortable(f"a cast from {one} to {other} may differ between engines")
        if isinstance(node, exp.TryCast) and one != "string":
            raise NotPortable(f"try_cast from {one} may differ between engines")
        return target

    def _case(self, node: exp.Case) -> pa.DataType:
        if node.this is not None:
            values = [node.this, *(part.this for part in node.args["ifs"])]
            require_common(self._aligned_types(values), "CASE")
        else:
            for part in node.args["ifs"]:
                self.check_condition(part.this, "CASE")
        default = node.args.get("default")
        results = [part.args["true"] for part in node.args["ifs"]]
        return self._branches([*results, default] if default is not None else results)

    def _if(self, node: exp.If) -> pa.DataType:
        self.check_condition(node.this, "IF")
        branches = [node.args["true"], node.args.get("false")]
        return self._branches([branch for branch in branches if branch is not None])

    def _branches(self, nodes: Sequence[exp.Expr]) -> pa.DataType:
        return require_common(self._types_of(nodes), "CASE")

    def _in(self, node: exp.In) -> pa.DataType:
        if any(node.args.get(key) for key in ("unnest", "field", "is_global")):
            raise NotPortable("this form of IN may differ between engines")
        query = node.args.get("query")
        if query is not None:
            inner = self._resolver.subquery(query.this, single=False)
            require_common([self.key_type(node.this, "IN"), inner], "IN")
            return BOOLEAN
        found = require_common(self._aligned_types([node.this, *node.expressions]), "IN")
        if kind_of(found) in ("array", "struct", "map"):
            raise NotPortable("IN with nested values may differ between engines")
        return BOOLEAN

    def _between(self, node: exp.Between) -> pa.DataType:
        if node.args.get("symmetric"):
            raise NotPortable("BETWEEN SYMMETRIC is not Spark's")
        parts = [node.this, node.args["low"], node.args["high"]]
        types = self._aligned_types(parts)
        for bound in types[1:]:
            found = require_common([types[0], bound], "BETWEEN")
            if kind_of(found) in ("array", "struct", "map"):
                raise NotPortable("BETWEEN with nested values may differ between engines")
        return BOOLEAN

    def _is(self, node: exp.Is) -> pa.DataType:
        found = self.type_of(node.this)
        if isinstance(node.expression, exp.Boolean) and found not in (BOOLEAN, NULL):
            raise NotPortable(
                f"{sql_excerpt(node)} is not portable: only conditions are true or false"
            )
        if not isinstance(node.expression, (exp.Null, exp.Boolean)):
            raise NotPortable(f"{sql_excerpt(node)} may differ between engines")
        return BOOLEAN

    def _exists(self, node: exp.Exists) -> pa.DataType:
        if isinstance(node.expression, exp.Lambda):
            raise NotPortable("functions of functions may differ between engines")
        self._resolver.subquery(node.this, single=False)
        return BOOLEAN

    def _scalar(self, node: exp.Subquery) -> pa.DataType:
        if node.alias:
            raise NotPortable("a query with a name cannot stand in an expression")
        return self._resolver.subquery(node.this, single=True)


def _first_operands(node: exp.Expr) -> list[exp.Expr]:
    """The operators in the first operand of an operator, the outermost first."""
    found: list[exp.Expr] = []
    while isinstance(node, exp.Binary) and isinstance(node.this, exp.Binary):
        node = node.this
        found.append(node)
    return found


def field_type(data_type: pa.DataType, name: str) -> pa.DataType:
    """The type of a field of a struct."""
    if kind_of(data_type) != "struct":
        raise NotPortable(f"there is no field {name!r} in a {kind_of(data_type)}")
    alike = [field for field in data_type if field.name.casefold() == name.casefold()]
    if len(alike) != 1:
        raise NotPortable(f"the field {name!r} is not one of the struct's")
    return alike[0].type


def _check_frame(spec: exp.WindowSpec | None) -> None:
    if spec is None:
        return
    is_rows = str(spec.args.get("kind")).upper() == "ROWS"
    for end in (spec.args.get("start"), spec.args.get("end")):
        is_named = isinstance(end, str) and end.upper() in _FRAME_ENDS
        is_counted = isinstance(end, exp.Literal) and end.name.isdecimal() and is_rows
        if not is_named and not is_counted and end is not None:
            raise NotPortable("this frame of a window may differ between engines")
    if spec.args.get("exclude") is not None:
        raise NotPortable("EXCLUDE in a window is not Spark's")


_TYPE_RULES: dict[type[exp.Expr], Callable[[Any, Any], pa.DataType]] = {
    exp.Alias: lambda self, node: self.type_of(node.this),
    exp.Array: ExpressionTyper._array,
    exp.Between: ExpressionTyper._between,
    exp.Boolean: lambda self, node: BOOLEAN,
    exp.Case: ExpressionTyper._case,
    exp.Cast: ExpressionTyper._cast,
    exp.Column: ExpressionTyper._column,
    exp.Dot: ExpressionTyper._field,
    exp.Exists: ExpressionTyper._exists,
    exp.Filter: ExpressionTyper._filter,
    exp.Grouping: ExpressionTyper._grouping,
    exp.GroupingId: ExpressionTyper._grouping,
    exp.HexString: lambda self, node: BINARY,
    exp.If: ExpressionTyper._if,
    exp.In: ExpressionTyper._in,
    exp.Is: ExpressionTyper._is,
    exp.Literal: ExpressionTyper._literal,
    exp.Neg: ExpressionTyper._negative,
    exp.Null: lambda self, node: NULL,
    exp.Paren: lambda self, node: self.type_of(node.this),
    exp.Placeholder: ExpressionTyper._parameter,
    exp.Struct: ExpressionTyper._struct,
    exp.Subquery: ExpressionTyper._scalar,
    exp.TryCast: ExpressionTyper._cast,
    exp.VarMap: ExpressionTyper._map,
    exp.Window: ExpressionTyper._window,
}
