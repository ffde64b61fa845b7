"""People, their roles and tokens, and acting as one of them."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.errors import Forbidden, NotFound


@pytest.fixture
def db(tmp_path):
    with livingdb.create(tmp_path / "shop.ldb", author="holder") as db:
        main = db.branch("main")
        main.create_table("users", {"id": "bigint", "name": "string"}, key="id")
        main.insert("users", [{"id": 1, "name": "Ada"}])
        main.clone("dev/a")
        main.clone("other")
        yield db


def test_first(db):
    ann = db.people.add("ann", role="writer", branches="dev/*")
    assert [(g.role, g.branches) for g in ann.grants] == [("writer", "dev/*")]
    secret = db.people.issue_token("ann", days=90, note="laptop")
    assert db.people.authenticate(secret) == ann
    with pytest.raises(Forbidden):
        db.people.authenticate(secret[:-1] + ("0" if secret[-1] != "0" else "1"))
    with db.acting_as(ann):
        assert [b.name for b in db.branches()] == ["dev/a"]
        with pytest.raises(NotFound, match="no branch"):
            db.branch("main")
        made = db.branch("dev/a").insert("users", [{"id": 2, "name": "Bob"}])
        assert made.author == "ann"
        assert (
            db.branch("dev/a").sql("SELECT count(*) AS n FROM users").to_arrow()["n"][0].as_py()
            == 2
        )
        db.branch("dev/a").clone("dev/b")
        with pytest.raises(Forbidden):
            db.branch("dev/a").clone("mine")
        with pytest.raises(Forbidden):
            db.branch("dev/a").evolve(livingdb.evolution.AddColumn("users", "x", "int"))
        with pytest.raises(Forbidden):
            db.branch("dev/a").insert("users", [{"id": 3, "name": "Eve"}], author="bob")
    print(db.people.audit().to_pylist())
    assert db.author == "holder"
