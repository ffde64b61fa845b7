"""Derived objects that named functions make: models."""

from __future__ import annotations

from pathlib import Path

import pytest

import livingdb
from livingdb.errors import IllegalSync, InvalidData, NotFound, Unsupported, Untrusted

HERE = "tests.unit.commit.derived.shop_functions"


def test_a_model(db: livingdb.Database, main: livingdb.Branch) -> None:
    made = main.derive("model", model=f"{HERE}:train", params={"factor": 2})
    assert made.tables() == ["model"]
    first = db.at("model")
    assert first.artifact() == b"720"
    assert first.metrics == {"rows": 9, "total": 720}
    assert first.edge.details["function"] == f"{HERE}:train"
    assert first.sources == {"main": main.head.id}
    main.update("orders", [{"id": 0, "amount": 100}])
    assert db.sync("model").lag == 1
    (run,) = db.propagate()
    assert (run.strategy, run.reason, run.engine) == ("full", "FUNCTION", "python")
    assert db.at("model").artifact() == b"920"
    assert db.at("model~1").artifact() == b"720"
    assert db.derived_at("model", source="main~1") == first


def test_a_model_reads_only_what_it_is_given(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", "SELECT id, amount FROM orders WHERE amount > 30")
    main.derive("model", model=f"{HERE}:train", tables=["orders"])
    main.insert("customers", [{"id": 9, "name": "z"}])
    assert db.sync("model").lag == 0
    with pytest.raises(NotFound, match="nowhere"):
        main.derive("other", model=f"{HERE}:train", tables=["nowhere"])
    made = main.derive(
        "of_view", model=f"{HERE}:into_folder", tables=["totals"], params={"title": "t"}
    )
    assert db.sync("of_view").sources == ["totals"]
    assert made.head.metrics == {"tables": 1}


def test_files(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("model", model=f"{HERE}:into_folder", params={"title": "shop"})
    assert db.at("model").artifact() == {"title.txt": b"shop", "weights/w.bin": b"\x00\x01"}
    assert db.at("model").metrics == {"tables": 2}
    with pytest.raises(NotFound, match="no artefact"):
        db.at("main").artifact()


def test_large_bytes(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("model", model=f"{HERE}:only_bytes")
    assert db.at("model").artifact() == bytes(range(256)) * 10_000
    main.delete("orders", [0])
    before = db.branch("model").table("model").version
    db.propagate()
    # The same bytes are the same version.
    assert db.branch("model").table("model").version == before
    assert db.sync("model").lag == 0


def test_only_what_is_trusted_runs(db: livingdb.Database, main: livingdb.Branch) -> None:
    with pytest.raises(Untrusted, match=r"trust=\['os'\]"):
        main.derive("model", model="os:getcwd")
    main.derive("model", model=f"{HERE}:train")
    main.derive("totals", "SELECT sum(amount) AS s FROM orders")
    main.delete("orders", [0])
    with livingdb.open(Path(db.name), engine="embedded") as stranger:
        with pytest.raises(Untrusted):
            stranger.refresh("model")
        runs = {run.name: run for run in stranger.propagate()}
        assert "trust" in runs["model"].error
        assert runs["totals"].error is None
        assert stranger.sync("model").state == "active"
        assert stranger.at("model").artifact() == b"360"
    with livingdb.open(Path(db.name), trust=[f"{HERE}:train"], engine="embedded") as friend:
        assert [run.error for run in friend.propagate()] == [None]


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({"model": "no function"}, InvalidData, "package.module:function"),
        ({"model": f"{HERE}:absent"}, NotFound, "cannot be loaded"),
        ({"model": f"{HERE}_absent:train"}, NotFound, "cannot be loaded"),
        ({"model": f"{HERE}:NOT_A_FUNCTION"}, InvalidData, "is no function"),
        ({"model": f"{HERE}:nothing"}, InvalidData, "no artefact"),
        ({"model": f"{HERE}:text"}, InvalidData, "returned str"),
        ({"model": f"{HERE}:train", "when": "immediate"}, IllegalSync, "inside a transaction"),
        ({"model": f"{HERE}:train", "materialize": "lazy"}, Unsupported, "is stored"),
        ({"model": f"{HERE}:train", "params": {"wrong": 1}}, livingdb.LivingDBError, "wrong"),
    ],
)
def test_refused(
    db: livingdb.Database,
    main: livingdb.Branch,
    options: dict[str, object],
    error: type[Exception],
    why: str,
) -> None:
    with pytest.raises(error, match=why):
        main.derive("model", **options)
    assert db.branches() == ["main"]


def test_a_function_that_fails_is_tried_again(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("model", model=f"{HERE}:fails")
    main.update("orders", [{"id": 0, "amount": -1}])
    for _ in range(2):
        (run,) = db.propagate()
        assert "negative" in run.error
        assert db.sync("model").state == "active"
    main.update("orders", [{"id": 0, "amount": 1}])
    (run,) = db.propagate()
    assert run.error is None
    main.update("orders", [{"id": 0, "amount": -1}])
    for _ in range(3):
        db.propagate()
    assert db.sync("model").state == "error"
    assert {alert.event for alert in db.alerts()} == {"failed", "error"}
    assert db.propagate() == []
    assert db.at("model").artifact() == b"fine"
    main.update("orders", [{"id": 0, "amount": 1}])
    db.sync("model").reattach()
    assert db.sync("model").state == "active"
    assert db.sync("model").lag == 0
