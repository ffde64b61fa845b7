"""The shop of the demonstration: orders that look like orders, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.tables.layout import Layout
from livingdb.tables.schema import TableSchema

__all__ = ["CLEANING", "LAYOUT", "SCHEMA", "SHOPS", "Orders"]

SHOPS = ("Bergen", "Bodø", "Drammen", "Hamar", "Kristiansand", "Oslo", "Tromsø", "Trondheim")
SCHEMA = TableSchema.of(
    {
        "shop": "string",
        "id": "bigint",
        "customer": "string",
        "placed": "timestamp",
        "amount": "double",
        "quantity": "int",
        "status": "string",
    },
    ["shop", "id"],
)
LAYOUT = Layout(target_rows=1024, groups=[["customer", "placed"], ["amount", "quantity"]])

CLEANING = (
    "initcap(shop) AS shop",
    "CAST(id AS BIGINT) AS id",
    "customer",
    "timestamp_seconds(CAST(placed AS BIGINT)) AS placed",
    "CAST(amount AS DOUBLE) AS amount",
    "CAST(quantity AS INT) AS quantity",
    "status",
)
"""What makes orders of the text of a cash register, in Spark's SQL."""

_STATUSES = pa.array(["paid", "packed", "sent", "delivered", "returned"])
_FIRST_SECOND = 1_767_225_600  # 2026-01-01
_YEAR_SECONDS = 365 * 86_400

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Orders:
    """Orders made up by chance, the same ones every time; `rows` are there at first."""

    rows: int
    chance: np.random.Generator

    @classmethod
    def of(cls, rows: int) -> Orders:
        """A shop with so many orders."""
        return cls(rows, np.random.default_rng(2026))

    @property
    def per_shop(self) -> int:
        """Orders each shop begins with."""
        return self.rows // len(SHOPS)

    def keys(self, shop: Numbers, number: Numbers) -> dict[str, pa.Array]:
        """The keys of orders, by place of the shop and number of the order."""
        return {"shop": pa.array(SHOPS).take(pa.array(shop)), "id": pa.array(number)}

    def table(self, shop: Numbers, number: Numbers) -> pa.Table:
        """Whole orders with these keys."""
        count = len(shop)
        customers = self.chance.integers(0, max(self.rows // 5, 1), count)
        age = number / max(self.per_shop, 1) * _YEAR_SECONDS
        placed = ((_FIRST_SECOND + age.astype(np.int64)) * 1_000_000).astype("datetime64[us]")
        amounts = np.round(self.chance.gamma(2.0, 180.0, count), 2)
        return pa.table(
            {
                **self.keys(shop, number),
                "customer": pa.array([f"customer {n:06}" for n in customers.tolist()]),
                "placed": pa.array(placed).cast(pa.timestamp("us", "UTC")),
                "amount": amounts,
                "quantity": self.chance.integers(1, 12, count),
                "status": _STATUSES.take(pa.array(self.chance.integers(0, 4, count))),
            }
        )

    def first(self) -> pa.Table:
        """The orders the shop begins with."""
        shop = np.repeat(np.arange(len(SHOPS)), self.per_shop)
        return self.table(shop, np.tile(np.arange(self.per_shop), len(SHOPS)))

    def raw(self) -> pa.Table:
        """The first orders as a cash register writes them: all text, in no order."""
        whole = self.first()
        mixed = whole.take(pa.array(self.chance.permutation(whole.num_rows)))
        placed = mixed.column("placed").cast(pa.timestamp("s", "UTC")).cast(pa.int64())
        mixed = mixed.set_column(mixed.schema.get_field_index("placed"), "placed", placed)
        return mixed.set_column(0, "shop", pc.utf8_upper(mixed.column("shop")))

    def new(self, shop: int, batch: int, count: int) -> pa.Table:
        """Orders that came in at one shop."""
        numbers = self.per_shop + batch * count + np.arange(count)
        return self.table(np.full(count, shop), numbers)

    def some(self, shop: int, count: int) -> dict[str, pa.Array]:
        """Keys of recent orders of one shop, each once."""
        recent = np.arange(self.per_shop * 9 // 10, self.per_shop)
        numbers = np.sort(self.chance.choice(recent, min(count, len(recent)), replace=False))
        return self.keys(np.full(len(numbers), shop), numbers)
