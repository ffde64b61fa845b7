"""The snapshot graph as a picture, and what it weighs.

    python examples/10_graph.py [FOLDER]

Pictures go to the folder, if one is named.
"""

from __future__ import annotations

import sys
import tempfile

import livingdb
from livingdb.evolution import AddColumn, MaskColumn


def main(home: str) -> None:
    """A few branches, drawn in four ways."""
    db = livingdb.create(f"{home}/shop.ldb")
    branch = db.branch("main")
    branch.create_table("users", {"id": "bigint", "email": "string"}, key="id")
    rows = [{"id": i, "email": f"user{i}@example.com"} for i in range(1000)]
    branch.insert("users", rows, message="first users")
    branch.clone("masked", transform=[MaskColumn("users", "email")], sync="forward")
    branch.derive("size", "SELECT count(*) AS users FROM users", when="immediate")
    trial = branch.clone("trial")
    trial.delete("users", [1, 2, 3], message="spam")
    branch.evolve(AddColumn("users", "vip", "boolean", default=False), keep="v1", sync="both")
    branch.update("users", [{"id": 7, "vip": True}], message="a good customer")
    db.merge("trial", into="v1", message="no spam")
    db.tag("release", "main")

    print(db.graph().to_text(width=96))
    print(db.graph(branches=["main", "v1"]).to_mermaid())
    svg = db.graph().to_svg(f"{home}/graph.svg")
    page = db.graph().to_html(f"{home}/graph.html")
    print(f"graph.svg: {len(svg):,} characters; graph.html: {len(page):,}")
    print(db.storage())
    print(db.check())
    db.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
