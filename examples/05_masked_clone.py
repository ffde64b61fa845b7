"""A clone that follows its branch, without what is nobody's business.

python examples/05_masked_clone.py
"""

from __future__ import annotations

import tempfile

import livingdb
from livingdb.evolution import MaskColumn


def main(home: str) -> None:
    """Mask two columns, write on the source, and try to write on the clone."""
    db = livingdb.create(f"{home}/shop.ldb")
    branch = db.branch("main")
    schema = {"id": "bigint", "city": "string", "email": "string", "born": "date"}
    branch.create_table("customers", schema, key="id")
    anna = {"id": 1, "city": "Oslo", "email": "anna@example.com", "born": "1990-05-17"}
    branch.insert("customers", [anna])

    analyst = branch.clone(
        "analyst",
        transform=[
            MaskColumn("customers", "email", key="a secret"),
            MaskColumn("customers", "born", "expression", "date_trunc('YEAR', born)"),
        ],
        sync="forward",
    )
    print("main:   ", branch.table("customers").get(1))
    print("analyst:", analyst.table("customers").get(1))

    kari = {"id": 2, "city": "Bodø", "email": "kari@example.com", "born": "1985-12-24"}
    branch.insert("customers", [kari])
    print("analyst:", analyst.table("customers").get(2))
    try:
        analyst.delete("customers", [2])
    except livingdb.ReadOnlyBranch as refused:
        print("refused:", refused)
    db.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
