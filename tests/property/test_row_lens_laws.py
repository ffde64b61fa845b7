"""Laws of schema changes of one table: what crosses is what the models say, and stays so.

The laboratory itself checks with every write that creating is inserting, that what came of a
change can be written back without any effect, and that nothing else changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.lens_lab import Pair
from tests.property.policy_model import POLICY_CASES
from tests.property.row_lens_model import CASES, Case, Refusal, Row, Values, shown
from tests.property.trying import tries
from tests.thinned import thinned

from livingdb.errors import InvalidData
from livingdb.evolution import MaskColumn
from livingdb.evolution.lenses.lens import Lens
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

KEY = {"id": "int", "code": "string"}
many = settings(max_examples=tries(30))  # of each case, of which there are many
some = settings(max_examples=tries(15))
few = settings(max_examples=tries(10))
ALL_CASES = [*CASES, *POLICY_CASES]
each_case = pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
every_second, every_fourth, every_other_fourth = (
    pytest.mark.parametrize(
        "case", thinned(ALL_CASES, every=every, first=first), ids=lambda case: case.name
    )
    for every, first in ((2, 0), (4, 1), (4, 3))
)
"""Together they are all."""


@dataclass(frozen=True)
class Step:
    """Rows written and keys deleted on one side."""

    side: str
    rows: tuple[Row, ...]
    deletes: tuple[tuple[Any, ...], ...]


@cache
def lens_of(case: Case) -> Lens:
    schema = TableSchema.of({**KEY, **case.schema}, list(KEY), case.defaults)
    for name, text in case.computed.items():
        schema = schema.with_column(replace(schema.column(name), computed=text))
    schema = replace(schema, checks=tuple(case.checks))
    return case.change.plan({"t": Definition(schema, Layout())})


def keys() -> st.SearchStrategy[tuple[int, str]]:
    return st.tuples(st.sampled_from([0, 1, 2, -(2**31)]), st.sampled_from(["", "é"]))


@st.composite
def written(draw: st.DrawFn, values: Values, names: tuple[str, ...]) -> tuple[Row, ...]:
    wanted = draw(st.lists(keys(), max_size=6, unique=True))
    return tuple(
        {**dict(zip(names, key, strict=True)), **draw(st.fixed_dictionaries(dict(values)))}
        for key in wanted
    )


def key_names(case: Case, side: str) -> tuple[str, ...]:
    return tuple(case.new_key.get(name, name) if side == "new" else name for name in KEY)


@st.composite
def steps(draw: st.DrawFn, case: Case, side: str | None = None) -> Step:
    where = side or draw(st.sampled_from(["old", "new"]))
    values = case.old if where == "old" else case.new
    rows = draw(written(values, key_names(case, where)))
    return Step(where, rows, tuple(draw(st.lists(keys(), max_size=2, unique=True))))


# --- the model ------------------------------------------------------------------------------------


class Model:
    """Both sides as dicts of rows by key."""

    def __init__(self, case: Case):
        self.case = case
        self.sides: dict[str, dict[tuple[Any, ...], Row]] = {"old": {}, "new": {}}

    def write(self, step: Step) -> None:
        """Do it, or raise `Refusal` and do nothing."""
        case = self.case
        other_name = "new" if step.side == "old" else "old"
        here, there = dict(self.sides[step.side]), dict(self.sides[other_name])
        carry = case.to_new if step.side == "old" else case.to_old
        fill = case.fill_old if step.side == "old" else case.fill_new
        names = key_names(case, step.side)
        rows = {tuple(row[name] for name in names): row for row in step.rows}
        for key in {**dict.fromkeys(step.deletes), **rows}:
            before = here.pop(key, None)
            row = rows.get(key)
            other = there.get(key)
            if row is None:
                if before is not None:
                    there.pop(key, None)
                continue
            here[key] = fill(row, before)
            made = carry(before, here[key], other)
            if made is None:
                there.pop(key, None)
            else:
                there[key] = made
        self.sides = {step.side: here, other_name: there}


def rows_shown(rows: list[Row]) -> list[dict[str, str]]:
    shown_rows = [{name: shown(value) for name, value in row.items()} for row in rows]
    return sorted(shown_rows, key=lambda row: sorted(row.items()))


def assert_agree(pair: Pair, model: Model) -> None:
    for side, tables in (("old", pair.old), ("new", pair.new)):
        assert rows_shown(tables["t"]) == rows_shown(list(model.sides[side].values())), side


def do(pair: Pair, model: Model, step: Step) -> None:
    """The same on both; a refusal of one is a refusal of the other, and changes nothing."""
    write = pair.write_old if step.side == "old" else pair.write_new
    writes = {"t": (step.rows, step.deletes)}
    try:
        model.write(step)
    except Refusal:
        with pytest.raises(InvalidData):
            write(writes)
        return
    try:
        write(writes)
    except InvalidData as error:
        pytest.fail(f"{step}: {error}")
    assert_cheap(pair, step)


def assert_cheap(pair: Pair, step: Step) -> None:
    """The last write looked at the rows that it names, and at no others."""
    touched = len({tuple(row.values())[:2] for row in step.rows} | set(step.deletes))
    assert pair.cost.keys <= touched
    assert pair.cost.values == 0
    assert pair.cost.scans == 0


def is_valid(pair: Pair, step: Step) -> bool:
    """Whether the side that is written takes the rows."""
    side = pair.old_side if step.side == "old" else pair.new_side
    try:
        side.delta("t", step.rows, ())
    except InvalidData:
        return False
    return True


# --- laws -----------------------------------------------------------------------------------------


@every_second
@some
@given(data=st.data())
def test_any_writes_on_both_sides_agree_with_the_model(case: Case, data: st.DataObject) -> None:
    write_on_both_sides(case, data)


@pytest.mark.slow
@each_case
@many
@given(data=st.data())
def test_very_many_writes_agree_with_the_model(case: Case, data: st.DataObject) -> None:
    write_on_both_sides(case, data)


def write_on_both_sides(case: Case, data: st.DataObject) -> None:
    pair, model = Pair(lens_of(case)), Model(case)
    for step in data.draw(st.lists(steps(case), max_size=5)):
        if is_valid(pair, step):
            do(pair, model, step)
            assert_agree(pair, model)
    pair.check_laws()


@every_fourth
@few
@given(data=st.data())
def test_creating_is_inserting_into_nothing(case: Case, data: st.DataObject) -> None:
    step = data.draw(steps(case, "old"))
    model = Model(case)
    if not is_valid(Pair(lens_of(case)), step):
        return
    try:
        model.write(replace(step, deletes=()))
    except Refusal:
        with pytest.raises(InvalidData):
            Pair(lens_of(case), {"t": step.rows})
        return
    pair = Pair(lens_of(case), {"t": step.rows})
    assert_agree(pair, model)
    pair.check_laws()


@every_other_fourth
@few
@given(data=st.data())
def test_a_lens_looks_at_the_rows_of_the_change_only(case: Case, data: st.DataObject) -> None:
    pair = Pair(lens_of(case))
    for step in data.draw(st.lists(steps(case), min_size=2, max_size=4)):
        write = pair.write_old if step.side == "old" else pair.write_new
        try:
            write({"t": (step.rows, step.deletes)})
        except InvalidData:
            continue
        assert_cheap(pair, step)


# --- hashes: known by what they do, not by what they are ----------------------------------------

HASHED: Mapping[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=3),
    "binary": st.binary(max_size=3),
    "tinyint": st.integers(-128, 127),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(),
    "float": st.floats(width=32),
    "decimal(5,2)": st.decimals(-999, 999, places=2),
    "decimal(38,0)": st.decimals(-(10**20), 10**20, places=0),
    "date": st.dates(),
    "timestamp_ntz": st.datetimes(),
    "boolean": st.booleans(),
}


@pytest.mark.parametrize("kind", list(HASHED))
@few
@given(data=st.data())
def test_a_hash_depends_on_value_and_key_only(kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | HASHED[kind], min_size=1, max_size=6))
    schema = TableSchema.of({"id": "int", "v": kind}, "id")
    tables = {"t": Definition(schema, Layout())}
    rows = [{"id": at, "v": value} for at, value in enumerate([*values, *values])]

    def masked(key: str) -> list[Any]:
        pair = Pair(MaskColumn("t", "v", key=key).plan(tables), {"t": rows})
        pair.check_laws()
        return [row["v"] for row in pair.new["t"]]

    found = masked("secret")
    assert found == masked("secret")
    assert found[: len(values)] == found[len(values) :]
    assert [v is None for v in found] == [row["v"] is None for row in rows]
    if kind == "string":
        assert all(v is None or (len(v) == 32 and int(v, 16) >= 0) for v in found)
        assert all(a is None or a != b for a, b in zip(found, masked("other"), strict=True))
