"""Answers to the prepared queries of plans, by either engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import pyarrow as pa

from livingdb.derivation.arrow_answers import ArrowQuery, arrow_query
from livingdb.derivation.plan import Ask, Relation
from livingdb.derivation.stage_tables import definition_for
from livingdb.engines.embedded.results import null_types_as_text
from livingdb.engines.engine_choice import choose_engine, load_engine
from livingdb.engines.portable.portability import PortableQuery, as_spark_types
from livingdb.engines.portable.recursive_queries import find_recursion
from livingdb.engines.request import Request, Source
from livingdb.engines.tree_parts import TreeParts
from livingdb.tables.recipe import Definition
from livingdb.tables.rows import RowSet

__all__ = ["Answers", "EmbeddedAnswers", "EngineAnswers", "request_of"]


class Answers(Protocol):
    """Answers prepared queries."""

    name: str

    def answer(self, ask: Ask, relations: Mapping[str, Relation]) -> pa.Table:
        """The rows a prepared query gives over these relations."""
        ...


def request_of(ask: Ask, relations: Mapping[str, Relation], trust: Sequence[str] = ()) -> Request:
    """A prepared query as a request to any engine."""
    sources = {
        name: relation if isinstance(relation, Source) else Source(relation)
        for name, relation in relations.items()
    }
    return Request(ask.query.copy(), sources, trust=trust)


@dataclass(frozen=True)
class _Text:
    text: str
    portable: PortableQuery | str


_arrow_queries: WeakKeyDictionary[Ask, ArrowQuery | None] = WeakKeyDictionary()
"""The queries that need no engine where their relations are small."""


_texts: WeakKeyDictionary[Ask, _Text] = WeakKeyDictionary()
"""What the embedded engine reads; the columns of a query's relations never change."""


class EmbeddedAnswers:
    """Answers in this process.  A query's text is made once."""

    name = "embedded"

    def answer(self, ask: Ask, relations: Mapping[str, Relation]) -> pa.Table:
        """The rows a prepared query gives over these relations."""
        from livingdb.engines.embedded.session import EmbeddedEngine, Session

        if ask not in _arrow_queries:
            _arrow_queries[ask] = arrow_query(ask.query)
        quick = _arrow_queries[ask]
        small = None if quick is None else quick.answer(relations)
        if small is not None:
            return small
        with Session() as session:
            known = _texts.get(ask)
            if known is None:
                request = request_of(ask, relations)
                if any(find_recursion(request.query)):
                    return null_types_as_text(EmbeddedEngine().rows(request))
                known = _texts[ask] = _Text(session.prepare_sql(request), request.portable)
            else:
                for name, relation in relations.items():
                    session.register(_scannable(relation), name)
            found = session.query(known.text, {})
        if isinstance(known.portable, PortableQuery):
            return as_spark_types(found, known.portable)
        return null_types_as_text(found)


def _is_in_memory(relations: Mapping[str, Relation]) -> bool:
    """Whether all rows are in this process, and not many."""
    tables = [rows for rows in relations.values() if isinstance(rows, pa.Table)]
    is_all = len(tables) == len(relations)
    return is_all and sum(rows.num_rows for rows in tables) <= AT_HAND_ROWS


def _scannable(relation: Relation) -> Any:
    """Rows as the embedded engine reads them."""
    from livingdb.engines.embedded.arrow_dataset import RowSetDataset

    rows = relation.rows if isinstance(relation, Source) else relation
    if isinstance(rows, RowSet):
        return RowSetDataset(rows, relation.ranges if isinstance(relation, Source) else None)
    return rows


AT_HAND_ROWS = 200_000
"""In this process already, up to which they are not sent elsewhere to be queried."""
_shared: WeakKeyDictionary[Ask, bool] = WeakKeyDictionary()
"""Whether every engine answers a query alike."""


class EngineAnswers:
    """Answers by the engine that suits each query: Spark, or for `auto` whichever is cheaper.

    A few rows that are at hand are not sent to Spark if the answer is the same here: a refresh
    asks many small questions about what changed, and each would be a job.
    """

    def __init__(self, wanted: str | None, trust: Sequence[str] = ()):
        self._wanted = wanted
        self._trust = trust
        self.name = wanted or "spark"

    def answer(self, ask: Ask, relations: Mapping[str, Relation]) -> pa.Table:
        """The rows a prepared query gives over these relations."""
        request = request_of(ask, relations, self._trust)
        if _is_in_memory(relations):
            if ask not in _shared:
                _shared[ask] = isinstance(request.portable, PortableQuery)
            if _shared[ask]:
                return EmbeddedAnswers().answer(ask, relations)
        name, _ = choose_engine(request, self._wanted, pipeline=True)
        if name == "embedded":
            return EmbeddedAnswers().answer(ask, relations)
        return load_engine(name).rows(request)

    def build_trees(
        self, ask: Ask, relations: Mapping[str, Relation], key: tuple[str, ...] | None, url: str
    ) -> tuple[Definition, TreeParts] | None:
        """The answer as trees that Spark's tasks build; None if the rows come here instead."""
        request = request_of(ask, relations, self._trust)
        if key is None or choose_engine(request, self._wanted, pipeline=True)[0] != "spark":
            return None
        from livingdb.engines.spark.build_trees import arrow_schema
        from livingdb.engines.spark.engine import SparkEngine

        engine = load_engine("spark")
        assert isinstance(engine, SparkEngine)
        definition = definition_for(arrow_schema(engine.frame(request)), key)
        return definition, engine.tree(request, definition, url)
