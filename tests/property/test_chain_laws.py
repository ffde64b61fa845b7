"""Laws of chains of schema versions: composed, they are what they are stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from tests.property.chain_lab import TABLE, Chain, random_chain
from tests.property.trying import tries

import livingdb
from livingdb.errors import LivingDBError
from livingdb.evolution.schema_change import SchemaChange


@pytest.mark.parametrize(
    ("seed", "changes", "rows"),
    [
        (1, 10, 10),
        *(pytest.param(seed, 16, rows, marks=pytest.mark.slow) for seed, rows in ((1, 10), (2, 0))),
        *(pytest.param(seed, 30, 10, marks=pytest.mark.slow) for seed in (1, 2, 3)),
    ],
)
def test_a_chain_is_what_its_stages_are(tmp_path: Path, seed: int, changes: int, rows: int) -> None:
    check_chain(tmp_path, seed, changes, rows, every=4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 100 + max(tries(4), 4)))
def test_long_chains_are_what_their_stages_are(tmp_path: Path, seed: int) -> None:
    check_chain(tmp_path, seed, 100, 25 * (seed % 4))


def check_chain(home: Path, seed: int, changes: int, rows: int, every: int = 1) -> None:
    """Reads and writes of all versions, in this process and in one that knows nothing yet."""
    for chain in random_chain(home / "chain.ldb", seed, changes, rows):
        chain.check(every)
    chain.reopen()
    chain.random_write()
    chain.check(every)
    check_list(home, chain)
    chain.db.close()


def check_list(home: Path, chain: Chain) -> None:
    """All changes in one list make what they make one by one, each with its rows stored."""
    first = chain.db.branch("v0").table(TABLE)
    with livingdb.create(home / "list.ldb") as db:
        main = db.branch("main")
        main.create_table(TABLE, first.schema, key=["region", "id"])
        main.upsert(TABLE, first.to_arrow())
        whole, stages = main.clone("whole"), main.clone("stages")
        listed = _outcome(whole, [chain.changes])
        assert listed == _outcome(stages, [[change] for change in chain.changes])


def _outcome(
    branch: livingdb.Branch, steps: Sequence[Sequence[SchemaChange]]
) -> dict[str, pa.Table] | type[LivingDBError]:
    try:
        for changes in steps:
            branch.evolve(list(changes))
            branch.migrate()
        return {name: branch.table(name).to_arrow() for name in branch.tables()}
    except LivingDBError as error:
        return type(error)
