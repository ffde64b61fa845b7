"""Steps that the smallest programs are made of."""

from __future__ import annotations

from tests.composition.queries import Query
from tests.composition.row_operations import Write
from tests.composition.schema_model import (
    AddColumn,
    MaskColumn,
    RenameColumn,
    RenameTable,
)
from tests.composition.schema_operations import Evolve, TransformClone
from tests.composition.view_operations import (
    Derive,
)

FILTER = Query("filter", ("orders",), (("k", "id"), ("n", "amount")))
GROUP = Query("group", ("orders",), (("g", "city"), ("n", "amount")))
UNION = Query("union", ("orders", "returns"), (("n", "amount"), ("m", "amount")))
COUNT = Query("count", ("orders",), ())
COUNT_OVER = Query("count", ("v",), ())
OVER = Query("filter", ("v",), (("k", "fk"), ("n", "fn")))
VIEW = Derive("main", "v", FILTER, "immediate")
RENAME = Evolve("main", (RenameColumn("orders", "amount", "net"),))
RENAME_TABLE = Evolve("main", (RenameTable("orders", "sales"),))
ADD_RANK = AddColumn("orders", "rank", "default")
ADD = Evolve("main", (ADD_RANK,))
MASK = MaskColumn("orders", "note", "constant")
MASKED = TransformClone("main", "m", (MASK,), "immediate")
MASKED_LATER = TransformClone("main", "m", (MASK,), "deferred")
ROW = (("amount", 4), ("city", "a"), ("id", 9), ("note", "b"))
OTHER_ROW = (("amount", 4), ("city", "a"), ("id", 8), ("note", "b"))
KEPT = ("keep", "old", "both")
INSERT = Write("main", (("insert", "orders", (ROW,)),))
