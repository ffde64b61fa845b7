"""What of a Parquet file gets a dictionary, and that its rows are those that were given."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from livingdb.database.row_groups import RowGroups

ROWS = 20_000


def written(path: Path, rows: pa.Table, pieces: int = 1000) -> pq.ParquetFile:
    with RowGroups(path, rows.schema) as groups:
        for batch in rows.to_batches(max_chunksize=pieces):
            groups.add(batch)
    return pq.ParquetFile(path)


def with_dictionary(file: pq.ParquetFile) -> set[str]:
    group = file.metadata.row_group(0)
    columns = (group.column(number) for number in range(group.num_columns))
    return {column.path_in_schema for column in columns if column.has_dictionary_page}


def test_what_hardly_repeats_has_no_dictionary(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": range(ROWS),
            "name": [f"customer {number}" for number in range(ROWS)],
            "city": [f"city {number % 10}" for number in range(ROWS)],
            "tags": [[f"tag {number % 7}"] for number in range(ROWS)],
            "nothing": pa.nulls(ROWS, pa.string()),
        }
    )
    file = written(tmp_path / "a.parquet", rows)
    assert with_dictionary(file) == {"city", "tags.list.element", "nothing"}
    assert file.read() == rows
    assert file.schema_arrow == rows.schema


def test_all_that_repeats_has_one(tmp_path: Path) -> None:
    rows = pa.table({"a": [number % 5 for number in range(ROWS)]})
    assert with_dictionary(written(tmp_path / "a.parquet", rows)) == {"a"}


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows(tmp_path: Path, count: int) -> None:
    rows = pa.table(
        {"a": pa.array(range(count), pa.int32()), "a.b": pa.array(["x"] * count, pa.string())}
    )
    assert written(tmp_path / "a.parquet", rows).read() == rows


def test_who_fails_writes_no_end(tmp_path: Path) -> None:
    def fail() -> None:
        with RowGroups(tmp_path / "a.parquet", pa.schema({"a": pa.int64()})):
            raise ValueError("on the way")

    with pytest.raises(ValueError, match="on the way"):
        fail()
    assert not (tmp_path / "a.parquet").exists()


def test_groups_follow_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livingdb.database.row_groups._GROUP_ROWS", 3000)
    rows = pa.table({"id": range(ROWS), "city": [f"city {n % 10}" for n in range(ROWS)]})
    file = written(tmp_path / "a.parquet", rows)
    groups = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert groups == [3000] * 6 + [2000]
    assert file.read() == rows


def test_what_goes_wrong_with_a_group_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livingdb.database.row_groups._GROUP_ROWS", 10)
    batch = pa.record_batch({"a": range(10)})

    def write(times: int) -> None:
        with RowGroups(tmp_path / "nowhere" / "a.parquet", batch.schema) as groups:
            for _ in range(times):
                groups.add(batch)

    for times in (1, 2, 3):
        with pytest.raises(OSError, match="nowhere"):
            write(times)
