"""From a query to stages: each query block becomes a node, and some nodes stages of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.compiler.name_resolution import Scope, UnknownColumn
from livingdb.derivation.operators import stage as stages
from livingdb.derivation.operators.linear_block import LinearBlock
from livingdb.derivation.operators.node import Leaf, Node
from livingdb.derivation.operators.stored_node import StoredNode
from livingdb.derivation.plan import Ask, Input, Stage, Unplannable
from livingdb.engines.portable.portability import PortableQuery, check_portability
from livingdb.errors import NotFound
from livingdb.graph.names import is_hidden

__all__ = ["Block", "Compiler", "Environment"]


@dataclass(frozen=True)
class Block:
    """A node, and its columns by the names the query gives them, in order."""

    node: Node
    names: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Environment:
    """The names of WITH clauses that a query sees, by their lower-case names.

    `clauses` are their texts, in order, for queries that are answered in full.
    """

    blocks: Mapping[str, Block] = field(default_factory=dict)
    clauses: tuple[exp.CTE, ...] = ()


class Compiler:
    """Makes the stages of one plan."""

    def __init__(self, tables: Mapping[str, Input]):
        self.tables = {name.casefold(): (name, given) for name, given in tables.items()}
        self.stages: list[Stage] = []
        self.stage_nodes: dict[str, Node | StoredNode] = {}
        self.leaves: dict[str, Leaf] = {}
        self.notes: list[tuple[str, str, str | None]] = []
        self.constants: dict[str, Leaf] = {}
        self._count = 0

    def fresh_name(self) -> str:
        """A name for a relation that no other has."""
        self._count += 1
        return f"t{self._count}"

    def note(self, construct: str, strategy: str, reason: str | None = None) -> None:
        """Remember how a construct is maintained."""
        entry = (construct, strategy, reason)
        if entry not in self.notes:
            self.notes.append(entry)

    # --- queries --------------------------------------------------------------------------------

    def compile_query(
        self, tree: exp.Expr, around: Environment, outer: Scope | None = None
    ) -> Block:
        """A query as a block.  What cannot be maintained is a stage that is answered in full."""
        mark = len(self.stages), len(self.notes)
        try:
            return self._compile_query(tree, around, outer)
        except UnknownColumn:
            del self.stages[mark[0] :], self.notes[mark[1] :]
            if outer is not None or not _is_uncorrelated(tree):
                raise
            return self.compile_in_full(tree, around, "UNKNOWN_COLUMN")
        except Unplannable as refusal:
            if outer is not None or not _is_uncorrelated(tree):
                raise
            del self.stages[mark[0] :], self.notes[mark[1] :]
            return self.compile_in_full(tree, around, refusal.code)

    def _compile_query(self, tree: exp.Expr, around: Environment, outer: Scope | None) -> Block:
        from livingdb.derivation.compiler.select_clauses import SelectCompiler
        from livingdb.derivation.compiler.set_operations import compile_set_operation

        around = self._add_ctes(tree, around)
        if isinstance(tree, exp.Subquery):
            plain = {"this", "with_", "alias"}
            if any(value and key not in plain for key, value in tree.args.items()):
                raise Unplannable("UNSUPPORTED_CLAUSE")
            return self._compile_query(tree.this, around, outer)
        if isinstance(tree, exp.SetOperation):
            return compile_set_operation(self, tree, around)
        if isinstance(tree, exp.Select):
            return SelectCompiler(self, tree, around, outer).build_block()
        raise Unplannable("UNSUPPORTED_QUERY")

    def _add_ctes(self, tree: exp.Expr, around: Environment) -> Environment:
        clause = tree.args.get("with_")
        if clause is None:
            return around
        if clause.args.get("recursive"):
            raise Unplannable("RECURSIVE")
        for part in clause.expressions:
            block = _rename_columns(self.compile_query(part.this, around), part.args.get("alias"))
            blocks = {**around.blocks, part.alias.casefold(): block}
            around = Environment(blocks, (*around.clauses, part))
        return around

    def relation(self, tree: exp.Expr, around: Environment) -> tuple[str, Block]:
        """Something in FROM: what the query calls it, and its block."""
        alias = tree.args.get("alias")
        if isinstance(tree, exp.Table):
            parts = {"this", "alias"}
            if any(value and key not in parts for key, value in tree.args.items()):
                raise Unplannable("UNSUPPORTED_CLAUSE")
            if not isinstance(tree.this, exp.Identifier):
                raise Unplannable("TABLE_FUNCTION")
            block = around.blocks.get(tree.name.casefold()) or self._table(tree.name)
        elif isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Query):
            if any(v and k not in ("this", "alias", "with_") for k, v in tree.args.items()):
                raise Unplannable("UNSUPPORTED_CLAUSE")
            block = self.compile_query(tree.this, self._add_ctes(tree, around))
        else:
            code = "VALUES" if isinstance(tree, exp.Values) else "UNSUPPORTED_RELATION"
            raise Unplannable(code)
        return tree.alias_or_name.casefold(), _rename_columns(block, alias)

    def _table(self, name: str) -> Block:
        leaf = self.leaf(name)
        return Block(leaf, [(column, column) for column in leaf.columns])

    def leaf(self, name: str) -> Leaf:
        """A table by its name."""
        found = self.tables.get(name.casefold())
        if found is None:
            raise NotFound(f"there is no table {name!r}")
        shown, given = found
        if shown not in self.leaves:
            types = {column.name: column.type for column in given.schema}
            required = frozenset(column.name for column in given.schema if not column.nullable)
            self.leaves[shown] = Leaf(shown, types, given.key, required)
        return self.leaves[shown]

    # --- stages ---------------------------------------------------------------------------------

    def add_stage(self, node: Node | StoredNode, key: tuple[str, ...] | None = None) -> Leaf:
        """A node as a stage of its own, which later stages read."""
        if isinstance(node, Leaf):
            return node
        name = f"~{len(self.stages) + 1}"
        stage = stages.build_stage(name, node, node.key if key is None else key)
        self.stage_nodes[name] = node
        is_single = isinstance(node, StoredNode) and node.is_global
        return self._append_stage(stage, node.types, node.columns, () if is_single else stage.key)

    def full_source(self, node: Node, alias: str) -> tuple[exp.Expr, list[Leaf]]:
        """A node to be read as a whole: as a stage of its own, if it is not made of stages only."""
        leaves = [part for part in node.parts() if isinstance(part, Leaf)]
        if isinstance(node, LinearBlock) and all(is_hidden(leaf.name) for leaf in leaves):
            named = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
            return exp.Subquery(this=node.full_query(), alias=named), leaves
        leaf = self.add_stage(node)
        return trees.table(leaf.name, alias), [leaf]

    def _append_stage(
        self,
        stage: Stage,
        types: Mapping[str, pa.DataType | None],
        columns: Sequence[str],
        key: tuple[str, ...] | None,
    ) -> Leaf:
        self.stages.append(stage)
        return Leaf(stage.name, {column: types.get(column) for column in columns}, key)

    def add_full_stage(
        self,
        query: exp.Query,
        reads: Sequence[Leaf],
        columns: Sequence[str],
        key: tuple[str, ...] | None,
        reason: str,
    ) -> Leaf:
        """A stage that is answered in full, over tables and other stages."""
        schemas = {
            leaf.name: pa.schema([(n, kind or pa.null()) for n, kind in leaf.types.items()])
            for leaf in reads
        }
        known = check_portability(query.copy(), schemas)
        found: dict[str, pa.DataType | None] = dict.fromkeys(columns)
        if isinstance(known, PortableQuery):
            found = dict(zip(columns, (kind for _, kind in known.columns), strict=True))
        names = tuple(dict.fromkeys(leaf.name for leaf in reads))
        used = {
            leaf.name: trees.mentioned_columns(query, leaf.columns)
            for leaf in reads
            if not is_hidden(leaf.name)
        }
        name = f"~{len(self.stages) + 1}"
        ask = Ask(query, names)
        stage = Stage(name, ask, key, names, "full", reason, used, None)
        return self._append_stage(stage, found, columns, key)

    def compile_in_full(self, tree: exp.Expr, around: Environment, reason: str) -> Block:
        """A query as a stage that is answered as it is written."""
        from livingdb.derivation.compiler.full_query import build_full_query

        query, columns, reads = build_full_query(self, tree, around)
        self.note(_construct(reason), "full", reason)
        leaf = self.add_full_stage(query, reads, columns, None, reason)
        return Block(leaf, [(column, column) for column in columns])


def _construct(reason: str) -> str:
    """The construct a reason is about, in words."""
    return reason.lower().replace("_", " ")


def _is_uncorrelated(tree: exp.Expr) -> bool:
    """Whether a query cannot depend on rows of one around it."""
    parent = tree.parent
    while isinstance(parent, (exp.Subquery, exp.SetOperation)):
        if isinstance(parent.parent, (exp.From, exp.Join)):
            return True
        parent = parent.parent
    return parent is None or isinstance(parent, (exp.From, exp.Join, exp.CTE))


def _rename_columns(block: Block, alias: exp.Expr | None) -> Block:
    names = [name.name for name in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return block
    if len(names) != len(block.names):
        raise Unplannable("WRONG_ALIAS")
    return Block(
        block.node, [(name, column) for name, (_, column) in zip(names, block.names, strict=True)]
    )
