"""CREATE, ALTER and DROP TABLE: what they say about a schema, in plain values.

    ALTER TABLE orders ADD COLUMN vat DOUBLE DEFAULT 0.0 SYNC BOTH KEEP main_v1

`SYNC BOTH | FORWARD | REVERSE | NONE` with `KEEP name` or `TO name` stands at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from livingdb.errors import InvalidData, Unsupported
from livingdb.sql.parameters import constant
from livingdb.sql.parse import POSSIBLE
from livingdb.sql.text_spans import text_in_parentheses
from livingdb.sql.token_reader import TokenReader

__all__ = ["SchemaStatement", "parse_schema_statement", "without_sync"]

_OF_COLUMNS = {"default": "defaults", "references": "foreign_keys", "computed": "computed"}
"""What may be said of a column, and the field of `CreateTable` that has it."""


@dataclass(frozen=True)
class SchemaStatement:
    """A change of the schema: the names of changes, each with its arguments, and the sync.

    `if_exists` and `if_missing` say that there may be nothing to do.
    """

    table: str
    changes: tuple[tuple[str, dict[str, Any]], ...]
    options: dict[str, Any] = field(default_factory=dict)
    if_exists: bool = False
    if_missing: bool = False


def without_sync(text: str) -> tuple[str, dict[str, Any]]:
    """The statement without its SYNC clause, and what that says."""
    reader = TokenReader(text)
    first = reader.take_one("ALTER", "CREATE", "DROP")
    if first is None:
        return text, {}
    for word in ("SYNC", "KEEP") if first == "ALTER" else ("SYNC",):
        if reader.seek_last(word):
            rest, options = reader.text_before, _sync_clause(reader)
            if options:
                return rest, options
    return text, {}


def _sync_clause(reader: TokenReader) -> dict[str, Any]:
    """What SYNC … KEEP name at the end says; nothing if it is something else."""
    options: dict[str, Any] = {}
    if reader.take("SYNC"):
        direction = reader.take_one("BOTH", "FORWARD", "REVERSE", "NONE")
        if direction is None:
            return {}
        options["sync"] = direction.lower()
    how = reader.take_one("KEEP", "TO")
    name = None if how is None else reader.take_value()
    if how is not None and name is not None:
        options[how.lower()] = name
    return options if reader.is_done and (how is None) == (name is None) else {}


def parse_schema_statement(tree: exp.Expr, options: dict[str, Any], text: str) -> SchemaStatement:
    """What a statement says; `Unsupported` for what it may say elsewhere only.

    Expressions in it are kept as they are written in the text.
    """
    if isinstance(tree, exp.Create):
        return _create(tree, options, text)
    if isinstance(tree, exp.Drop):
        return _drop(tree, options)
    if not isinstance(tree, exp.Alter):
        raise Unsupported(f"this statement is not possible; {POSSIBLE}")
    table = _table(tree.this)
    changes = [change for action in tree.args["actions"] for change in _action(table, action, text)]
    return SchemaStatement(table, tuple(changes), options, bool(tree.args.get("exists")))


def _table(node: exp.Expr) -> str:
    if not isinstance(node, exp.Table) or node.db:
        raise Unsupported(
            f"{node.sql('spark')!r}: a schema is changed on the branch the statement runs on"
        )
    return str(node.name)


def _drop(tree: exp.Drop, options: dict[str, Any]) -> SchemaStatement:
    if str(tree.args.get("kind")).upper() != "TABLE":
        raise Unsupported(f"DROP {tree.args.get('kind')} is not possible")
    tables = tree.args["tables"]
    if len(tables) != 1:
        raise InvalidData("DROP TABLE drops one table at a time")
    name = _table(tables[0])
    changes = (("DropTable", {"table": name}),)
    return SchemaStatement(name, changes, options, if_exists=bool(tree.args.get("exists")))


def _create(tree: exp.Create, options: dict[str, Any], text: str) -> SchemaStatement:
    if str(tree.args.get("kind")).upper() != "TABLE" or not isinstance(tree.this, exp.Schema):
        raise Unsupported("CREATE TABLE name (column type, …, PRIMARY KEY (…)) is what there is")
    if tree.args.get("expression") is not None or tree.args.get("replace"):
        raise Unsupported("CREATE TABLE makes an empty table: INSERT INTO fills it")
    name = _table(tree.this.this)
    columns: list[dict[str, Any]] = []
    key: list[str] = []
    for item in tree.this.expressions:
        if isinstance(item, exp.PrimaryKey):
            key += [part.name for part in item.expressions]
            continue
        if not isinstance(item, exp.ColumnDef):
            raise Unsupported(f"{item.sql('spark')!r} is not possible in CREATE TABLE")
        columns.append(_column(item, text))
        if columns[-1].get("key"):
            key.append(item.name)
    if not key:
        raise InvalidData(f"table {name!r} needs a PRIMARY KEY")
    schema = {column["name"]: column["type"] for column in columns}
    change: dict[str, Any] = {"table": name, "schema": schema, "key": tuple(key)}
    for said, field_name in _OF_COLUMNS.items():
        given = {column["name"]: column[said] for column in columns if said in column}
        if given:
            change[field_name] = given
    return SchemaStatement(
        name, (("CreateTable", change),), options, if_missing=bool(tree.args.get("exists"))
    )


def _column(item: exp.ColumnDef, text: str) -> dict[str, Any]:
    """The name, the type and what else a column is given."""
    kind = item.args.get("kind")
    if kind is None:
        raise InvalidData(f"column {item.name!r} has no type")
    found: dict[str, Any] = {"name": item.name, "type": kind.sql("spark").lower()}
    for constraint in item.args.get("constraints") or ():
        rule = constraint.args["kind"]
        if isinstance(rule, exp.NotNullColumnConstraint):
            if not rule.args.get("allow_null"):
                found["type"] += " not null"
        elif isinstance(rule, exp.DefaultColumnConstraint):
            value = constant(rule.this, {})
            if value is None and not isinstance(rule.this, exp.Null):
                raise Unsupported(f"column {item.name!r}: a default is a value")
            found["default"] = value
        elif isinstance(rule, exp.PrimaryKeyColumnConstraint):
            found["key"] = True
        elif isinstance(rule, exp.ComputedColumnConstraint):
            found["computed"] = text_in_parentheses(text, rule.this)
        elif isinstance(rule, exp.Reference):
            found["references"] = rule.this.name
        elif not isinstance(rule, exp.CommentColumnConstraint):
            raise Unsupported(f"column {item.name!r}: {constraint.sql('spark')} is not possible")
    return found


def _action(table: str, action: exp.Expr, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(action, exp.ColumnDef):
        yield _add_column(table, action, text)
    elif isinstance(action, exp.Schema):
        for item in action.expressions:
            yield _add_column(table, item, text)
    elif isinstance(action, exp.Drop):
        yield from _drop_items(table, action)
    elif isinstance(action, exp.RenameColumn):
        yield (
            "RenameColumn",
            {"table": table, "name": action.this.name, "to": action.args["to"].name},
        )
    elif isinstance(action, exp.AlterRename):
        yield "RenameTable", {"table": table, "to": _table(action.this)}
    elif isinstance(action, exp.AlterColumn):
        yield _alter_column(table, action)
    elif isinstance(action, exp.AddConstraint):
        for constraint in action.expressions:
            yield _add_constraint(table, constraint, text)
    else:
        raise Unsupported(f"ALTER TABLE … {action.sql('spark')} is not possible")


def _add_column(table: str, item: exp.Expr, text: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(item, exp.ColumnDef):
        raise Unsupported(f"ADD COLUMNS ({item.sql('spark')}) is not possible")
    given = _column(item, text)
    if "key" in given or "references" in given:
        raise Unsupported("a column is added without PRIMARY KEY and REFERENCES")
    return "AddColumn", {"table": table, **given}


def _drop_items(table: str, action: exp.Drop) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = str(action.args.get("kind")).upper()
    for item in action.args["tables"]:
        parts = item.expressions if isinstance(item, exp.Schema) else [item]
        for part in parts:
            if kind in ("COLUMN", "COLUMNS"):
                yield "DropColumn", {"table": table, "name": part.name}
            elif kind == "CONSTRAINT":
                yield "DropConstraint", {"table": table, "name": part.name}
            else:
                raise Unsupported(f"ALTER TABLE … DROP {kind} is not possible")


def _alter_column(table: str, action: exp.AlterColumn) -> tuple[str, dict[str, Any]]:
    name = action.this.name
    data_type = action.args.get("dtype")
    if data_type is not None:
        kind = data_type.sql("spark").lower()
        return "RetypeColumn", {"table": table, "name": name, "type": kind}
    allow_null = action.args.get("allow_null")
    if allow_null is None:
        raise Unsupported(f"ALTER COLUMN {name} takes TYPE …, SET NOT NULL or DROP NOT NULL")
    change = "DropConstraint" if allow_null else "AddConstraint"
    return change, {"table": table, "not_null": name}


def _add_constraint(table: str, constraint: exp.Expr, text: str) -> tuple[str, dict[str, Any]]:
    given: dict[str, Any] = {"table": table}
    if isinstance(constraint, exp.Constraint):
        given["name"] = constraint.name
        (constraint,) = constraint.expressions
    if isinstance(constraint, exp.CheckColumnConstraint):
        check = text_in_parentheses(text, constraint.this)
        return "AddConstraint", {**given, "check": check}
    if isinstance(constraint, exp.ForeignKey) and len(constraint.expressions) == 1:
        target = constraint.args["reference"].this
        target = target.this if isinstance(target, exp.Schema) else target
        link = (constraint.expressions[0].name, target.name)
        return "AddConstraint", {**given, "foreign_key": link}
    raise Unsupported(f"ADD CONSTRAINT {constraint.sql('spark')} is not possible")
