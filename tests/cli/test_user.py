"""Tokens at the shell: shown once, listed without their secrets, revoked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.telling import tell

import livingdb
from livingdb.errors import Forbidden


def test_a_token(tmp_path: Path) -> None:
    place = tmp_path / "shop.ldb"
    livingdb.create(place, author="ann").close()
    assert tell("user", "add", "bob", "--role", "reader", db=str(place)).code == 0
    made = tell("-o", "json", "user", "token", "bob", "--note", "laptop", db=str(place))
    secret = json.loads(made.out)["token"]
    with livingdb.open(place) as db:
        assert db.people.authenticate(secret).name == "bob"
    (row,) = json.loads(tell("-o", "json", "user", "tokens", "bob", db=str(place)).out)
    assert (row["note"], row["state"]) == ("laptop", "valid")
    assert secret not in str(row)
    assert tell("user", "revoke", secret, db=str(place)).code == 0
    (row,) = json.loads(tell("-o", "json", "user", "tokens", "bob", db=str(place)).out)
    assert row["state"] == "revoked"
    with livingdb.open(place) as db, pytest.raises(Forbidden):
        db.people.authenticate(secret)
    assert secret not in tell("user", "audit", db=str(place)).out
