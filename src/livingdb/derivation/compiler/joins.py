"""Joins: inner joins gather in the flow; outer, semi and anti joins are recomputed for touched join
keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.compiler.flow import Flow
from livingdb.derivation.compiler.name_resolution import VisibleRelation
from livingdb.derivation.operators.node import Node
from livingdb.derivation.operators.partitioned_block import PartitionedBlock
from livingdb.derivation.operators.value_lookups import is_comparable
from livingdb.derivation.plan import Unplannable

if TYPE_CHECKING:
    from livingdb.derivation.compiler.select_clauses import SelectCompiler

__all__ = ["EqualPair", "JoinedRelation", "equal_pairs", "join_all"]

_OUTER = {"LEFT": "left join", "RIGHT": "right join", "FULL": "full join"}


@dataclass
class JoinedRelation:
    """A relation in FROM and how it is joined to those before it."""

    relation: str
    node: Node | None
    side: str = ""
    kind: str = ""
    on: list[exp.Expr] = field(default_factory=list)
    lateral: exp.Expr | None = None

    def resolve_condition(
        self, selecting: SelectCompiler, join: exp.Join, seen: VisibleRelation
    ) -> None:
        """What the join says, in resolved names."""
        plain = {"this", "side", "kind", "on", "using", "method"}
        if any(value and key not in plain for key, value in join.args.items()):
            raise Unplannable("UNSUPPORTED_CLAUSE")
        self.side, self.kind = join.side.upper(), join.kind.upper()
        if self.kind in ("SEMI", "ANTI"):
            self.side = ""
        if self.kind in ("INNER", "CROSS", "OUTER"):
            self.kind = ""
        if self.kind not in ("", "SEMI", "ANTI") or self.side not in ("", *_OUTER):
            raise Unplannable("UNSUPPORTED_JOIN")
        if join.method and join.method.upper() != "NATURAL":
            raise Unplannable("UNSUPPORTED_JOIN")
        scope = selecting.scope
        if self.side in ("RIGHT", "FULL") and any(
            not other.side and not other.kind and not other.on
            for other in selecting.joined_relations[1:]
        ):
            raise Unplannable("UNSUPPORTED_JOIN")
        using = [name.name for name in join.args.get("using") or ()]
        if join.method:
            mine = {name.casefold() for name, _ in seen.columns}
            using = [name for name, _ in scope.star() if name.casefold() in mine]
        if using:
            self._apply_using(selecting, using, seen)
            return
        scope.seen.append(seen)
        self.on = [selecting.resolve(part) for part in trees.conjuncts(join.args.get("on"))]
        scope.seen.pop()

    def _apply_using(
        self, selecting: SelectCompiler, names: Sequence[str], seen: VisibleRelation
    ) -> None:
        scope = selecting.scope
        for name in names:
            folded = name.casefold()
            left, right = scope.plain(folded), seen.column(folded)
            if left is None or right is None:
                raise Unplannable("UNKNOWN_COLUMN")
            self.on.append(exp.EQ(this=left.copy(), expression=right.copy()))
            merged: exp.Expr = left
            if self.side == "RIGHT":
                merged = right
            elif self.side == "FULL":
                merged = exp.Coalesce(this=left, expressions=[right])
            if self.kind not in ("SEMI", "ANTI"):
                scope.merged[folded] = merged


@dataclass(frozen=True)
class EqualPair:
    """Two expressions that are equal: of rows on one side and of rows on the other."""

    left: exp.Expr
    right: exp.Expr


def join_all(selecting: SelectCompiler, later: list[exp.Expr]) -> None:
    """Bring all relations of FROM into the flow."""
    flow, waiting = selecting.flow, list(selecting.joined_relations)
    later = [*later, *selecting.conditions, *selecting.subqueries.outer_expressions()]
    while waiting:
        joined = waiting.pop(0)
        rest = [*later, *(part for other in waiting for part in other.on)]
        rest += [other.lateral for other in waiting if other.lateral is not None]
        if joined.lateral is not None:
            if not flow.laterals and (flow.conditions or len(flow.sources) > 1):
                flow.reopen(flow.close([*rest, joined.lateral]))
            flow.laterals.append(flow.substitute(joined.lateral))
            selecting.compiler.note("lateral view", "linear")
        elif joined.side or joined.kind:
            _apply_outer_join(selecting, joined, rest)
        else:
            assert joined.node is not None
            flow.add(joined.relation, joined.node)
            for condition in joined.on:
                if selecting.subqueries.placeholders_in(condition):
                    raise Unplannable("SUBQUERY_IN_JOIN")
                flow.where(condition)
            if len(selecting.joined_relations) > 1 and joined is not selecting.joined_relations[0]:
                selecting.compiler.note("join", "join")


def equal_pairs(
    conditions: Sequence[exp.Expr], left: set[str], right: set[str]
) -> tuple[list[EqualPair], list[exp.Expr]]:
    """The equalities between two sides among conditions, and the other conditions."""
    pairs, rest = [], []
    for condition in conditions:
        sides = []
        if isinstance(condition, (exp.EQ, exp.NullSafeEQ)):
            for one, other in (
                (condition.this, condition.expression),
                (condition.expression, condition.this),
            ):
                mine = {name for name, _ in trees.columns_in(one)}
                theirs = {name for name, _ in trees.columns_in(other)}
                if mine and theirs and mine <= left and theirs <= right:
                    sides.append(EqualPair(one, other))
        if sides:
            pairs.append(sides[0])
        else:
            rest.append(condition)
    return pairs, rest


def _apply_outer_join(
    selecting: SelectCompiler, joined: JoinedRelation, later: list[exp.Expr]
) -> None:
    """An outer, semi or anti join as a block of its own."""
    flow, compiler = selecting.flow, selecting.compiler
    other = Flow(compiler.fresh_name, compiler.constants)
    assert joined.node is not None
    other.add(joined.relation, joined.node)
    if any(condition.find(exp.Placeholder, exp.Query) for condition in joined.on):
        raise Unplannable("SUBQUERY_IN_JOIN")
    if flow.laterals:
        flow.reopen(flow.close([*later, *joined.on]))
    mine, theirs = (flow, other) if joined.side != "RIGHT" else (other, flow)
    on = [theirs.substitute(mine.substitute(condition)) for condition in joined.on]
    node = joined_node(joined.side, joined.kind, mine, theirs, on, later)
    for place, made in other.places.items():
        flow.places.setdefault(place, made)
    flow.reopen(node)
    what = _OUTER.get(joined.side, f"{joined.kind.lower()} join")
    compiler.note(what, "touched")


def joined_node(
    side: str,
    kind: str,
    mine: Flow,
    theirs: Flow,
    on: Sequence[exp.Expr],
    later: Sequence[exp.Expr],
) -> PartitionedBlock:
    """The block of a join whose first side leads (FULL: neither does)."""
    pairs, _ = equal_pairs(on, set(mine.sources), set(theirs.sources))
    left_keys = [(f"k_{at}", pair.left) for at, pair in enumerate(pairs)]
    right_keys = [(f"k_{at}", pair.right) for at, pair in enumerate(pairs)]
    left = mine.close([*later, *on], left_keys, settled=side == "FULL")
    right = theirs.close([*on, *(() if kind else later)], right_keys, settled=not kind)
    usable = [
        at
        for at in range(len(pairs))
        if is_comparable(left.types.get(f"k_{at}"), right.types.get(f"k_{at}"))
    ]
    if not usable:
        raise Unplannable("JOIN_KEY_TYPES" if pairs else "OUTER_JOIN_WITHOUT_EQUALITY")
    by = {"l": [f"k_{at}" for at in usable], "r": [f"k_{at}" for at in usable]}
    shown: dict[str, tuple[str, str]] = {}
    for name, block in (("l", left), ("r", right)):
        if name == "r" and kind:
            continue
        shown |= {column: (name, column) for column in block.columns if column[:2] != "k_"}
    if not shown:
        shown["t0_k"] = ("l", "k_0")
    query = exp.Select(
        expressions=[trees.with_alias(trees.column(*place), name) for name, place in shown.items()]
    )
    query.set("from_", exp.From(this=trees.table("l", "l")))
    condition = trees.and_all([_block_condition(part, mine, theirs) for part in on])
    word = {"side": "FULL", "kind": "OUTER"} if side == "FULL" else {"side": "LEFT", "kind": kind}
    query.append("joins", exp.Join(this=trees.table("r", "r"), on=condition, **word))
    types = trees.column_types(query, {"l": left.types, "r": right.types})
    leading = None if side == "FULL" else "l"
    kept: dict[str, int] = {}
    if leading:
        for at, number in enumerate(usable):
            for name, (source, column) in shown.items():
                same = _item(left, column) == _item(left, f"k_{number}")
                if source == "l" and same:
                    kept[name] = at
    required = frozenset(
        name
        for name, (source, column) in shown.items()
        if leading and source == "l" and column in left.required
    )
    whole = set(right.key or ()) <= _equal_columns(right, usable) and right.key is not None
    return PartitionedBlock(
        query,
        {"l": left, "r": right},
        by,
        columns=list(shown),
        types=types,
        key=_key(left, right, bool(kind), whole and leading is not None, set(shown)),
        kept=kept,
        origin=shown,
        leading=leading,
        by_row=leading is not None,
        required=required,
        constants=mine.constants,
    )


def _item(node: Node, column: str) -> exp.Expr | None:
    return dict(getattr(node, "projections", ())).get(column)


def _equal_columns(right: Node, usable: Sequence[int]) -> set[str]:
    """The columns of the other side that the join makes equal to one of this side."""
    keys = [_item(right, f"k_{number}") for number in usable]
    return {column for column in right.columns if _item(right, column) in keys}


def _key(
    left: Node, right: Node, is_filter: bool, is_lookup: bool, shown: set[str]
) -> tuple[str, ...] | None:
    """What identifies a row: the key of this side, and of the other if it adds rows."""
    if left.key is None or (right.key is None and not is_filter):
        return None
    found = left.key if is_filter or is_lookup else (*left.key, *(right.key or ()))
    return found if set(found) <= shown else None


def _block_condition(condition: exp.Expr, mine: Flow, theirs: Flow) -> exp.Expr:
    """A condition over the columns of the two blocks."""
    made = condition.copy()
    root = exp.Paren(this=made)
    for node in list(root.find_all(exp.Column)):
        for name, flow in (("l", mine), ("r", theirs)):
            if node.table in flow.sources:
                node.replace(trees.column(name, f"{node.table}_{node.name}"))
                break
    return trees.unwrap(root)
