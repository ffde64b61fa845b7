"""Names of tables: which of them are tables, where they come from, and what they hold.

orders                            here
dev.orders                        on the branch dev
orders VERSION AS OF 'main~3'     at a ref
orders TIMESTAMP AS OF '2026-…'   at a time
livingdb.log, livingdb.diff(…)    system tables and functions
information_schema.columns        what the standard of SQL has there
"""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.request import Source
from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.sql.parameters import constant
from livingdb.sql.scope import Scope
from livingdb.tables.letter_case import alike_names, check_clear, find_alike
from livingdb.tables.rows import RowSet

__all__ = [
    "INFORMATION",
    "SYSTEM",
    "check_columns",
    "check_sources",
    "find_rows",
    "function_name",
    "is_cte",
    "is_range",
    "ref_of",
    "source_of",
    "table_nodes",
    "written_name",
]

SYSTEM = "livingdb"
INFORMATION = "information_schema"


def source_of(scope: Scope, table: exp.Table, parameters: Mapping[str, object]) -> Source:
    """The rows a table in a FROM clause stands for."""
    if table.catalog:
        raise NotFound(f"{table.sql('spark')!r}: a table is named by a branch and a name")
    if table.db.casefold() == SYSTEM:
        return Source(_system(scope, table, parameters))
    if table.db.casefold() == INFORMATION and not isinstance(table.this, exp.Func):
        return Source(scope.information_table(table.name.casefold()))
    if isinstance(table.this, exp.Func):
        raise Unsupported(
            f"{function_name(table.this)}(…) cannot stand in FROM: SQL reads tables, "
            "subqueries, range(…) and the functions livingdb.diff, blame and history"
        )
    ref = ref_of(scope, table, parameters)
    name, rows = find_rows(scope, table.name, ref)
    return Source(rows, location=scope.location(name, ref))


def function_name(call: exp.Func) -> str:
    """What a function is called."""
    return call.name if isinstance(call, exp.Anonymous) else call.sql_name().lower()


def written_name(table: exp.Table) -> str:
    """What a table in FROM is called, where nothing gives it another name."""
    return table.this.name if isinstance(table.this, exp.Func) else table.name


def ref_of(scope: Scope, table: exp.Table, parameters: Mapping[str, object]) -> str | None:
    """The ref at which the table is asked for; None for here."""
    branch = scope.find_branch(table.db) if table.db else None
    if branch is None and table.db:
        raise NotFound(f"there is no branch {table.db!r}, in which to look for {table.name!r}")
    version = table.args.get("version")
    if version is None:
        return branch
    value = constant(version.expression, parameters)
    if str(version.this).upper() == "VERSION":
        if value is None:
            raise InvalidData("VERSION AS OF takes a branch, tag or snapshot id in quotes")
        return str(value) if branch is None else _ref_on(scope, branch, table.name, str(value))
    return f"{branch or ''}@{_moment(value)}"


def _ref_on(scope: Scope, branch: str, table: str, ref: str) -> str:
    """A ref from the side of a branch; `InvalidData` if it is one of another branch."""
    of = re.split("[~@]", ref)[0]
    if of == branch:
        return ref
    if scope.find_branch(of) is not None:
        raise InvalidData(
            f"{branch}.{table} VERSION AS OF {ref!r}: the ref is of {of!r}, not of {branch!r}; "
            "leave one of them out"
        )
    return f"{branch}:{ref}"


def _moment(value: object) -> str:
    if isinstance(value, str):
        if value.strip().lower() == "now":
            return "now"
        try:
            value = datetime.datetime.fromisoformat(value.strip())
        except ValueError:
            raise InvalidData(f"TIMESTAMP AS OF {value!r}: write 2026-11-15T10:00:00") from None
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    raise InvalidData("TIMESTAMP AS OF takes a time in quotes, such as '2026-11-15T10:00:00'")


def _system(scope: Scope, table: exp.Table, parameters: Mapping[str, object]) -> pa.Table:
    call = table.this
    if not isinstance(call, exp.Func):
        return scope.system_table(table.name.casefold(), [])
    if not isinstance(call, exp.Anonymous):
        raise NotFound(f"there is no function livingdb.{function_name(call)}")
    arguments = []
    for item in call.expressions:
        value = constant(item, parameters)
        if value is None:
            raise InvalidData(f"livingdb.{call.name}: an argument is a value, not {item.sql()!r}")
        arguments.append(value)
    return scope.system_table(call.name.casefold(), arguments)


def find_rows(scope: Scope, name: str, ref: str | None = None) -> tuple[str, RowSet]:
    """A table by its name, or by one that differs in case only: its own name and its rows.

    `InvalidData` if it could be more than one.
    """
    known = scope.tables(ref)
    check_clear("table", name, known)
    try:
        return name, scope.rows(name, ref)
    except NotFound as error:
        alike = find_alike(name, known)
        if alike and alike[0] != name:
            return alike[0], scope.rows(alike[0], ref)
        raise NotFound(_not_found_message(str(error), name, known)) from None


def check_columns(tree: exp.Expr, tables: Iterable[Sequence[str]]) -> None:
    """`InvalidData` if a column that is named could be several of one table, by their case."""
    unclear = [names for names in tables if alike_names(names)]
    if not unclear:
        return
    spoken = {node.name for node in tree.find_all(exp.Column) if not node.is_star}
    for join in tree.find_all(exp.Join):
        spoken |= {item.name for item in join.args.get("using") or ()}
        if join.method:
            spoken |= {name for names in unclear for name in names}
    for name in sorted(spoken):
        for names in unclear:
            check_clear("column", name, names)


def _not_found_message(message: str, name: str, known: Sequence[str]) -> str:
    if not known:
        return message if message.endswith("none") else f"{message}; there are no tables"
    message = message.rstrip(".")
    if message.endswith("?"):  # it says what was meant
        return message
    if not all(other in message for other in known[:20]):
        more = "" if len(known) <= 20 else f" and {len(known) - 20} more"
        message += f"; the tables are {', '.join(known[:20])}{more}"
    near = difflib.get_close_matches(name, known, 1)
    is_news = near and "did you mean" not in message
    return f"{message}; did you mean {near[0]!r}?" if is_news else message


def check_sources(tree: exp.Expr) -> None:
    """`Unsupported` for functions that stand for rows beside a table, but for those on lists."""
    for lateral in tree.find_all(exp.Lateral):
        if isinstance(lateral.this, exp.Anonymous):
            raise Unsupported(f"{lateral.this.name}(…) cannot stand in FROM")


def is_range(table: exp.Table) -> bool:
    """Whether the table is the function range(…)."""
    call = table.this
    return isinstance(call, exp.Func) and not table.db and function_name(call) == "range"


def table_nodes(tree: exp.Expr) -> list[exp.Table]:
    """The tables of a tree that are not names of its WITH clauses, in no particular order.

    A hint reads none: it names those of the query around it.
    """
    found = (t for t in tree.find_all(exp.Table) if not isinstance(t.parent, exp.JoinHint))
    return [table for table in found if not is_cte(table)]


def is_cte(table: exp.Table) -> bool:
    """Whether the name is one that a WITH clause around it defines."""
    if table.db or table.args.get("version") or not isinstance(table.this, exp.Identifier):
        return False
    name = table.name.casefold()
    node: exp.Expr | None = table
    inside: exp.Expr | None = None
    while node is not None:
        if isinstance(node, exp.CTE):
            inside = node
        clause = node.args.get("with_")
        if clause is not None:
            if name in _visible_ctes(clause, inside):
                return True
            inside = None
        node = node.parent
    return False


def _visible_ctes(clause: exp.With, inside: exp.Expr | None) -> list[str]:
    """The names a WITH clause defines, as seen from the body or from one of its parts."""
    names: list[str] = []
    for part in clause.expressions:
        if part is inside and not clause.args.get("recursive"):
            break
        names.append(part.alias.casefold())
        if part is inside:
            break
    return names
