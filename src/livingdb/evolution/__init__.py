"""Schema changes as lenses: what carries rows between two schemas, in both directions.

The changes are imported when one is first asked for.
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from livingdb.evolution.public import (
        AddColumn,
        AddConstraint,
        AddUnique,
        ChangeKey,
        ConcatColumns,
        CreateTable,
        Decompose,
        DropColumn,
        DropConstraint,
        DropDefault,
        DropTable,
        DropUnique,
        JoinTables,
        MaskColumn,
        Normalize,
        RenameColumn,
        RenameTable,
        ReorderColumns,
        RetypeColumn,
        SchemaChange,
        SetDefault,
        SplitColumn,
        SplitTable,
        UnionTables,
    )

__all__ = [
    "AddColumn",
    "AddConstraint",
    "AddUnique",
    "ChangeKey",
    "ConcatColumns",
    "CreateTable",
    "Decompose",
    "DropColumn",
    "DropConstraint",
    "DropDefault",
    "DropTable",
    "DropUnique",
    "JoinTables",
    "MaskColumn",
    "Normalize",
    "RenameColumn",
    "RenameTable",
    "ReorderColumns",
    "RetypeColumn",
    "SchemaChange",
    "SetDefault",
    "SplitColumn",
    "SplitTable",
    "UnionTables",
]

if not typing.TYPE_CHECKING:

    def __getattr__(name: str) -> typing.Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from livingdb.evolution import public

        return getattr(public, name)
