"""ALTER TABLE as schema changes: each clause in view of the tables that those before it leave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.evolution.changes.add_column import AddColumn
from livingdb.evolution.changes.change_key import ChangeKey
from livingdb.evolution.changes.constraints import AddConstraint, DropConstraint
from livingdb.evolution.changes.defaults import DropDefault, SetDefault
from livingdb.evolution.changes.drop_column import DropColumn
from livingdb.evolution.changes.rename_column import RenameColumn
from livingdb.evolution.changes.reorder_columns import ReorderColumns
from livingdb.evolution.changes.retype_column import RetypeColumn
from livingdb.evolution.changes.tables import RenameTable
from livingdb.evolution.changes.uniques import AddUnique, DropUnique
from livingdb.evolution.definition_edits import new_column
from livingdb.evolution.plan import plan_changes
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.sql import alter_clauses as sql
from livingdb.tables.letter_case import find_alike
from livingdb.tables.schema import Column, TableSchema

__all__ = ["add_rules", "alter_table"]


def alter_table(statement: sql.AlterStatement, tables: Schemas) -> list[SchemaChange]:
    """The changes that the clauses ask for, one after the other.

    None if there is no such table and need not be, or if IF EXISTS leaves nothing to do.
    """
    name = _known_name(statement.table, tables)
    if statement.if_exists and name not in tables:
        return []
    definition_of(tables, name)
    work = _Alteration(name, tables)
    for clause in statement.clauses:
        work.alter(clause)
    work.finish()
    return work.changes


def add_rules(table: str, rules: Iterable[sql.Rule], tables: Schemas) -> list[SchemaChange]:
    """The changes that add constraints to a table."""
    work = _Alteration(table, tables)
    for rule in rules:
        work.alter(rule)
    return work.changes


def _known_name(name: str, names: Iterable[str]) -> str:
    """The one of the names that SQL takes it for, without regard to case; itself if none is."""
    names = list(names)
    alike = find_alike(name, names)
    return alike[0] if name not in names and len(alike) == 1 else name


class _Alteration:
    """A table on its way through the clauses of a statement."""

    def __init__(self, table: str, tables: Schemas):
        self.table = table
        self.changes: list[SchemaChange] = []
        self._tables = tables
        self._lacks_key = False

    @property
    def _schema(self) -> TableSchema:
        return self._tables[self.table].schema

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self._schema.visible_columns]

    def _find(self, name: str) -> str:
        """The name of a column as the table has it."""
        return _known_name(name, self._names)

    def _make(self, *changes: SchemaChange) -> None:
        for change in changes:
            self._tables = plan_changes(self._tables, [change]).tables
            self.changes.append(change)

    def finish(self) -> None:
        """`Unsupported` if the table has lost its key."""
        if self._lacks_key:
            raise Unsupported(
                f"DROP PRIMARY KEY: {self.table!r} needs a key; write "
                "DROP PRIMARY KEY, ADD PRIMARY KEY (…) to give it another"
            )

    def alter(self, clause: sql.Clause) -> None:
        """Do what a clause says."""
        match clause:
            case sql.AddColumn():
                self._add_column(clause)
            case sql.RenameTable():
                self._make(RenameTable(self.table, clause.to))
                self.table = clause.to
            case sql.ReplaceColumns():
                self._replace_columns(clause.columns)
            case sql.DropConstraint():
                self._drop_constraint(clause)
            case sql.DropKey():
                self._lacks_key = True
            case sql.AddCheck() | sql.AddUnique() | sql.AddForeignKey() | sql.AddKey():
                self._add_rule(clause)
            case _:
                name = self._find(clause.name)
                if name in self._names or not clause.if_exists:
                    self._alter_column(clause, name)

    def _alter_column(self, clause: sql.OfColumn, name: str) -> None:
        table = self.table
        self._schema.column(name)
        match clause:
            case sql.DropColumn():
                self._make(DropColumn(table, name))
            case sql.RenameColumn():
                self._make(RenameColumn(table, name, clause.to))
            case sql.SetType():
                self._make(RetypeColumn(table, name, clause.type, "reject", clause.using))
            case sql.SetNotNull():
                kind = AddConstraint if clause.is_set else DropConstraint
                self._make(kind(table, not_null=name))
            case sql.SetDefault():
                self._make(self._default_change(name, clause.default))
            case sql.MoveColumn():
                self._make(ReorderColumns(table, self._order(name, clause.place)))
            case sql.ChangeColumn():
                stays = clause.column.name == clause.name
                new = name if stays else clause.column.name
                self._change_column(name, replace(clause.column, name=new))

    def _default_change(self, name: str, default: sql.Default) -> SchemaChange:
        if default.value is None:
            return DropDefault(self.table, name)
        return SetDefault(self.table, name, default.value)

    def _order(self, name: str, place: sql.Place) -> list[str]:
        """The columns with one of them in another place."""
        names = [other for other in self._names if other != name]
        if place.after is None:
            return [name, *names]
        after = self._find(place.after)
        if after == name:
            raise InvalidData(f"the column {name!r} cannot stand after itself")
        self._schema.column(after)
        at = names.index(after) + 1
        return [*names[:at], name, *names[at:]]

    def _move(self, names: Sequence[str]) -> None:
        """Another order of the columns, unless they have it."""
        if list(names) != self._names:
            self._make(ReorderColumns(self.table, names))

    # --- columns as they are described -----------------------------------------------------------

    def _add_column(self, clause: sql.AddColumn) -> None:
        given = clause.column
        default = None if given.default is None else given.default.value
        new_column(given.name, given.type, default)
        if clause.if_missing and self._find(given.name) in self._names:
            return
        suffix = " not null" if given.nullable is False else ""
        change = AddColumn(self.table, given.name, given.type + suffix, default)
        self._make(replace(change, computed=given.computed, generated=given.generated))
        if given.place is not None:
            self._move(self._order(given.name, given.place))
        for rule in given.rules:
            self._add_rule(rule)

    def _change_column(self, name: str, given: sql.ColumnSpec) -> None:
        """What differs of a column from what is said of it; what is not said stays."""
        begun = len(self.changes)
        column = self._schema.column(name)
        given_values = (given.computed, column.computed), (given.generated, column.generated)
        if any(said not in (None, known) for said, known in given_values):
            raise Unsupported(
                f"the column {name!r} cannot be made GENERATED: drop it and add it anew"
            )
        self._change_values(name, column, given)
        if given.name != name:
            self._make(RenameColumn(self.table, name, given.name))
        if given.place is not None:
            self._move(self._order(given.name, given.place))
        for rule in given.rules:
            self._add_rule(rule)
        if len(self.changes) == begun:
            raise InvalidData(f"the column {name!r} is as the clause says already")

    def _change_values(self, name: str, column: Column, given: sql.ColumnSpec) -> None:
        """The type, the default and NOT NULL of a column, as far as they are said to differ."""
        wanted = None if given.default is None else given.default.value
        made = new_column(name, given.type, wanted)
        is_set = given.default is not None and made.default != column.default
        if not _has_type(column, made):
            if is_set and column.default is not None:
                self._make(DropDefault(self.table, name))
            self._make(RetypeColumn(self.table, name, given.type, "reject"))
        if is_set and made.default != self._schema.column(name).default:
            self._make(self._default_change(name, sql.Default(wanted)))
        if given.nullable is not None and given.nullable != column.nullable:
            kind = DropConstraint if given.nullable else AddConstraint
            self._make(kind(self.table, not_null=name))

    def _replace_columns(self, columns: Sequence[sql.ColumnSpec]) -> None:
        wanted = [self._find(column.name) for column in columns]
        if len(set(wanted)) < len(wanted):
            raise InvalidData("REPLACE COLUMNS names a column twice")
        begun = len(self.changes)
        for name in [name for name in self._names if name not in wanted]:
            self._make(DropColumn(self.table, name))
        for name, given in zip(wanted, columns, strict=True):
            if given.place is not None:
                raise InvalidData("REPLACE COLUMNS: the columns are in the order they are named in")
            if name not in self._names:
                self._add_column(sql.AddColumn(given))
            elif not self._is_as_said(name, given):
                self._change_column(name, replace(given, name=name))
        self._move(wanted)
        if len(self.changes) == begun:
            raise InvalidData(f"the columns of {self.table!r} are these already")

    def _is_as_said(self, name: str, given: sql.ColumnSpec) -> bool:
        """Whether a column is what is said of it, and nothing is to be added to it."""
        column = self._schema.column(name)
        default = None if given.default is None else given.default.value
        made = new_column(name, given.type, default)
        return (
            _has_type(column, made)
            and given.nullable in (None, column.nullable)
            and (given.default is None or made.default == column.default)
            and given.computed in (None, column.computed)
            and given.generated in (None, column.generated)
            and not given.rules
        )

    # --- constraints -----------------------------------------------------------------------------

    def _add_rule(self, rule: sql.Rule) -> None:
        match rule:
            case sql.AddCheck():
                self._make(AddConstraint(self.table, rule.name, check=rule.condition))
            case sql.AddKey():
                self._add_key([self._find(name) for name in rule.columns])
            case sql.AddForeignKey():
                self._add_foreign_key(rule)
            case sql.AddUnique():
                columns = [self._find(name) for name in rule.columns]
                self._make(AddUnique(self.table, columns, rule.name))

    def _add_key(self, columns: Sequence[str]) -> None:
        if not self._lacks_key:
            key = ", ".join(self._schema.key)
            raise InvalidData(
                f"ADD PRIMARY KEY: {self.table!r} has the key ({key}) already; write "
                f"DROP PRIMARY KEY, ADD PRIMARY KEY ({', '.join(columns)}) to give it another"
            )
        self._lacks_key = False
        self._make(ChangeKey(self.table, columns))

    def _add_foreign_key(self, rule: sql.AddForeignKey) -> None:
        if len(rule.columns) != 1:
            raise Unsupported(
                f"FOREIGN KEY ({', '.join(rule.columns)}): one column names the rows of a table"
            )
        column, target = self._find(rule.columns[0]), _known_name(rule.link.table, self._tables)
        key = definition_of(self._tables, target).schema.key
        named = tuple(_known_name(name, key) for name in rule.link.columns)
        if named and named != key:
            raise Unsupported(
                f"REFERENCES {target} ({', '.join(named)}): a foreign key names the key of a "
                f"table, and that of {target!r} is ({', '.join(key)})"
            )
        self._make(AddConstraint(self.table, rule.link.name, foreign_key=(column, target)))

    def _drop_constraint(self, clause: sql.DropConstraint) -> None:
        """A constraint less of those there are, by the names that they have."""
        schema, table = self._schema, self.table
        known: dict[str, SchemaChange] = {}
        if clause.kind in ("CONSTRAINT", "CHECK"):
            known |= {name: DropConstraint(table, name) for name, _ in schema.checks}
        if clause.kind in ("CONSTRAINT", "INDEX"):
            known |= {name: DropUnique(table, name=name) for name, _ in schema.uniques}
        if clause.kind in ("CONSTRAINT", "FOREIGN KEY"):
            links = {name: column for column, name in schema.link_names}
            if clause.kind == "FOREIGN KEY":
                links = {column: column for column, _ in schema.foreign_keys} | links
            known |= {
                name: DropConstraint(table, foreign_key=column) for name, column in links.items()
            }
        name = _known_name(clause.name, known)
        if name in known:
            self._make(known[name])
        elif not clause.if_exists:
            raise NotFound(
                f"DROP {clause.kind} {clause.name}: {table!r} has none of that name; there are: "
                f"{', '.join(known) or 'none'}"
            )


def _has_type(column: Column, made: Column) -> bool:
    """Whether a column has the type of another, and what belongs to that."""
    return column == replace(
        made,
        id=column.id,
        nullable=column.nullable,
        default=column.default,
        computed=column.computed,
        read_only=column.read_only,
        hidden=column.hidden,
        generated=column.generated,
    )
