"""Every pair of schema changes on two branches, merged either way, as the oracle says."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import pytest
from tests.composition.model import State
from tests.merging.merge_cases import BASE, CASES, EDITS, edited, kind_of
from tests.merging.merge_lab import (
    base_ids,
    create_base,
    described,
    kept_ids,
    lookups_of,
    make_edits,
    shown_state,
)
from tests.merging.merge_oracle import (
    MergeVerdict,
    Side,
    made_side,
    merge_sides,
    referenced_rows,
)
from tests.property.trying import HAS_TIME
from tests.thinned import thinned

import livingdb
from livingdb import evolution
from livingdb.errors import LivingDBError, MergeConflict
from livingdb.evolution.merge_schemas import SchemaMerge, merge_schemas
from livingdb.evolution.schema_change import Schemas
from livingdb.evolution.schema_elements import MadeChange, planned_tables
from livingdb.evolution.schema_history import visible_schemas

NAMES = list(CASES)
OF_ROWS = {"rows", "loss"}
"""Verdicts that need rows."""


@cache
def side(name: str, who: str, has_edits: bool) -> Side:
    state = edited(BASE, EDITS[who]) if has_edits else BASE
    return made_side(BASE, [CASES[name]], who[0], state)


@cache
def verdict(ours: str, theirs: str, has_edits: bool) -> MergeVerdict:
    return merge_sides(BASE, side(ours, "ours", has_edits), side(theirs, "theirs", has_edits))


def test_every_change_has_a_case() -> None:
    assert {kind_of(name) for name in CASES} == set(evolution.__all__) - {"SchemaChange"}


@pytest.mark.slow
def test_the_oracle_says_the_same_either_way() -> None:
    for place, one in enumerate(NAMES):
        for other in NAMES[place :: 1 if HAS_TIME else 3]:
            there, back = verdict(one, other, False), verdict(other, one, False)
            assert there.kind == back.kind, (one, other)
            if not there.is_conflict:
                assert unordered(there.state) == unordered(back.state), (one, other)


def unordered(state: State) -> dict[str, Any]:
    """What a state shows, whatever the order of columns; no lookup rows that nobody refers to."""
    found = described(state)
    for name, table in state.items():
        found[name]["columns"] = sorted(found[name]["columns"])
        found[name]["rows"] = referenced_rows(table, state)
    return found


# --- schemas alone ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Schemas:
    with create_base(tmp_path_factory.mktemp("base") / "base.ldb", BASE) as db:
        return visible_schemas(db._graph, db._graph.resolve("main").snapshot)


def merged_schemas(base: Schemas, ours: str, theirs: str) -> SchemaMerge:
    made = []
    for number, name in enumerate((ours, theirs)):
        change = CASES[name].build().with_id(f"{number:x}" * 32)
        made.append([MadeChange(change, base, planned_tables(change, base))])
    sides = (base, made[0][0].after, made[1][0].after)
    return merge_schemas(sides, ([], made[0], made[1]))


@pytest.mark.parametrize("ours", thinned(NAMES, every=2))
def test_the_schemas_of_every_third_pair(schemas: Schemas, ours: str) -> None:
    check_schemas(schemas, ours, NAMES[NAMES.index(ours) % 3 :: 3])


@pytest.mark.slow
@pytest.mark.parametrize("ours", NAMES)
def test_the_schemas_of_every_pair(schemas: Schemas, ours: str) -> None:
    check_schemas(schemas, ours, NAMES)


def check_schemas(schemas: Schemas, ours: str, others: list[str]) -> None:
    for theirs in others:
        wanted = verdict(ours, theirs, has_edits=False)
        found = merged_schemas(schemas, ours, theirs)
        if wanted.is_conflict and wanted.kind not in OF_ROWS:
            assert found.conflicts, (theirs, wanted)
            assert {one.table for one in found.conflicts} <= wanted.tables, (theirs, wanted)
        elif not wanted.is_conflict:
            assert not found.conflicts, (theirs, found.conflicts)
            shown = {name: known.schema for name, known in found.tables.items()}
            names = {
                name: [column.name for column in known.visible_columns]
                for name, known in shown.items()
            }
            assert names == {name: list(table.names) for name, table in wanted.state.items()}


# --- schemas and rows ---------------------------------------------------------------------------


class Lab:
    """A database with a branch for each case and side, made when it is first asked for."""

    def __init__(self, db: livingdb.Database):
        self.db = db
        self.ids = base_ids(db, BASE)

    def branch(self, name: str, who: str, has_edits: bool) -> livingdb.Branch:
        title = f"{who}/{has_edits}/{NAMES.index(name)}"
        known = {branch.name for branch in self.db.branches()}
        start = f"{who}/{has_edits}"
        if start not in known:
            begun = self.db.branch("main").clone(start)
            if has_edits:
                make_edits(begun, EDITS[who])
        if title not in known:
            self.db.branch(start).clone(title).evolve(CASES[name].build())
        return self.db.branch(title)

    def merge(self, ours: str, theirs: str, has_edits: bool) -> LivingDBError | None:
        """Merge on the branch `merged`; what was raised."""
        if "merged" in {branch.name for branch in self.db.branches()}:
            self.db.drop_branch("merged")
        self.branch(ours, "ours", has_edits).clone("merged")
        source = self.branch(theirs, "theirs", has_edits)
        try:
            self.db.merge(source.name, into="merged")
        except LivingDBError as error:
            return error
        return None


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with create_base(tmp_path_factory.mktemp("pairs") / "pairs.ldb", BASE) as db:
        yield Lab(db)


def check_pair(lab: Lab, ours: str, theirs: str, has_edits: bool) -> None:
    wanted = verdict(ours, theirs, has_edits)
    error = lab.merge(ours, theirs, has_edits)
    case = f"{ours} | {theirs}: {wanted.kind} {wanted.reason}"
    if wanted.is_conflict:
        assert isinstance(error, MergeConflict), (case, error)
        assert set(error.conflicts) <= wanted.tables, (case, error)
        return
    assert error is None, case
    assert shown_state(lab.db, "merged", lookups_of(wanted.state)) == described(wanted.state), case
    assert kept_ids(lab.db, "merged", wanted.state, lab.ids) == [], case


def sample() -> list[tuple[str, str, bool]]:
    """Pairs with edits of rows: each case on either side, with a partner that was drawn once."""
    partners = Random(7).sample(NAMES, len(NAMES))
    return [(one, other, True) for one, other in zip(NAMES, partners, strict=True)]


SAME_ELEMENT = [
    ("drop t", "rename t.a to p", False),
    ("rename t.a to p", "split t by a", True),
    ("join t, u", "rename t.id to nr", True),
    ("decompose t", "rename t.s to text", True),
    ("rename t.s to text", "normalize t.s", True),
    ("check t.a as pos", "check t.b as pos", True),
    ("add t.e from a", "add t.e from b", True),
    ("add t.c", "add t.c", True),
    ("drop check v.small", "rename v.n to i", True),
    ("rename v.n to i", "drop check v.small", True),
    ("mask t.s null", "mask t.s constant", False),
    ("link v.n to u", "join t, u", True),
]


@pytest.mark.parametrize("pair", [*SAME_ELEMENT, *thinned(sample())])
def test_rows_of_some_pairs(lab: Lab, pair: tuple[str, str, bool]) -> None:
    check_pair(lab, *pair)


@pytest.mark.slow
@pytest.mark.parametrize("has_edits", [True, False])
@pytest.mark.parametrize("ours", NAMES)
def test_rows_of_every_pair(lab: Lab, ours: str, has_edits: bool) -> None:
    for theirs in NAMES:
        check_pair(lab, ours, theirs, has_edits)


@pytest.mark.slow
def test_the_oracle_says_all_it_can_say() -> None:
    kinds = {verdict(one, other, False).kind for one in NAMES for other in NAMES}
    kinds |= {verdict(one, other, True).kind for one, other, _ in sample()}
    assert kinds == {"merges", "unifies", "schema", "rows", "loss"}
