"""An answer that is planned and not computed yet: its columns are known, its rows come later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import pyarrow as pa

from livingdb.engines.embedded.session import NotEmbedded
from livingdb.engines.engine_choice import answer_request, choose_engine, load_engine
from livingdb.engines.portable.portability import PortableQuery, Unanswerable
from livingdb.engines.request import Request
from livingdb.engines.row_stream import RowStream, one_batch

__all__ = ["PlannedAnswer"]


@dataclass(frozen=True)
class PlannedAnswer:
    """What an engine will answer to a request: the same rows as `answer_request` gives.

    The request holds versions, so that the answer is the same whenever it is opened.
    """

    request: Request
    wanted: str | None = None

    @cached_property
    def engine(self) -> str:
        """The engine that is to answer, or that did."""
        return choose_engine(self.request, self.wanted)[0]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        known = self.request.portable
        if isinstance(known, PortableQuery):
            return pa.schema(list(known.columns))
        if isinstance(known, Unanswerable):
            return answer_request(self.request, self.wanted)[0].schema
        return load_engine(self.engine).schema(self.request)

    def open(self) -> RowStream:
        """The rows, as they come.

        The first of them are computed at once: what the embedded engine cannot answer after all
        is answered by Spark, as long as nothing was given away.
        """
        is_sure = not isinstance(self.request.portable, Unanswerable)
        if self.engine == "embedded" and is_sure:
            try:
                return _begun(load_engine("embedded").stream(self.request))
            except NotEmbedded:
                if self.wanted == "embedded":
                    raise
        rows, self.__dict__["engine"] = answer_request(self.request, self.wanted)
        return RowStream.of(rows)


def _begun(stream: RowStream) -> RowStream:
    """The stream after its first batch was computed."""
    first = next(stream, None)
    if first is None:
        return RowStream(stream.schema, [one_batch(stream.schema.empty_table())])
    batches: Iterator[pa.RecordBatch] = chain([first], stream)
    return RowStream(stream.schema, batches, stream.close)
