"""Creating, opening and closing databases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.frozen.archive import unpack

import livingdb
from livingdb.catalog import migrations, schema
from livingdb.catalog.connect import locate


def test_a_new_database_has_main_and_no_tables(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb", author="ann") as db:
        main = db.branch("main")
        assert db.branches() == ["main"]
        assert main.tables() == []
        assert db.tags() == {}
        assert [s.message for s in main.log()] == ["create the database"]
        assert main.head.author == "ann"
        assert main.head.parents == ()


def test_create_refuses_what_is_there(tmp_path: Path) -> None:
    livingdb.create(tmp_path / "a.ldb").close()
    with pytest.raises(livingdb.AlreadyExists, match="open"):
        livingdb.create(tmp_path / "a.ldb")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "file").write_text("mine")
    with pytest.raises(livingdb.AlreadyExists, match="other files"):
        livingdb.create(tmp_path / "b")
    (tmp_path / "c").write_text("a file")
    with pytest.raises(livingdb.AlreadyExists, match="folder"):
        livingdb.create(tmp_path / "c")


def test_open_finds_or_says_so(tmp_path: Path) -> None:
    with pytest.raises(livingdb.NotFound, match="create"):
        livingdb.open(tmp_path / "none.ldb")
    assert not (tmp_path / "none.ldb").exists()
    with livingdb.create(tmp_path / "a.ldb") as db:
        db.branch("main").create_table("t", {"id": "int"}, key="id")
    with livingdb.open(f"file://{tmp_path}/a.ldb") as db:
        assert db.branch("main").tables() == ["t"]


def test_a_closed_database_says_so(tmp_path: Path) -> None:
    db = livingdb.create(tmp_path / "a.ldb")
    main = db.branch("main")
    db.close()
    db.close()
    assert (repr(db), repr(main)) == ("<Database (closed)>", "<Branch main of (closed)>")
    with pytest.raises(livingdb.LivingDBError, match="closed"):
        db.branch("main")


def test_other_urls_are_refused_without_their_secrets(tmp_path: Path) -> None:
    with pytest.raises(livingdb.Unsupported):
        livingdb.open("mysql://user:canary@host/db")
    with pytest.raises(livingdb.InvalidName) as caught:
        livingdb.open("postgresql://user:canary@host/db")
    assert "canary" not in str(caught.value)


def test_a_newer_catalog_is_refused_and_an_older_one_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    livingdb.create(tmp_path / "a.ldb").close()
    engine = locate(tmp_path / "a.ldb", create=False).engine
    with engine.begin() as connection:
        migrations.set_version(connection, schema.SCHEMA_VERSION + 1)
    with pytest.raises(livingdb.Unsupported, match="newer"):
        livingdb.open(tmp_path / "a.ldb")
    newer = schema.SCHEMA_VERSION + 1
    monkeypatch.setattr(schema, "SCHEMA_VERSION", newer + 2)
    with pytest.raises(livingdb.Unsupported, match="no way leads"):
        livingdb.open(tmp_path / "a.ldb")
    done: list[int] = []
    steps = {n: (lambda _, n=n: done.append(n)) for n in (newer, newer + 1)}
    migrations.migrate(engine, steps)
    assert done == [newer, newer + 1]
    with livingdb.open(tmp_path / "a.ldb") as db:
        assert db.branches() == ["main"]
    engine.dispose()


def test_a_catalog_without_guards_gets_them(tmp_path: Path) -> None:
    path = unpack("catalog-4", tmp_path)
    engine = locate(path, create=False).engine
    with engine.begin() as connection:
        for name in ("trail", "outbox", "watch", "label"):
            connection.exec_driver_sql(f"DROP TABLE {name}")
        connection.exec_driver_sql("DROP INDEX alert_by_fingerprint")
        connection.exec_driver_sql("ALTER TABLE alert DROP COLUMN fingerprint")
        connection.exec_driver_sql("ALTER TABLE sync DROP COLUMN guard")
        migrations.set_version(connection, 3)
    engine.dispose()
    with livingdb.open(path, engine="embedded") as db:
        before = len(db.at("totals").table("totals"))
        db.branch("main").sql("UPDATE orders SET city = 'Vardø' WHERE id = 1")
        assert len(db.branch("totals").table("totals")) == before + 1
        assert {alert.fingerprint for alert in db.alerts()} == {""}
        assert [dict(sync.guard) for sync in db._graph.catalog.syncs.all() if sync.guard] == []
        assert [sync.trail for sync in db.syncs() if sync.trail] == []
        assert (db.watches(), db.labels()) == ([], {})


def test_the_package_imports_no_engine() -> None:
    program = (
        "import sys, livingdb; livingdb.create; livingdb.open\n"
        "print([m for m in ('pyspark', 'duckdb', 'pandas', 'sqlglot') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_first_read_imports_no_more_than_it_uses(tmp_path: Path) -> None:
    path = tmp_path / "shop.ldb"
    with livingdb.create(path) as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "double"}, key="id")
        main.insert("t", {"id": list(range(20_000)), "v": [0.5] * 20_000})
    unused = (
        "pyarrow.compute",
        "livingdb.graph.draft",
        "livingdb.trees.merge",
        "livingdb.trees.diff",
    )
    program = (
        "import sys, livingdb\n"
        f"row = livingdb.open({str(path)!r}).branch('main').table('t').get(70)\n"
        "assert row == {'id': 70, 'v': 0.5}, row\n"
        f"print([m for m in {unused!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]", done.stderr
