"""A branch to try something on, a conflict, and a merge that says who wins.

python examples/06_what_if.py
"""

from __future__ import annotations

import tempfile

import livingdb


def main(home: str) -> None:
    """Two branches change the same rows; look first, then choose."""
    db = livingdb.create(f"{home}/shop.ldb")
    branch = db.branch("main")
    branch.create_table(
        "prices", {"article": "string", "price": "double", "stock": "int"}, "article"
    )
    branch.insert(
        "prices",
        [
            {"article": "lamp", "price": 300.0, "stock": 4},
            {"article": "chair", "price": 900.0, "stock": 7},
            {"article": "table", "price": 2500.0, "stock": 1},
        ],
    )
    trial = branch.clone("what_if")
    trial.sql("UPDATE prices SET price = price * 0.9", author="eva", message="10 % off")
    branch.sql("UPDATE prices SET price = 950 WHERE article = 'chair'", author="lars")
    branch.sql("UPDATE prices SET stock = 3 WHERE article = 'lamp'", author="lars")

    preview = db.preview_merge("what_if", into="main", granularity="cell")
    print("clean?", preview.is_clean, "- conflicts:", preview.conflicts["prices"].num_rows)
    try:
        db.merge("what_if", into="main", granularity="cell")
    except livingdb.MergeConflict as conflict:
        for row in conflict.conflicts["prices"].to_pylist():
            prices = [row[side]["price"] for side in ("_base", "_ours", "_theirs")]
            print("{}: was {}, main {}, what_if {}".format(row["article"], *prices))

    policy = {"prices.price": "ours"}
    merged = db.merge("what_if", into="main", granularity="cell", on_conflict=policy)
    print(repr(merged), "from", [parent[:8] for parent in merged.parents])
    print(branch.table("prices").to_pandas())
    for row in db.blame("main", "prices", key="lamp", columns=True).to_pylist():
        print(row["column"], "by", row["author"], row["message"])
    db.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
