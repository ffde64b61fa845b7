"""What pages take as given that do not begin with a database of their own."""

from __future__ import annotations

__all__ = ["PREPARED"]

_SHOP = """
import livingdb

db = livingdb.create("shop.ldb", author="ann", engine="auto")
main = db.branch("main")
columns = {"id": "bigint", "city": "string", "amount": "double", "paid": "boolean"}
main.create_table("orders", columns, key="id")
main.create_table("news", columns, key="id")
cities = ["Oslo", "Bodø", "Oslo", "Bergen", "Oslo", "Bodø"]
main.insert(
    "orders",
    [{"id": n, "city": city, "amount": n, "paid": False} for n, city in enumerate(cities)],
)
main.insert("news", [{"id": n, "city": "Tromsø", "amount": 1, "paid": True} for n in (0, 99)])
main.clone("dev").update("orders", [{"id": 1, "amount": 10}])
main.insert("orders", [{"id": 7, "city": "Bodø", "amount": 2, "paid": False}])
"""
_TOTALS = """
totals = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"
main.derive("totals", sql=totals, when="immediate")
main.insert("orders", [{"id": 42, "city": "Oslo", "amount": 4, "paid": True}], message="five")
"""
_PEOPLE = """
from livingdb.evolution import MaskColumn

for name in ("customers", "users"):
    main.create_table(name, {"id": "bigint", "name": "string", "email": "string"}, key="id")
    main.insert(name, [{"id": 42, "name": "Kari", "email": "kari@example.org"}])
main.clone("masked", transform=[MaskColumn("users", "email")], sync="forward")
db.branch("masked").derive("loud", sql="SELECT id, upper(email) AS name FROM users")
"""

_FILE = """
from pathlib import Path

rows = ["1,Oslo,5,a", "2,Bodø,7.5,", "42,Oslo,9,b"]
Path("orders.csv").write_text("\\n".join(["id,city,amount,note", *rows]), encoding="utf-8")
"""

PREPARED = {
    "cli.md": _FILE,
    "evolution.md": _SHOP,
    "graph-pictures.md": _SHOP + _TOTALS,
    "lineage.md": _SHOP + _TOTALS + _PEOPLE,
    "provenance.md": _SHOP + _TOTALS + _PEOPLE,
    "sql.md": _SHOP + 'main.delete("orders", [7])\n',
    "views.md": _SHOP,
}
"""Python that is run before a page, by the page's name in docs/."""
