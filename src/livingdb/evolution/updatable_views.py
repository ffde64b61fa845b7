"""Views that can be written: those whose query is made of schema changes that work both ways."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from livingdb.errors import IllegalSync, InvalidData
from livingdb.evolution.changes.constraints import DropConstraint
from livingdb.evolution.changes.drop_column import DropColumn
from livingdb.evolution.changes.join_tables import JoinTables
from livingdb.evolution.changes.rename_column import RenameColumn
from livingdb.evolution.changes.split_table import SplitTable
from livingdb.evolution.changes.tables import DropTable, RenameTable
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.graph import Graph, missing_table_error, tables_of
from livingdb.sql.parse import parse_statement
from livingdb.tables.schema import TableSchema

__all__ = ["changes_for"]

_ALLOWED = {"expressions", "from_", "where", "joins", "kind"}
_REST = "livingdb_rest"


def changes_for(graph: Graph, branch: str, name: str, sql: str) -> list[SchemaChange]:
    """The changes that make a view of the tables of a branch; `IllegalSync` says why none do."""
    tree = parse_statement(sql)
    if not isinstance(tree, exp.Select):
        raise _refusal("only a plain SELECT of one table can be")
    for part, value in tree.args.items():
        if value and part not in _ALLOWED:
            raise _refusal(f"{part.strip('_').upper()} cannot be undone")
    tables = tables_of(graph, graph.snapshots.at(graph.branch(branch).head))
    schemas = {table: graph.versions.definition(v).schema for table, v in tables.items()}
    base = _table(tree.args["from_"].this, schemas)
    changes: list[SchemaChange] = []
    joined = tree.args.get("joins") or []
    keep, schema = {base}, schemas[base]
    aliases = {_relation_alias(tree.args["from_"].this): base}
    names = {(base, column.name): column.name for column in schema.columns}
    if joined:
        change, right = _parse_join(joined, base, schemas, aliases)
        keep.add(right)
        changes.append(change)
        names |= {(right, c.name): c.name for c in schemas[right].columns}
        names[right, schemas[right].key[0]] = ""
        names[base, str(change.on)] = ""
        columns = [n for n in names.values() if n]
    else:
        columns = [column.name for column in schema.columns]
    wanted = _output_columns(tree, aliases, names, columns)
    where = tree.args.get("where")
    if where is not None:
        text = _rewrite_condition(where.this, aliases, names)
        into = {name: f"coalesce({text}, false)", _REST: f"NOT coalesce({text}, false)"}
        changes += [SplitTable(base, into, strict=True), DropTable(_REST)]
    elif name != base:
        changes.append(RenameTable(base, name))
    key = [names[base, column] for column in schema.key]
    for column in key:
        if column not in wanted:
            raise _refusal(f"the key column {column!r} is not in it")
    changes += [DropColumn(name, column) for column in columns if column not in wanted]
    changes += [RenameColumn(name, column, to) for column, to in wanted.items() if column != to]
    return [*_drop_others(schemas, keep), *changes]


def _refusal(why: str) -> IllegalSync:
    return IllegalSync(
        f"sync='both': the view cannot be written, because {why}; a view that can keeps the key, "
        "some columns under any names, and the rows for which a condition holds; sync='forward' "
        "takes any query"
    )


def _table(node: exp.Expr, schemas: Mapping[str, TableSchema]) -> str:
    if not isinstance(node, exp.Table) or node.db or node.args.get("version"):
        raise _refusal("it reads something else than a table of its branch")
    for name in (node.name, *(n for n in schemas if n.casefold() == node.name.casefold())):
        if name in schemas:
            return name
    raise missing_table_error(node.name, dict.fromkeys(schemas))  # type: ignore[arg-type]


def _relation_alias(node: exp.Expr) -> str:
    return str(node.alias_or_name).casefold()


def _parse_join(
    joins: list[exp.Join],
    base: str,
    schemas: Mapping[str, TableSchema],
    aliases: dict[str, str],
) -> tuple[JoinTables, str]:
    """The join over a foreign key that a clause says."""
    if len(joins) > 1:
        raise _refusal("it joins more than two tables")
    (join,) = joins
    if str(join.side).upper() != "LEFT":
        raise _refusal("a row without its other half would be lost: LEFT JOIN keeps it")
    right = _table(join.this, schemas)
    aliases[_relation_alias(join.this)] = right
    condition = join.args.get("on")
    if isinstance(condition, exp.EQ):
        sides = {}
        for side in (condition.this, condition.expression):
            if isinstance(side, exp.Column):
                sides[aliases.get(side.table.casefold(), "")] = side.name
        on = sides.get(base)
        key = schemas[right].key
        is_link = on is not None and (on, right) in schemas[base].foreign_keys
        if is_link and len(key) == 1 and sides.get(right) == key[0]:
            return JoinTables(base, right, base, on), right
    raise _refusal("the join is not over a foreign key")


def _output_columns(
    tree: exp.Select,
    aliases: Mapping[str, str],
    names: Mapping[tuple[str, str], str],
    columns: list[str],
) -> dict[str, str]:
    """The columns the view has, and what it calls them."""
    wanted: dict[str, str] = {}
    for item in tree.expressions:
        if isinstance(item, exp.Star):
            wanted.update({column: column for column in columns})
            continue
        column = item.this if isinstance(item, exp.Alias) else item
        if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
            raise _refusal(f"{item.sql('spark')!r} is computed")
        wanted[_joined_name(column, aliases, names)] = item.alias_or_name
    if len(set(wanted.values())) < len(wanted):
        raise InvalidData("two columns of the view have one name")
    return wanted


def _joined_name(
    column: exp.Column, aliases: Mapping[str, str], names: Mapping[tuple[str, str], str]
) -> str:
    """What a column is called once the tables are joined."""
    tables = [aliases.get(column.table.casefold(), "")] if column.table else aliases.values()
    for table in tables:
        for (of, known), now in names.items():
            if of == table and known.casefold() == column.name.casefold():
                if not now:
                    raise _refusal(f"the join takes the place of {column.name!r}")
                return now
    raise InvalidData(f"there is no column {column.sql('spark')!r}")


def _rewrite_condition(
    condition: exp.Expr, aliases: Mapping[str, str], names: Mapping[tuple[str, str], str]
) -> str:
    root = exp.Paren(this=condition.copy())
    for column in list(root.find_all(exp.Column)):
        column.replace(
            exp.column(exp.to_identifier(_joined_name(column, aliases, names), quoted=True))
        )
    return root.sql("spark", comments=False)


def _drop_others(schemas: Mapping[str, TableSchema], keep: set[str]) -> list[SchemaChange]:
    """Drop every other table, those that refer to others first."""
    changes: list[SchemaChange] = []
    for table in sorted(keep):
        for column, target in schemas[table].foreign_keys:
            if target not in keep:
                changes.append(DropConstraint(table, foreign_key=(column, target)))
    rest = {name: schema for name, schema in schemas.items() if name not in keep}
    for table in sorted(rest):
        for column, target in rest[table].foreign_keys:
            changes.append(DropConstraint(table, foreign_key=(column, target)))
    changes += [DropTable(name) for name in sorted(rest)]
    return changes
