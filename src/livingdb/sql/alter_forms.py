"""The clauses of ALTER TABLE, as documentation and errors show them, and those there are not."""

from __future__ import annotations

__all__ = ["FORMS", "REFUSED"]

FORMS = {
    "ADD [COLUMN] [IF NOT EXISTS] column": "a new column, the last one unless it says otherwise",
    "ADD COLUMN[S] (column, …)": "several new columns",
    "DROP [COLUMN] [IF EXISTS] name [RESTRICT]": "a column less",
    "DROP COLUMN[S] [IF EXISTS] (name, …)": "several columns less",
    "RENAME [COLUMN] [IF EXISTS] name TO name": "another name for a column",
    "RENAME [TO | AS] name": "another name for the table",
    "ALTER [COLUMN] [IF EXISTS] name [SET DATA] TYPE type [USING expression]": (
        "another type; USING gives the new value of rows that are there"
    ),
    "ALTER [COLUMN] [IF EXISTS] name {SET | DROP} NOT NULL": "whether the column may be null",
    "ALTER [COLUMN] [IF EXISTS] name {SET DEFAULT value | DROP DEFAULT}": (
        "what new rows hold that do not name the column"
    ),
    "ALTER [COLUMN] [IF EXISTS] name {FIRST | AFTER name}": "where the column stands",
    "CHANGE [COLUMN] [IF EXISTS] name column": (
        "another name and type, and what else is said; what is not said stays as it is"
    ),
    "MODIFY [COLUMN] [IF EXISTS] column": "the same under the same name",
    "REPLACE COLUMNS (column, …)": (
        "these columns in this order: those of the same name stay, others go or are new"
    ),
    "ADD [CONSTRAINT [name]] CHECK (condition)": "what all rows have to satisfy",
    "ADD [CONSTRAINT [name]] FOREIGN KEY (name) REFERENCES table [(key)]": (
        "a column that names rows of another table"
    ),
    "ADD [CONSTRAINT [name]] UNIQUE [INDEX | KEY] [name] (name, …)": (
        "columns that no two rows have the same values in"
    ),
    "DROP PRIMARY KEY, ADD PRIMARY KEY (name, …)": "another key, in one statement",
    "DROP CONSTRAINT [IF EXISTS] name [RESTRICT]": "a constraint less, by its name",
    "DROP {CHECK | INDEX | KEY} [IF EXISTS] name": "a check, or a UNIQUE, less",
    "DROP FOREIGN KEY [IF EXISTS] name": "a foreign key less, by its name or its column",
}
"""Each form and what it does.  In all of them CHANGE may stand for ALTER."""

_NO_PARTITIONS = "rows are kept by their key, and tables have no partitions"
_NO_PROPERTIES = "tables have no properties"
_NO_PLACE = "tables are stored where their database is, as it stores them"
_NO_INDEX = "an index is no part of a schema: CREATE INDEX name ON table (…), DROP INDEX name"
_NO_OPTIONS = "LivingDB stores all tables in the same way"
_NO_OWNER = "tables have no owner"
_ONE_CONSTRAINT = "constraints stay as they were made: DROP CONSTRAINT name, ADD CONSTRAINT …"

REFUSED = {
    "SET TBLPROPERTIES": _NO_PROPERTIES,
    "UNSET TBLPROPERTIES": _NO_PROPERTIES,
    "SET LOCATION": _NO_PLACE,
    "SET FILEFORMAT": _NO_PLACE,
    "SET SERDE": _NO_PLACE,
    "SET SERDEPROPERTIES": _NO_PLACE,
    "SET SCHEMA": "a branch has no schemas that hold tables: RENAME TO gives another name",
    "SET TABLESPACE": _NO_PLACE,
    "SET OWNER": _NO_OWNER,
    "OWNER TO": _NO_OWNER,
    "SET": _NO_OPTIONS,
    "RESET": _NO_OPTIONS,
    "WITH": _NO_OPTIONS,
    "ADD PARTITION": _NO_PARTITIONS,
    "ADD IF NOT EXISTS PARTITION": _NO_PARTITIONS,
    "DROP PARTITION": _NO_PARTITIONS,
    "DROP IF EXISTS PARTITION": _NO_PARTITIONS,
    "RENAME PARTITION": _NO_PARTITIONS,
    "RECOVER PARTITIONS": _NO_PARTITIONS,
    "PARTITION": _NO_PARTITIONS,
    "PARTITIONED BY": _NO_PARTITIONS,
    "ATTACH PARTITION": _NO_PARTITIONS,
    "DETACH PARTITION": _NO_PARTITIONS,
    "REMOVE PARTITIONING": _NO_PARTITIONS,
    "CLUSTER BY": "rows are kept by their key: DROP PRIMARY KEY, ADD PRIMARY KEY (…)",
    "CLUSTER ON": "rows are kept by their key: DROP PRIMARY KEY, ADD PRIMARY KEY (…)",
    "ORDER BY": "rows are kept by their key: DROP PRIMARY KEY, ADD PRIMARY KEY (…)",
    "DEFAULT COLLATION": "texts are compared letter by letter",
    "COLLATE": "texts are compared letter by letter",
    "CONVERT TO": "texts are Unicode",
    "CHARACTER SET": "texts are Unicode",
    "CHARSET": "texts are Unicode",
    "COMMENT": "columns and tables hold no comments",
    "ADD INDEX": _NO_INDEX,
    "ADD KEY": _NO_INDEX,
    "ADD FULLTEXT": _NO_INDEX,
    "ADD SPATIAL": _NO_INDEX,
    "ALTER INDEX": _NO_INDEX,
    "RENAME INDEX": _NO_INDEX,
    "RENAME KEY": _NO_INDEX,
    "RENAME CONSTRAINT": _ONE_CONSTRAINT,
    "ALTER CONSTRAINT": _ONE_CONSTRAINT,
    "ALTER CHECK": _ONE_CONSTRAINT,
    "VALIDATE CONSTRAINT": "constraints hold for all rows from the start",
    "ENABLE": "there are no triggers, rules or policies on rows",
    "DISABLE": "there are no triggers, rules or policies on rows",
    "INHERIT": "tables do not inherit: UnionTables makes one table of two",
    "NO INHERIT": "tables do not inherit",
    "REPLICA IDENTITY": "changes are followed by key",
    "ENGINE": _NO_OPTIONS,
    "AUTO_INCREMENT": "numbers of identity columns are never given again",
    "ROW_FORMAT": _NO_OPTIONS,
    "ALGORITHM": "no rows are rewritten by a schema change",
    "LOCK": "no rows are locked by a schema change",
    "FORCE": "no rows are rewritten by a schema change",
}
"""What a clause may begin with elsewhere, and why it is not here or what is."""
