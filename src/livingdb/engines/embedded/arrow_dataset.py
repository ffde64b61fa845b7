"""The rows of a version as a data set that an engine scans.

The engine asks for the columns it needs and hands down conditions; of the table only the part
that the query can need is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from livingdb.engines.index_lookup import keys_in_ranges
from livingdb.engines.pruning import scan_bounds
from livingdb.engines.value_ranges import Ranges
from livingdb.errors import LivingDBError
from livingdb.tables.rows import RowSet
from livingdb.trees.keys import KeyArray
from livingdb.trees.scan import ALL, Span

__all__ = ["RowSetDataset"]


class RowSetDataset(ds.Dataset):  # type: ignore[misc]
    """Rows with keys in a span, to be scanned, and the ranges their columns need to be read in.

    `ends_early`: who reads them may want the first of them only; none is read ahead.
    """

    def __init__(
        self,
        rows: RowSet,
        wanted: Mapping[str, Ranges] | None = None,
        within: Span = ALL,
        *,
        ends_early: bool = False,
    ):
        self.rows = rows
        self.part = scan_bounds(rows.schema, wanted or {}, within)
        self._within = within
        self._wanted = wanted or {}
        self._ends_early = ends_early
        self.failure: LivingDBError | None = None
        """Why a scan ended early: engines lose the error they are handed."""
        self._names = _distinct_names([column.name for column in rows.schema.visible_columns])

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns under names that differ in more than case."""
        fields = [self.rows.schema.column(name).field for name in self._names.values()]
        return pa.schema(
            [field.with_name(name) for name, field in zip(self._names, fields, strict=True)]
        )

    def scanner(
        self, columns: Sequence[str] | None = None, filter: Any = None, **options: Any
    ) -> Any:
        """What the engine reads from: the columns of the rows for which the filter holds."""
        chosen = list(self._names) if columns is None else list(columns)
        if filter is None:
            return _Stream(self._reader(chosen))
        try:
            text, known = str(filter), set(chosen)
            needed = chosen + [n for n in self._names if n not in known and n in text]
            return self._filtered_scanner(chosen, needed, filter)
        except (pa.ArrowInvalid, KeyError):
            return self._filtered_scanner(chosen, list(self._names), filter)

    def _filtered_scanner(self, chosen: list[str], needed: list[str], condition: Any) -> Any:
        reader = self._reader(needed)
        scanner = ds.Scanner.from_batches(reader, columns=chosen, filter=condition)
        if not self._ends_early:
            return scanner
        kept = (batch.filter(condition).select(chosen) for batch in reader)
        return _Stream(pa.RecordBatchReader.from_batches(scanner.projected_schema, kept))

    def _reader(self, columns: Sequence[str]) -> pa.RecordBatchReader:
        fields = {field.name: field for field in self.schema}
        schema = pa.schema([fields[name] for name in columns])
        return pa.RecordBatchReader.from_batches(schema, self._batches(columns, schema))

    def _batches(self, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        names = [self._names[name] for name in columns]
        try:
            keys = self._indexed_keys() if names else None
            if keys is not None:
                yield pa.RecordBatch.from_arrays(self.rows.lookup(keys, names)[1], schema=schema)
                return
            for span in self.part.spans:
                for batch in self.rows.batches(names, span, self.part.filters):
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        except LivingDBError as error:
            self.failure = error
            raise

    def _indexed_keys(self) -> KeyArray | None:
        """The keys that an index names, unless keys are told already."""
        if any(span.is_bounded and span != self._within for span in self.part.spans):
            return None
        keys = keys_in_ranges(self.rows, self._wanted)
        return None if keys is None else keys[slice(*self._within.rows(keys))]


class _Stream:
    """A scanner that only streams."""

    def __init__(self, reader: pa.RecordBatchReader):
        self._reader = reader

    def to_reader(self) -> pa.RecordBatchReader:
        """The batches."""
        return self._reader


def _distinct_names(names: Sequence[str]) -> dict[str, str]:
    """Names that differ in more than case, and the names they stand for."""
    taken = {name.casefold() for name in names}
    seen: set[str] = set()
    given: dict[str, str] = {}
    for name in names:
        shown, number = name, 1
        while shown.casefold() in seen or (shown != name and shown.casefold() in taken):
            shown, number = f"{name}_{number}", number + 1
        seen.add(shown.casefold())
        given[shown] = name
    return given
