"""The shop of the demonstration: customers and orders that look like such, by chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["CITIES", "CUSTOMER_CLEANING", "ORDER_CLEANING", "Shop"]

CITIES = ("Bergen", "Bodø", "Drammen", "Hamar", "Kristiansand", "Oslo", "Tromsø", "Trondheim")
ORDER_CLEANING = (
    "CAST(id AS BIGINT) AS id",
    "CAST(customer AS BIGINT) AS customer",
    "timestamp_seconds(CAST(placed AS BIGINT)) AS placed",
    "CAST(price AS DECIMAL(10, 2)) AS price",
    "CAST(quantity AS INT) AS quantity",
    "lower(status) AS status",
)
"""What makes orders of the text of a cash register, in Spark's SQL."""
CUSTOMER_CLEANING = (
    "CAST(id AS BIGINT) AS id",
    "trim(name) AS name",
    "initcap(city) AS city",
    "lower(email) AS email",
)

_GIVEN = pa.array(["Anna", "Bjørn", "Eva", "Ida", "Jonas", "Kari", "Lars", "Nora", "Ola", "Sara"])
_FAMILY = pa.array(["Aas", "Berg", "Dahl", "Haugen", "Lie", "Moen", "Nilsen", "Strand", "Vik"])
_PRICE = pa.decimal128(10, 2)
_FIRST_SECOND = 1_735_689_600  # 2025-01-01
_YEAR_SECONDS = 365 * 86_400

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shop:
    """Made up by chance, the same every time; `rows` orders are there at first."""

    rows: int
    chance: np.random.Generator

    @classmethod
    def of(cls, rows: int) -> Shop:
        """A shop with so many orders."""
        return cls(rows, np.random.default_rng(2026))

    @property
    def customer_count(self) -> int:
        """Customers there are at first."""
        return max(self.rows // 10, len(CITIES))

    def customers(self) -> pa.Table:
        """The customers there are at first, as an old address book has them: untidy text."""
        number = np.arange(self.customer_count)
        given = _GIVEN.take(pa.array(number % len(_GIVEN)))
        family = _FAMILY.take(pa.array(number // len(_GIVEN) % len(_FAMILY)))
        numbers = pa.array(number).cast(pa.string())
        user = pc.binary_join_element_wise(given, family, numbers, ".")
        return pa.table(
            {
                "id": numbers,
                "name": pc.binary_join_element_wise(" ", given, " ", family, "  ", ""),
                "city": pc.utf8_upper(pa.array(CITIES).take(pa.array(number % len(CITIES)))),
                "email": pc.binary_join_element_wise(user, "example.com", "@"),
            }
        )

    def in_city(self, city: str, count: int) -> Numbers:
        """Some customers of a city, by their numbers; the same one may come twice."""
        place = CITIES.index(city)
        each = (self.customer_count - place + len(CITIES) - 1) // len(CITIES)
        return place + len(CITIES) * self.chance.integers(0, each, count)

    def orders(self, numbers: Numbers, customers: Numbers) -> pa.Table:
        """Orders with these numbers; what is dear, and bought in quantity, is returned more."""
        count = len(numbers)
        age = numbers / max(self.rows, 1) * _YEAR_SECONDS
        placed = ((_FIRST_SECOND + age.astype(np.int64)) * 1_000_000).astype("datetime64[us]")
        price = np.round(self.chance.gamma(2.0, 180.0, count) + 1, 2)
        quantity = self.chance.integers(1, 8, count)
        regret = 1 / (1 + np.exp(4.5 - price / 250 - quantity / 4))
        returned = self.chance.random(count) < regret
        return pa.table(
            {
                "id": numbers,
                "customer": customers,
                "placed": pa.array(placed).cast(pa.timestamp("us", "UTC")),
                "price": pa.array(price).cast(pa.decimal128(18, 2)).cast(_PRICE),
                "quantity": pa.array(quantity.astype(np.int32)),
                "status": pc.if_else(pa.array(returned), "returned", "delivered"),
            }
        )

    def raw_orders(self) -> pa.Table:
        """The first orders as a cash register writes them: in no order, and shouting."""
        numbers = self.chance.permutation(self.rows)
        table = self.orders(numbers, self.chance.integers(0, self.customer_count, self.rows))
        seconds = table.column("placed").cast(pa.timestamp("s", "UTC")).cast(pa.int64())
        table = table.set_column(2, "placed", seconds)
        return table.set_column(5, "status", pc.utf8_upper(table.column("status")))

    def new_orders(self, city: str, batch: int, count: int) -> pa.Table:
        """Orders that come in from a city."""
        numbers = self.rows + batch * count + np.arange(count)
        return self.orders(numbers, self.in_city(city, count))
