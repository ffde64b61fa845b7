"""Keys of masks: where they come from, and that no record has one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.unit.commit.masks.shop import KEY, NAME, SOURCE, VARIABLE, forget_keys, lags, names, rows

import livingdb
from livingdb import condition
from livingdb.errors import InvalidData, MaskKeyMissing, Untrusted
from livingdb.evolution import MaskColumn, SchemaChange, mask_keys

MODULE = "tests.unit.commit.masks.named_keys"
FUNCTION = f"{MODULE}:shop_key"
TEXT = "nobody knows this text"


def test_a_change_says_nothing_of_its_key() -> None:
    change = MaskColumn("customers", "name", key=TEXT)
    assert TEXT not in repr(change)
    stored = change.to_json()
    assert TEXT not in json.dumps(stored)
    assert SchemaChange.from_json(json.loads(json.dumps(stored))) == change
    assert change == MaskColumn("customers", "name", key=TEXT)
    assert change != MaskColumn("customers", "name", key="another")
    assert MaskColumn("customers", "name").to_json()["key"] == ""


def test_a_record_of_before_has_its_key() -> None:
    """It is read as it was, and stays as it was."""
    data = {"change": "MaskColumn", "table": "customers", "name": "name", "method": "hash",
            "value": None, "key": TEXT}  # fmt: skip
    change = SchemaChange.from_json(data)
    assert change.to_json() == data
    assert TEXT not in repr(change)
    assert isinstance(change, MaskColumn)
    assert change.mask_key.find() == TEXT


@pytest.mark.parametrize("method", ["null", "constant", "expression"])
def test_only_hashes_need_a_key(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_keys(monkeypatch)
    value = None if method == "null" else "'x'"
    MaskColumn("customers", "name", method, value, key=SOURCE).unlock()


@pytest.mark.parametrize("key", ["env:", "env:no name", 7, ["a"]])
def test_what_is_no_key(key: object) -> None:
    with pytest.raises(InvalidData):
        MaskColumn("customers", "name", key=key)  # type: ignore[arg-type]


@pytest.mark.parametrize("when", ["immediate", "deferred"])
@pytest.mark.parametrize("key", [TEXT, SOURCE, FUNCTION])
def test_no_record_has_a_key(path: Path, tmp_path: Path, key: str, when: str) -> None:
    secrets = (TEXT, KEY, "the key of a function")
    with livingdb.create(path, engine="embedded", trust=[MODULE]) as db:
        main = db.branch("main")
        main.create_table("customers", {"id": "bigint", "name": "string"}, key="id")
        main.insert("customers", [{"id": 1, "name": "raw"}])
        mask = MaskColumn("customers", "name", key=key)
        clone = main.clone("clone", transform=mask, sync="forward", when=when)
        main.evolve(mask, to="two", sync="both")
        clone.derive("counts", "SELECT name, count(*) AS n FROM customers GROUP BY name")
        main.insert("customers", [{"id": 2, "name": "raw"}])
        db.propagate()
        db.sync("clone").detach(reason="for a while")
        db.sync("clone").reattach()
        db.export_openlineage(tmp_path / "lineage.json")
        shown = [
            db.graph().to_html(),
            db.graph().to_mermaid(),
            (tmp_path / "lineage.json").read_text(),
            repr(db.syncs()),
            repr([(s.lag, s.trail, s.explain(), s.runs) for s in db.syncs()]),
            repr([snapshot.edge for snapshot in db.snapshots()]),
            repr(db.alerts()),
            repr(main.sql("SELECT * FROM livingdb.edges").to_arrow().to_pylist()),
            *everything_stored(db),
        ]
    for text in shown:
        for secret in secrets:
            assert secret not in text


def everything_stored(db: livingdb.Database) -> list[str]:
    """All rows of the catalog, and all records."""
    graph = db._graph
    found = []
    with graph.catalog.write() as connection:
        for table in sa.inspect(connection).get_table_names():
            found.append(repr(connection.execute(sa.text(f'SELECT * FROM "{table}"')).fetchall()))
        versions = connection.execute(sa.text("SELECT address FROM version")).scalars().all()
    found += [repr(graph.store.get(address)) for address in versions]
    found += [repr(graph.store.get(bytes.fromhex(row.id))) for row in db.snapshots()]
    return found


def test_a_text_is_handed_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with livingdb.create(path, engine="embedded") as db:
        main = db.branch("main")
        main.create_table("customers", {"id": "bigint", "name": "string"}, key="id")
        mask = MaskColumn("customers", "name", key=TEXT)
        main.clone("clone", transform=mask, sync="forward")
    forget_keys(monkeypatch)
    with livingdb.open(path, engine="embedded", mask_keys=["another"]) as db:
        db.branch("main").insert("customers", [{"id": 1, "name": "raw"}])
        lag = db.sync("clone").lag
        assert lag == 1
        assert mask.mask_key.fingerprint in lag.reason
        assert "mask_keys" in lag.reason
    with livingdb.open(path, engine="embedded", mask_keys=[TEXT]) as db:
        assert [run.name for run in db.propagate()] == ["clone"]
        assert len(rows(db.branch("clone"))) == 1
    forget_keys(monkeypatch)
    MaskColumn("anything", "at all", key=TEXT)
    with livingdb.open(path, engine="embedded") as db:
        db.branch("main").insert("customers", [{"id": 2, "name": "raw"}])
        assert len(names(db.branch("clone"))) == 1
        assert len(rows(db.branch("clone"))) == 2
    with pytest.raises(InvalidData, match="mask_keys"):
        livingdb.open(path, mask_keys=TEXT)


def test_a_function_runs_where_it_is_trusted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mask = MaskColumn("customers", "name", key=FUNCTION)
    with livingdb.create(path, engine="embedded") as db:
        main = db.branch("main")
        main.create_table("customers", {"id": "bigint", "name": "string"}, key="id")
        with pytest.raises(Untrusted, match="shop_key"):
            main.clone("clone", transform=mask, sync="forward")
        assert db.branches() == ["main"]
    with livingdb.open(path, engine="embedded", trust=[MODULE]) as db:
        main = db.branch("main")
        main.clone("clone", transform=mask, sync="forward")
        broken = MaskColumn("customers", "name", key=f"{MODULE}:no_key")
        with pytest.raises(MaskKeyMissing, match="raised ValueError") as caught:
            main.clone("broken", transform=broken, sync="forward")
        assert "the key of" not in str(caught.value)
    monkeypatch.setattr(mask_keys, "_held", {})
    with livingdb.open(path, engine="embedded") as db:
        db.branch("main").insert("customers", [{"id": 1, "name": "raw"}])
        assert "does not trust" in db.sync("clone").lag.reason
    with livingdb.open(path, engine="embedded", trust=[MODULE]) as db:
        db.branch("main").insert("customers", [{"id": 2, "name": "raw"}])
        assert lags(db) == {"main/clone": 0}
        assert len(rows(db.branch("clone"))) == 2


def test_a_variable_that_is_not_set(
    db: livingdb.Database, main: livingdb.Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(MaskKeyMissing, match=VARIABLE):
        main.clone("clone", transform=MaskColumn("customers", "name", key=SOURCE), sync="forward")
    assert db.branches() == ["main"]


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_another_key_is_another_definition(
    db: livingdb.Database, main: livingdb.Branch, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = main.clone("clone", transform=NAME, sync="forward", when=when)
    clone.derive(
        "counts", "SELECT name, count(*) AS n FROM customers GROUP BY name", when="immediate"
    )
    before, old = names(clone), clone.head
    monkeypatch.setenv(VARIABLE, "a new key of the shop")
    main.insert("customers", [{"id": 30, "name": "raw 0"}])
    (run,) = [run for run in db.propagate() if run.name == "clone"]
    assert "another key" in run.error
    assert db.sync("clone").state == "active"
    assert names(clone) == before
    same = main.clone("clone", transform=NAME, sync="forward", when=when, replace=True)
    assert same == clone
    assert clone.head.parents == (old.id,)
    assert names(clone).isdisjoint(before)
    assert len(names(clone)) == 3
    assert {row["name"] for row in rows(db.branch("counts"), "counts")} == names(clone)
    assert {
        row["name"] for row in db.at(old.id).table("customers").to_arrow().to_pylist()
    } == before
    main.insert("customers", [{"id": 31, "name": "raw 0"}])
    db.propagate()
    assert len(names(clone)) == 3
    assert db.check(deep=True).problems == []


def test_replacing_needs_a_masked_clone(db: livingdb.Database, main: livingdb.Branch) -> None:
    with pytest.raises(livingdb.NotFound, match="clone"):
        main.clone("clone", transform=NAME, sync="forward", replace=True)
    with pytest.raises(InvalidData, match="masks"):
        main.clone("clone", replace=True)


def test_whatever_needs_a_trusted_key_asks_for_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deep checks, merges over a mask and the first read of a lazy clone, in a new process each."""
    mask = MaskColumn("customers", "name", key=FUNCTION)
    with livingdb.create(path, engine="embedded", trust=[MODULE]) as db:
        main = db.branch("main")
        main.create_table("customers", {"id": "bigint", "name": "string"}, key="id")
        main.insert("customers", [{"id": 1, "name": "raw"}])
        main.clone("full", transform=mask, sync="forward")
        main.clone("lazy", transform=mask, sync="forward", materialize="lazy")
        main.evolve(mask, to="two", sync="both")
        main.clone("ours").evolve(mask)
        main.clone("theirs").insert("customers", [{"id": 2, "name": "raw"}])
    for trust in ([], [MODULE]):
        monkeypatch.setattr(mask_keys, "_held", {})
        with livingdb.open(path, engine="embedded", trust=trust) as db:
            assert len(db.check(deep=True).not_checked) == (0 if trust else 3)
        monkeypatch.setattr(mask_keys, "_held", {})
        with livingdb.open(path, engine="embedded", trust=trust) as db:
            if not trust:
                with pytest.raises(MaskKeyMissing, match="does not trust"):
                    rows(db.branch("lazy"))
                with pytest.raises(MaskKeyMissing, match="does not trust"):
                    db.merge("theirs", into="ours")
                continue
            db.merge("theirs", into="ours")
            assert len(names(db.branch("ours"))) == 1
            assert rows(db.branch("lazy")) == rows(db.branch("full"))


def test_altering(db: livingdb.Database, main: livingdb.Branch) -> None:
    clone = main.clone("clone", transform=NAME, sync="forward")
    db.sync("clone").alter(
        conditions=[condition.row_count(at_most=11, table="customers", action="hold")]
    )
    main.insert("customers", [{"id": 20, "name": "raw 1"}])
    assert len(rows(clone)) == 11
    main.insert("customers", [{"id": 21, "name": "raw 1"}])
    assert db.sync("clone").state == "held"
    main.delete("customers", [21])
    db.sync("clone").resume()
    db.sync("clone").alter(when="deferred", conditions=[])
    main.insert("customers", [{"id": 22, "name": "raw 1"}])
    assert db.sync("clone").lag == 1
    db.propagate()
    assert len(rows(clone)) == 12
    assert db.check(deep=True).problems == []
