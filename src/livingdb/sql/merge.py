"""MERGE INTO: one join decides for every row which clause applies; the first that does wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.embedded.session import Session
from livingdb.engines.unquoted_text import ASSIGNED, BARE
from livingdb.errors import InvalidData
from livingdb.sql.row_statements import StatementWriter, Target, check_parts, known_column
from livingdb.sql.update import assigned_values
from livingdb.tables.schema import Column

__all__ = ["merge"]

_SOURCE = "livingdb_source"
_CLAUSE = "livingdb_clause"


@dataclass(frozen=True)
class _Clause:
    """What one WHEN does: `values` are the columns it sets or inserts."""

    kind: str
    action: str
    condition: exp.Expr | None
    values: dict[str, exp.Expr] = field(default_factory=dict)


def merge(changes: StatementWriter, tree: exp.Merge) -> None:
    """Update, delete and insert rows of the target as the clauses say."""
    takes = "MERGE takes INTO, USING, ON and WHEN, and returns no rows"
    check_parts(tree, ("this", "using", "on", "whens", "with_"), takes)
    target = changes.target(tree.this)
    source = tree.args["using"]
    called = source.alias_or_name
    if not called:
        raise InvalidData("the source of a MERGE needs a name: USING (…) AS source")
    names = _source_names(changes, tree)
    clauses = [_clause(item, target, called, names) for item in tree.args["whens"].expressions]
    rows = changes.planner.run(_query(tree, target, called, clauses))
    with Session() as session:
        staged = session.register(rows)
        _check_cardinality(session, target, clauses, staged)
        _apply(changes, session, target, clauses, staged)


def _source_names(changes: StatementWriter, tree: exp.Merge) -> list[str]:
    """The columns of the source, where a clause says `*`."""
    if not any(when.find(exp.Star) for when in tree.args["whens"].expressions):
        return []
    query = exp.select("*").from_(tree.args["using"].copy()).limit(0)
    return list(changes.planner.run(_with_ctes(tree, query)).column_names)


def _with_ctes(tree: exp.Merge, query: exp.Select) -> exp.Select:
    clause = tree.args.get("with_")
    if clause is not None:
        query.set("with_", clause.copy())
    return query


# --- clauses --------------------------------------------------------------------------------


def _clause(item: exp.When, target: Target, called: str, names: Sequence[str]) -> _Clause:
    kind = "matched"
    if not item.args.get("matched"):
        kind = "source missing" if item.args.get("source") else "target missing"
    home = {"matched": None, "source missing": target.alias, "target missing": called}[kind]
    condition = item.args.get("condition")
    then = item.args["then"]
    values: dict[str, exp.Expr] = {}
    action = "delete"
    if isinstance(then, exp.Update):
        action, values = "update", _update_values(then, target, called, names)
    elif isinstance(then, exp.Insert):
        action, values = "insert", _insert_values(then, target, called, names)
    if (action == "insert") != (kind == "target missing"):
        raise InvalidData(f"WHEN {_clause_words(kind)} cannot {action.upper()}")
    values = {name: _qualify_columns(value, home) for name, value in values.items()}
    return _Clause(kind, action, condition and _qualify_columns(condition, home), values)


def _clause_words(kind: str) -> str:
    return {"matched": "MATCHED", "target missing": "NOT MATCHED"}.get(
        kind, "NOT MATCHED BY SOURCE"
    )


def _qualify_columns(value: exp.Expr, home: str | None) -> exp.Expr:
    """The expression with columns that name no table taken from the only one there is."""
    value = value.copy()
    columns = [value] if isinstance(value, exp.Column) else list(value.find_all(exp.Column))
    for column in columns if home is not None else ():
        if not column.table and column.find_ancestor(exp.Query) is None:
            column.set("table", exp.to_identifier(home, quoted=True))
            column.meta[BARE] = True
    return value


def _update_values(
    then: exp.Update, target: Target, called: str, names: Sequence[str]
) -> dict[str, exp.Expr]:
    if any(isinstance(item, exp.Star) for item in then.expressions):
        return _star_values(target, called, names, "UPDATE SET *")
    return assigned_values(target, then.expressions)


def _insert_values(
    then: exp.Insert, target: Target, called: str, names: Sequence[str]
) -> dict[str, exp.Expr]:
    if isinstance(then.this, exp.Star):
        return _star_values(target, called, names, "INSERT *")
    columns = list(target.schema.columns)
    if then.this is not None:
        columns = [known_column(target, item.name) for item in then.this.expressions]
    given = then.expression.expressions
    if len(given) != len(columns):
        raise InvalidData(f"INSERT has {len(given)} values for {len(columns)} columns")
    pairs = zip(columns, given, strict=True)
    return {column.name: target.value(column, value) for column, value in pairs}


def _star_values(
    target: Target, called: str, names: Sequence[str], what: str
) -> dict[str, exp.Expr]:
    by_name = {name.casefold(): name for name in names}
    values: dict[str, exp.Expr] = {}
    for column in target.schema.columns:
        found = by_name.get(column.name.casefold())
        if found is None:
            raise InvalidData(f"{what}: the source has no column {column.name!r}")
        values[column.name] = exp.column(found, table=called, quoted=True)
    return values


# --- the join -------------------------------------------------------------------------------


def _query(tree: exp.Merge, target: Target, called: str, clauses: Sequence[_Clause]) -> exp.Select:
    """Per pair of rows: the clause that applies, the key, and the values of that clause."""
    in_target = exp.Not(this=exp.Is(this=target.column_node(target.key[0]), expression=exp.null()))
    in_source = exp.column(_SOURCE, table=called, quoted=True)
    both = exp.and_(in_target, in_source)
    chosen = exp.Case().when(both, _first_clause_number(clauses, "matched"))
    chosen = chosen.when(in_source, _first_clause_number(clauses, "target missing"))
    chosen = chosen.else_(_first_clause_number(clauses, "source missing"))
    items: list[exp.Expr] = [chosen.as_(_CLAUSE), both.as_("matched")]
    items += [target.column_node(column).as_(f"k{at}") for at, column in enumerate(target.key)]
    for number, clause in enumerate(clauses):
        applies = chosen.copy().eq(number)
        for at, value in enumerate(_row_values(target, clause)):
            items.append(exp.Case().when(applies, value).as_(f"{ASSIGNED}{number}_{at}"))
    marked = exp.select("*", exp.true().as_(_SOURCE)).from_(tree.args["using"].copy())
    query = exp.select(*items).from_(marked.subquery(exp.to_identifier(called, quoted=True)))
    query = query.join(
        target.table.copy(), on=tree.args["on"].copy(), join_type=_join_type(clauses)
    )
    return _with_ctes(tree, query)


def _first_clause_number(clauses: Sequence[_Clause], kind: str) -> exp.Expr:
    """The number of the first clause of a kind whose condition holds; null if none does."""
    numbered = [(n, clause) for n, clause in enumerate(clauses) if clause.kind == kind]
    if not numbered:
        return exp.null()
    chosen = exp.Case()
    for number, clause in numbered:
        condition = exp.true() if clause.condition is None else clause.condition
        chosen = chosen.when(condition, exp.Literal.number(number))
    return chosen


def _row_values(target: Target, clause: _Clause) -> list[exp.Expr]:
    """The values in the order of `_clause_columns`."""
    return [
        clause.values[column.name] if column.name in clause.values else target.column_node(column)
        for column in _clause_columns(target, clause)
    ]


def _clause_columns(target: Target, clause: _Clause) -> list[Column]:
    """The columns a clause gives: whole rows where an update may move a row to another key."""
    if clause.action == "update" and target.can_change_key(clause.values):
        return list(target.schema.columns)
    return [target.column(name) for name in clause.values]


def _join_type(clauses: Sequence[_Clause]) -> str:
    kinds = {clause.kind for clause in clauses}
    left, right = "target missing" in kinds, "source missing" in kinds
    return {(True, True): "FULL", (True, False): "LEFT", (False, True): "RIGHT"}.get(
        (left, right), "INNER"
    )


# --- the outcome ----------------------------------------------------------------------------


def _check_cardinality(
    session: Session, target: Target, clauses: Sequence[_Clause], staged: str
) -> None:
    """`InvalidData` if a row of the target has two rows of the source."""
    matched = [clause for clause in clauses if clause.kind == "matched"]
    only_deletes = len(matched) == 1 and matched[0].action == "delete" and not matched[0].condition
    if not matched or only_deletes:
        return
    keys = ", ".join(f"k{at}" for at in range(len(target.key)))
    found = session.query(
        f"SELECT {keys} FROM {staged} WHERE matched GROUP BY {keys} HAVING count(*) > 1 LIMIT 1", {}
    )
    if found.num_rows:
        values = [column[0].as_py() for column in found.columns]
        shown = dict(zip(target.schema.key, values, strict=True))
        raise InvalidData(f"the row {shown} of {target.name!r} matches several rows of the source")


def _apply(
    changes: StatementWriter,
    session: Session,
    target: Target,
    clauses: Sequence[_Clause],
    staged: str,
) -> None:
    """Removes rows first, so that a key set free can be taken again."""
    keys = [f"k{at}" for at in range(len(target.key))]
    later: list[Callable[[], None]] = []

    def rows(number: int, names: Sequence[str], columns: Sequence[Column]) -> pa.Table:
        text = f"SELECT {', '.join(names)} FROM {staged} WHERE {_CLAUSE} = {number}"
        return changes.assigned_rows(session.query(text, {}), columns)

    for number, clause in enumerate(clauses):
        columns = _clause_columns(target, clause)
        values = [f"{ASSIGNED}{number}_{at}" for at in range(len(columns))]
        if clause.action == "delete":
            gone = rows(number, ["DISTINCT " + keys[0], *keys[1:]], target.key)
            changes.delete(target, gone)
        elif clause.action == "update":
            new = rows(number, [*keys, *values], [*target.key, *columns])
            later.insert(0, changes.update_columns(target, new, clause.values))
        else:
            added = rows(number, values, columns)
            later.append(lambda added=added: changes.insert(target, added))  # type: ignore[misc]
    for step in later:
        step()
