"""The schema changes, as `livingdb.evolution` offers them."""

from __future__ import annotations

from livingdb.evolution.changes.add_column import AddColumn
from livingdb.evolution.changes.change_key import ChangeKey
from livingdb.evolution.changes.constraints import AddConstraint, DropConstraint
from livingdb.evolution.changes.decompose import Decompose
from livingdb.evolution.changes.defaults import DropDefault, SetDefault
from livingdb.evolution.changes.drop_column import DropColumn
from livingdb.evolution.changes.join_tables import JoinTables
from livingdb.evolution.changes.mask_column import MaskColumn
from livingdb.evolution.changes.normalize import Normalize
from livingdb.evolution.changes.rename_column import RenameColumn
from livingdb.evolution.changes.reorder_columns import ReorderColumns
from livingdb.evolution.changes.retype_column import RetypeColumn
from livingdb.evolution.changes.split_concat_columns import ConcatColumns, SplitColumn
from livingdb.evolution.changes.split_table import SplitTable
from livingdb.evolution.changes.tables import CreateTable, DropTable, RenameTable
from livingdb.evolution.changes.union_tables import UnionTables
from livingdb.evolution.changes.uniques import AddUnique, DropUnique
from livingdb.evolution.schema_change import SchemaChange

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
