"""Values that a query makes are measured before they are made: DuckDB counts no texts and lists.

What computes a text or a list out of others may make far more of them than it is given, in 2,048
rows at a time, and none of that counts against `memory_limit` before all of it is there.  Each such
expression gets a condition before it: the bytes it makes at most, by the lengths of what it is made
of.  Where these are few, which is nearly always, that is all; where they are not, those of all rows
that are computed together are added up.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.embedded.size_bounds import Size, Sizing, call, double, is_growing, parts_of

__all__ = ["OVER_LIMIT", "VECTOR_ROWS", "are_too_large", "limit_value_sizes"]

VECTOR_ROWS = 2048
"""The rows that DuckDB computes together."""
OVER_LIMIT = "a value takes more than memory_limit"
"""What DuckDB's error says then."""
_LENGTH_BITS = 40
_LONG = 1 << 30
_FEW_TIMES = 8
_FEW_BYTES = 4096
"""How much is made of the columns of tables without being looked at."""


def are_too_large(sizes: pa.ChunkedArray, most: pa.ChunkedArray) -> pa.Array:
    """For each of the values that are computed together, whether they take too much together."""
    import pyarrow.compute as pc

    total = pc.sum(sizes).as_py()
    is_over = total is not None and total > most[0].as_py()
    return pa.repeat(pa.scalar(is_over), len(sizes))


def limit_value_sizes(query: exp.Query, most_bytes: int, *, of_tables: bool = True) -> None:
    """Let no expression of a query make more than so many bytes in the rows computed together.

    They share them; the query's tree is changed.  What makes of a table's rows no more than a few
    times as much is not looked at where the query reads tables as they are (`of_tables`).
    """
    roots, leaves = _growing_roots(query)
    if of_tables and _reads_tables(query):
        roots = _large_roots(roots, Sizing(leaves, query))
    share = max(most_bytes // max(len(roots), 1), 1)
    sizing = Sizing(leaves, query)
    for root in reversed(roots):  # the inner before the outer
        size = sizing.made(root)
        if not size.terms and size.constant * VECTOR_ROWS <= share:
            continue
        if size.terms and not isinstance(root.find_ancestor(exp.Lambda, exp.Query), exp.Lambda):
            _compute_late(root)
        place = _outside_of_try(root)
        checked = _check(size, share, is_of_rows=root.find(exp.Column) is not None)
        place.replace(checked)
        if size.terms or size.constant <= share:
            checked.set("default", place)
        sizing.leaves.add(id(checked))


def _reads_tables(query: exp.Query) -> bool:
    """Whether the columns of a query are those of tables, and nothing that it made itself."""
    sources = [source.this for source in query.find_all(exp.From, exp.Join)]
    is_single = len(list(query.find_all(exp.Query))) == 1
    makes_rows = query.find(exp.Lambda, exp.Lateral, exp.Explode) is not None
    are_tables = all(isinstance(each, exp.Table) and each.name for each in sources)
    return is_single and are_tables and not makes_rows


def _large_roots(roots: list[exp.Expr], sizing: Sizing) -> list[exp.Expr]:
    """Those that may make more than a few times, all together, of the columns of tables."""
    found, times, constant = [], 0, 0
    for root in roots:
        size = sizing.made(root)
        of_columns = all(
            isinstance(length, exp.Anonymous) and isinstance(length.expressions[0], exp.Column)
            for length in size.lengths
        )
        more = -(-(size.bound(_LONG) - size.constant) // _LONG)
        if not of_columns or times + more > _FEW_TIMES or constant + size.constant > _FEW_BYTES:
            found.append(root)
        else:
            times, constant = times + more, constant + size.constant
    return found


def _compute_late(root: exp.Expr) -> None:
    """Let what is made of no column be computed with the rows, and not before any check of it."""
    for node in list(root.walk()):
        if is_growing(node) and node.find(exp.Column) is None:
            given = next(iter(node.iter_expressions()))
            given.replace(_late(given.copy()))


def _outside_of_try(node: exp.Expr) -> exp.Expr:
    """Where a check stands whose failure is not taken for a null."""
    place, ancestor = node, node.parent
    while ancestor is not None and not isinstance(ancestor, (exp.Query, exp.Lambda)):
        if isinstance(ancestor, exp.TryCast):
            place = ancestor
        ancestor = ancestor.parent
    return place


def _check(size: Size, most_bytes: int, is_of_rows: bool) -> exp.Case:
    """An error for what is too large; what is to be computed otherwise is put into it.

    What `is_of_rows` is computed for each of them, also where all of it is as large.
    """
    added, most = size.expression(), exp.Literal.number(most_bytes)
    if is_of_rows and not size.terms:  # one number for all rows would be added up once
        nothing = exp.Mul(this=call("random"), expression=exp.Literal.number(0))
        added = exp.Add(this=added, expression=nothing)
    too_large = call("spark_too_large", double(added), double(most))
    error = call("error", exp.Literal.string(OVER_LIMIT))
    condition = exp.And(this=_is_large(size, most_bytes // VECTOR_ROWS), expression=too_large)
    return exp.Case(ifs=[exp.If(this=condition, true=error)])


def _is_large(size: Size, most_bytes: int) -> exp.Expr:
    """Whether a value may take more: one test for each length it comes of, cheaper than a sum."""
    most = -1
    for bit in reversed(range(_LENGTH_BITS)):
        if size.bound(most + (1 << bit)) <= most_bytes:
            most += 1 << bit
    if most < 0 or not size.lengths:
        return exp.true()
    tests = [
        exp.GT(this=length.copy(), expression=exp.Literal.number(most))
        for length in dict.fromkeys(size.lengths)
    ]
    return exp.Paren(this=exp.or_(*tests, copy=False))


def _late(node: exp.Expr) -> exp.Expr:
    """What is computed with the rows although it is the same in all of them."""
    is_now = exp.GTE(this=call("random"), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=is_now, true=node)])


# --- where ----------------------------------------------------------------------------------------


def _growing_roots(query: exp.Query) -> tuple[list[exp.Expr], set[int]]:
    """The outermost expressions that may grow, outer before inner; and what is measured whole.

    The keys of groups are measured whole: of what they are made of nothing is left after them.
    """
    roots: list[exp.Expr] = []
    leaves: set[int] = set()
    pending: list[tuple[exp.Expr, bool, frozenset[exp.Expr]]] = [(query, False, frozenset())]
    while pending:
        node, is_covered, keys = pending.pop()
        if isinstance(node, exp.Query):
            is_covered, keys = False, _keys(node)
        elif keys and node in keys:
            is_covered = False
            leaves.add(id(node))
        if is_growing(node) and not is_covered:
            roots.append(node)
            is_covered = True
        measured = {id(part) for part in parts_of(node)} if is_covered else ()
        for child in node.iter_expressions():
            pending.append((child, id(child) in measured, keys))
    return roots, leaves


def _keys(query: exp.Query) -> frozenset[exp.Expr]:
    """What rows are grouped by, but for columns."""
    group = query.args.get("group")
    if group is None:
        return frozenset()
    items = [item.unalias() for item in query.expressions]
    named = {item.alias: item.this for item in query.expressions if isinstance(item, exp.Alias)}
    found = items if group.args.get("all") else []
    for key in group.find_all(exp.Expression):
        if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.name) <= len(items):
            found.append(items[int(key.name) - 1])
        elif isinstance(key, exp.Column) and key.name in named:
            found.append(named[key.name])
        elif isinstance(key.parent, (exp.Group, exp.Tuple, exp.Paren, exp.Cube, exp.Rollup)):
            found.append(key)
    return frozenset(key for key in found if not isinstance(key, (exp.Column, exp.Literal)))
