"""A cluster with its driver, and a database that all of it can reach."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from tests.cluster.cluster import Cluster
from tests.cluster.driver import Driver
from tests.cluster.program import HOST
from tests.conftest import ObjectStoreServer

import livingdb


@pytest.fixture
def url(postgres_url: str, s3_server: ObjectStoreServer, s3_bucket: str) -> Iterator[str]:
    """A database with its catalog in PostgreSQL and its data in an object store."""
    name = f"livingdb_{uuid.uuid4().hex[:12]}"
    engine = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    parsed = make_url(postgres_url).set(drivername="postgresql", database=name)
    parsed = parsed.update_query_dict({"data": s3_server.url(s3_bucket, "shop")})
    made = parsed.render_as_string(hide_password=False)
    livingdb.create(made, author="ann").close()
    yield made
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def cluster(s3_server: ObjectStoreServer, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of two workers, which know how to reach the object store."""
    made = Cluster(tmp_path)
    try:
        made.add_worker()
        made.add_worker()
        yield made
    finally:
        made.close()


@pytest.fixture
def driver(cluster: Cluster) -> Iterator[Driver]:
    """A session of the cluster."""
    config = {
        "spark.driver.bindAddress": HOST,
        "spark.driver.host": HOST,
        "spark.executor.cores": "1",
        "spark.executor.memory": "768m",
    }
    made = Driver(master=cluster.url, memory="1g", config=config)
    try:
        yield made
    finally:
        made.close()
