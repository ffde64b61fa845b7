"""Schema changes as lenses: what carries rows between two schemas, in both directions.

Everything is imported when it is first asked for.
"""

from __future__ import annotations

import typing

from livingdb.lazy import lazily

if typing.TYPE_CHECKING:
    from livingdb.evolution.add_column import AddColumn
    from livingdb.evolution.change import Change
    from livingdb.evolution.constraints import AddConstraint, DropConstraint
    from livingdb.evolution.decompose import Decompose
    from livingdb.evolution.drop_column import DropColumn
    from livingdb.evolution.join import JoinTables
    from livingdb.evolution.mask import MaskColumn
    from livingdb.evolution.normalize import Normalize
    from livingdb.evolution.rekey import ChangeKey
    from livingdb.evolution.rename_column import RenameColumn
    from livingdb.evolution.retype import RetypeColumn
    from livingdb.evolution.split_table import SplitTable
    from livingdb.evolution.table_changes import CreateTable, DropTable, RenameTable
    from livingdb.evolution.text_columns import ConcatColumns, SplitColumn
    from livingdb.evolution.union import UnionTables

__all__ = [
    "AddColumn",
    "AddConstraint",
    "Change",
    "ChangeKey",
    "ConcatColumns",
    "CreateTable",
    "Decompose",
    "DropColumn",
    "DropConstraint",
    "DropTable",
    "JoinTables",
    "MaskColumn",
    "Normalize",
    "RenameColumn",
    "RenameTable",
    "RetypeColumn",
    "SplitColumn",
    "SplitTable",
    "UnionTables",
]

__getattr__ = lazily(
    __name__,
    {
        "AddColumn": "livingdb.evolution.add_column",
        "AddConstraint": "livingdb.evolution.constraints",
        "Change": "livingdb.evolution.change",
        "ChangeKey": "livingdb.evolution.rekey",
        "ConcatColumns": "livingdb.evolution.text_columns",
        "CreateTable": "livingdb.evolution.table_changes",
        "Decompose": "livingdb.evolution.decompose",
        "DropColumn": "livingdb.evolution.drop_column",
        "DropConstraint": "livingdb.evolution.constraints",
        "DropTable": "livingdb.evolution.table_changes",
        "JoinTables": "livingdb.evolution.join",
        "MaskColumn": "livingdb.evolution.mask",
        "Normalize": "livingdb.evolution.normalize",
        "RenameColumn": "livingdb.evolution.rename_column",
        "RenameTable": "livingdb.evolution.table_changes",
        "RetypeColumn": "livingdb.evolution.retype",
        "SplitColumn": "livingdb.evolution.text_columns",
        "SplitTable": "livingdb.evolution.split_table",
        "UnionTables": "livingdb.evolution.union",
    },
)
