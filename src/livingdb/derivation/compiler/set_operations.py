"""UNION, INTERSECT and EXCEPT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.compiler.name_resolution import Scope, VisibleRelation
from livingdb.derivation.compiler.order_limit import apply_limit
from livingdb.derivation.operators.node import Leaf, Node, Run
from livingdb.derivation.operators.partitioned_block import PartitionedBlock
from livingdb.derivation.plan import WEIGHT, Ask, Relation, Side, Unplannable
from livingdb.derivation.weighted_rows import concat_rows, is_groupable
from livingdb.engines.spark_types import common_type

if TYPE_CHECKING:
    from livingdb.derivation.compiler.query_compiler import Block, Compiler, Environment

__all__ = ["Concat", "compile_set_operation", "distinct_node", "spark_type_name"]


class Concat(Node):
    """All rows of two nodes with the same columns in the same types."""

    constants: Mapping[str, Leaf] = {}
    strategy = "linear"
    key = None

    def __init__(self, left: Node, right: Node):
        self.nodes = {"l": left, "r": right}
        self.columns = left.columns
        self.types = left.types
        self.required = left.required & right.required
        self._ask = Ask(self._union_query(trees.table("l", "l"), trees.table("r", "r")), ("l", "r"))

    def inputs(self) -> Mapping[str, Node]:
        return self.nodes

    def used_columns(self, name: str) -> tuple[str, ...]:
        return self.columns

    def full_query(self) -> exp.Query:
        left, right = (
            exp.Subquery(
                this=node.full_query(),
                alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)),
            )
            for name, node in self.nodes.items()
        )
        return self._union_query(left, right)

    def _union_query(self, left: exp.Expr, right: exp.Expr) -> exp.Query:
        return _set_operation_query(exp.Union, left, right, self.columns, is_distinct=False)

    def delta(self, run: Run) -> pa.Table:
        wanted = [*self.columns, WEIGHT]
        deltas = [run.delta(node) for node in self.nodes.values()]
        found = [delta.select(wanted) for delta in deltas if delta.num_rows]
        return concat_rows(found) if found else self.empty_delta()

    def semi_join(self, run: Run, side: Side, values: pa.Table) -> pa.Table:
        parts = [node.semi_join(run, side, values) for node in self.nodes.values()]
        return concat_rows([part.select(list(self.columns)) for part in parts])

    def all_rows(self, run: Run, side: Side) -> Relation:
        return run.relations.answer(
            self._ask, {name: node.all_rows(run, side) for name, node in self.nodes.items()}
        )


def compile_set_operation(compiler: Compiler, tree: exp.SetOperation, around: Environment) -> Block:
    """A set operation as a block."""
    from livingdb.derivation.compiler.query_compiler import Block

    plain = {"with_", "this", "expression", "distinct", "order", "limit", "offset"}
    if any(value and key not in plain for key, value in tree.args.items()):
        raise Unplannable("UNSUPPORTED_CLAUSE")
    left = compiler.compile_query(tree.this, around)
    right = compiler.compile_query(tree.expression, around)
    if len(left.names) != len(right.names):
        raise Unplannable("DIFFERENT_COLUMNS")
    kinds = [
        _common_type(left.node.types.get(one), right.node.types.get(other))
        for (_, one), (_, other) in zip(left.names, right.names, strict=True)
    ]
    columns = [f"c{at}" for at in range(len(kinds))]
    inputs = [_cast_columns(compiler, block, columns, kinds) for block in (left, right)]
    names = [(shown, column) for (shown, _), column in zip(left.names, columns, strict=True)]
    is_distinct = bool(tree.args.get("distinct"))
    if isinstance(tree, exp.Union) and not is_distinct:
        compiler.note("union all", "linear")
        node: Node = Concat(*inputs)
    else:
        node = _set_operation_node(type(tree), inputs[0], inputs[1], is_distinct)
        compiler.note(tree.key, "touched")
    block = Block(node, names)
    scope = Scope(seen=[VisibleRelation("", "", [(shown, column) for shown, column in names])])
    return apply_limit(compiler, block, tree, scope)


def _set_operation_node(
    kind: type[exp.SetOperation], left: Node, right: Node, is_distinct: bool
) -> Node:
    columns = left.columns
    if not all(kind is not None and is_groupable(kind) for kind in left.types.values()):
        raise Unplannable("NESTED_COLUMN")
    query = _set_operation_query(
        kind, trees.table("l", "l"), trees.table("r", "r"), columns, is_distinct
    )
    return PartitionedBlock(
        query,
        {"l": left, "r": right},
        {"l": columns, "r": columns},
        columns=columns,
        types=left.types,
        key=columns if is_distinct else None,
        kept={column: at for at, column in enumerate(columns)},
        required=left.required & right.required,
    )


def distinct_node(node: Node) -> PartitionedBlock:
    """DISTINCT: each row of a node once."""
    if not all(kind is not None and is_groupable(kind) for kind in node.types.values()):
        raise Unplannable("NESTED_COLUMN")
    query = exp.Select(
        expressions=[trees.with_alias(trees.column("r", name), name) for name in node.columns],
        distinct=exp.Distinct(),
    )
    query.set("from_", exp.From(this=trees.table("r", "r")))
    return PartitionedBlock(
        query,
        {"r": node},
        {"r": node.columns},
        columns=node.columns,
        types=node.types,
        key=node.columns,
        kept={column: at for at, column in enumerate(node.columns)},
        leading="r",
        required=node.required,
    )


def _set_operation_query(
    kind: type[exp.SetOperation],
    left: exp.Expr,
    right: exp.Expr,
    columns: tuple[str, ...],
    is_distinct: bool,
) -> exp.Query:
    parts = []
    for name, source in (("l", left), ("r", right)):
        items = [trees.with_alias(trees.column(name, column), column) for column in columns]
        part = exp.Select(expressions=items)
        part.set("from_", exp.From(this=source))
        parts.append(part)
    return kind(this=parts[0], expression=parts[1], distinct=is_distinct)


def _common_type(one: pa.DataType | None, other: pa.DataType | None) -> pa.DataType:
    found = None if one is None or other is None else common_type([one, other])
    if found is None:
        raise Unplannable("DIFFERENT_TYPES")
    return found


def _cast_columns(
    compiler: Compiler, block: Block, columns: list[str], kinds: list[pa.DataType]
) -> Node:
    """The block's columns in the types that they meet in."""
    from livingdb.derivation.compiler.flow import Flow

    flow = Flow(compiler.fresh_name, compiler.constants)
    relation = compiler.fresh_name()
    flow.add(relation, block.node)
    items = []
    for name, (_, column), kind in zip(columns, block.names, kinds, strict=True):
        item: exp.Expr = trees.column(relation, column)
        if block.node.types.get(column) != kind:
            item = exp.Cast(this=item, to=exp.DataType.build(spark_type_name(kind), "spark"))
        items.append((name, flow.substitute(item)))
    made = flow.project(items)
    if any(made.types.get(name) != kind for name, kind in zip(columns, kinds, strict=True)):
        raise Unplannable("DIFFERENT_TYPES")
    return made


def spark_type_name(kind: pa.DataType) -> str:
    """What Spark calls a type."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    names = {
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.int32(): "int",
        pa.int64(): "bigint",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.date32(): "date",
        pa.timestamp("us"): "timestamp_ntz",
        pa.timestamp("us", "UTC"): "timestamp",
        pa.string(): "string",
        pa.bool_(): "boolean",
        pa.binary(): "binary",
    }
    if kind not in names:
        raise Unplannable("DIFFERENT_TYPES")
    return names[kind]
