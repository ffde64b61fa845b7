"""Tags stay on their snapshots, and share names with nobody."""

from __future__ import annotations

import pytest

from livingdb.catalog.catalog import Catalog
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.tags import TagRow
from livingdb.errors import AlreadyExists


def test_tags_stay_where_they_are(catalog: Catalog, line: list[SnapshotRow]) -> None:
    with catalog.write() as connection:
        catalog.tags.add(connection, "v2", line[2].sequence, 7)
        catalog.tags.add(connection, "v1", line[1].sequence, 8)
    v1, v2 = TagRow("v1", line[1].sequence, 8), TagRow("v2", line[2].sequence, 7)
    assert catalog.tags.all() == [v1, v2]
    with (
        pytest.raises(AlreadyExists, match="tag 'v1'"),
        catalog.write() as connection,
    ):
        catalog.tags.add(connection, "v1", line[3].sequence, 9)
    assert catalog.tags.find("v1") == v1
    with catalog.write() as connection:
        assert catalog.tags.drop(connection, "v1")
        assert not catalog.tags.drop(connection, "v1")
    assert catalog.tags.find("v1") is None
