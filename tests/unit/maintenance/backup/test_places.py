"""Backups in object stores and of databases in PostgreSQL, which restore into any other."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, make_url, text
from tests.unit.maintenance.backup.equal_databases import state_of

import livingdb


def fill(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "v": "string"}, key="id")
    main.insert("t", {"id": range(300), "v": [str(n) for n in range(300)]})
    main.clone("gone")
    db.drop_branch("gone")
    db.compact()
    main.upsert("t", {"id": [1], "v": ["one"]})


def test_a_bucket(s3_server: Any, s3_bucket: str, tmp_path: Path) -> None:
    url = s3_server.url(s3_bucket, "backup")
    with livingdb.create(tmp_path / "shop.ldb") as db:
        fill(db)
        db.backup(url)
        db.branch("main").delete("t", [2])
        s3_server.requests.clear()
        db.backup(url, keep=1)
        written = [each for each in s3_server.requests if each.startswith("PUT")]
        assert sum(each.endswith(".rows?") for each in written) == 1
        assert not any(".pack" in each for each in written)
        (known,) = db._graph.catalog.outside_copies.all()
        assert known.place.startswith(f"s3://{s3_bucket}/backup?")
        with livingdb.restore(url, tmp_path / "copy") as copy:
            assert state_of(copy) == state_of(db)


def test_postgres_to_a_folder_and_back(postgres_url: str, tmp_path: Path) -> None:
    engine = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    names = [f"livingdb_{uuid.uuid4().hex[:12]}" for _ in range(2)]
    with engine.connect() as connection:
        for name in names:
            connection.execute(text(f"CREATE DATABASE {name}"))
    first, second = (shared_url(postgres_url, name, tmp_path / name) for name in names)
    try:
        with livingdb.create(first) as db:
            fill(db)
            db.backup(tmp_path / "from shared")
            expected = state_of(db)
        with livingdb.restore(tmp_path / "from shared", tmp_path / "folder") as copy:
            assert state_of(copy) == expected
            copy.backup(tmp_path / "from folder")
        with livingdb.restore(tmp_path / "from folder", second) as copy:
            assert state_of(copy) == expected
            copy.branch("main").clone("new")
            numbers = [row.number for row in copy._graph.catalog.branches.all()]
            assert sorted(numbers) == [1, 3]
            assert copy.check().problems == []
    finally:
        with engine.connect() as connection:
            for name in names:
                connection.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        engine.dispose()


def shared_url(server: str, name: str, data: Path) -> str:
    parsed = make_url(server).set(drivername="postgresql", database=name)
    parsed = parsed.update_query_dict({"data": str(data)})
    return parsed.render_as_string(hide_password=False)
