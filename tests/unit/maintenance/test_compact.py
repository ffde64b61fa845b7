"""Compacting changes bytes and nothing else; storage adds up; reach finds every chunk once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import livingdb
from livingdb.chunks.address import Address
from livingdb.evolution import RenameColumn
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.storage.drain_journal import drain_journal
from livingdb.maintenance import compact as compact_module
from livingdb.maintenance.compact import compact
from livingdb.maintenance.reach import Trees, recipe_chunks, recipe_inputs, references
from livingdb.maintenance.storage import measure_storage
from livingdb.tables.recipe import Change, Derived, Rows

Contents = dict[tuple[str, str], tuple[Address, pa.Table]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two branches, a schema change and a view over a table that was folded some times."""
    path: Path = tmp_path_factory.mktemp("compact") / "db"
    with livingdb.create(path, author="ann", engine="embedded") as database:
        main = database.branch("main")
        layout = livingdb.Layout(target_rows=32, fold=0.3)
        columns = {"id": "bigint", "v": "bigint", "s": "string"}
        main.create_table("t", columns, key="id", layout=layout)
        chance = np.random.default_rng(4)
        main.insert("t", {"id": range(400), "v": chance.integers(0, 1 << 40, 400)})
        for step in range(8):
            ids = chance.choice(400, 40, replace=False)
            main.upsert(
                "t", {"id": ids, "v": chance.integers(0, 1 << 40, 40), "s": [f"{step}"] * 40}
            )
        main.clone("dev").delete("t", [1, 2, 3])
        main.derive("last", "SELECT s, max(v) AS v FROM t GROUP BY s", when="immediate")
        main.evolve(RenameColumn("t", "v", "value"), keep="old", sync="both")
        main.upsert("t", {"id": [9], "value": [9]})
    return path


@pytest.fixture
def db(whole: Path, tmp_path: Path) -> Iterator[livingdb.Database]:
    """A copy of it."""
    shutil.copytree(whole, tmp_path / "db")
    with livingdb.open(tmp_path / "db", author="ann", engine="embedded") as database:
        yield database


def contents(db: livingdb.Database) -> Contents:
    """Every table of every snapshot: the address of its version, and its rows."""
    graph = db._graph
    found: Contents = {}
    for row in graph.snapshots.newest_first():
        for name, version in tables_of(graph, row).items():
            rows = graph.versions.rows(version).to_arrow()
            found[row.address.hex(), name] = (version.address, rows)
    return found


def test_every_snapshot_keeps_its_address_and_its_rows(db: livingdb.Database) -> None:
    graph = db._graph
    before = contents(db)
    heads = {row.name: (row.head, row.position) for row in graph.branches.all()}
    steps: list[str] = []
    done = compact(graph, steps.append)
    assert steps == [
        "draining the journal",
        "thinning old trees",
        "finding what is alive",
        "writing packs",
    ]
    assert done.drained_chunks > 0
    assert f"{done.drained_chunks:,} chunks drained" in str(done)
    assert contents(db) == before
    assert {row.name: (row.head, row.position) for row in graph.branches.all()} == heads
    assert len(graph.catalog.journal) == 0
    with livingdb.open(db.name, engine="embedded") as again:
        assert contents(again) == before
        assert again.check().ok


def test_compacting_raises_the_epoch_and_a_second_time_finds_little_to_do(
    db: livingdb.Database,
) -> None:
    graph = db._graph
    epoch = int(graph.branch("main").epoch)
    first = compact(graph)
    assert int(graph.branch("main").epoch) > epoch
    assert first.after_bytes < first.before_bytes
    second = compact(graph)
    assert (second.drained_chunks, second.thinned) == (0, 0)
    assert second.before_bytes == first.after_bytes
    assert second.after_bytes <= second.before_bytes
    packs = {path.name for path in (Path(db.name) / "packs").iterdir()}
    assert set(graph.catalog.packs.names()) <= packs


def test_an_empty_database_is_compacted_to_itself(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "empty", author="ann") as empty:
        head = empty.branch("main").head.id
        compact(empty._graph)
        assert empty.branch("main").head.id == head
        assert empty.check().ok


def test_packs_that_others_wrote_meanwhile_stay(
    db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = db._graph
    before = contents(db)
    counters = graph.catalog.write_counters
    number = iter(range(1_000))
    monkeypatch.setattr(compact_module, "_ATTEMPTS", 1)
    monkeypatch.setattr(
        graph.catalog, "write_counters", lambda *given: (*counters(*given), next(number))
    )
    drain_journal(graph.store)
    names = set(graph.catalog.packs.names())
    compact(graph)
    assert set(graph.catalog.packs.names()) == names
    files = {path.name for path in (Path(db.name) / "packs").glob("*.pack")}
    assert files == names, "what was written in vain is gone"
    assert contents(db) == before


# --- storage -------------------------------------------------------------------------------------


def test_storage_adds_up(db: livingdb.Database) -> None:
    graph = db._graph
    drain_journal(graph.store)
    db.branch("main").upsert("t", {"id": [5], "value": [5]})
    found = measure_storage(graph)
    folder = Path(db.name)
    packs = list((folder / "packs").glob("*.pack"))
    assert found.pack_bytes == sum(path.stat().st_size for path in packs)
    assert found.packs == len(graph.catalog.packs.names()) == len(packs)
    assert found.catalog_bytes == sum(path.stat().st_size for path in folder.glob("catalog.db*"))
    assert found.bytes == found.pack_bytes + found.catalog_bytes
    assert found.journal_bytes == graph.catalog.journal.size_bytes() > 0
    assert found.chunks == len(set(graph.store.addresses()))
    assert found.snapshots == len(list(graph.snapshots.newest_first()))
    assert {"main", "dev", "old", "last"} <= set(found.branches)
    assert {"t", "last"} <= set(found.tables)


def test_a_clone_weighs_what_its_origin_does_and_takes_no_room(db: livingdb.Database) -> None:
    graph = db._graph
    before = measure_storage(graph)
    db.branch("dev").clone("twin")
    after = measure_storage(graph)
    assert after.branches["twin"] == after.branches["dev"]
    assert after.chunks == before.chunks
    assert after.tables == before.tables
    assert after.sharing > before.sharing


def test_a_table_weighs_the_chunks_that_its_reads_touch(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "small", author="ann") as db:
        main, graph = db.branch("main"), db._graph
        empty = measure_storage(graph)
        assert empty.tables == {}
        assert empty.branches["main"].chunks == 1, "its snapshot"
        main.create_table("t", {"id": "bigint"}, key="id")
        main.insert("t", {"id": range(3)})
        (version,) = tables_of(graph, graph.snapshots.at(graph.branch("main").head)).values()
        tree = graph.index.tree(version.address)
        assert tree is not None
        needed = {version.definition, version.address}
        needed |= set(Trees(graph.store).walk(version.definition, tree.root))
        weight = measure_storage(graph).tables["t"]
        assert weight.chunks == len(needed)
        assert weight.bytes == sum(len(graph.store.get(address)) for address in needed)
        main.insert("t", {"id": [3]})
        assert measure_storage(graph).tables["t"].chunks > weight.chunks


# --- reach ---------------------------------------------------------------------------------------


def versions_of(graph: Graph) -> dict[str, list[Address]]:
    """Every version there is, by what its recipe is."""
    found: dict[str, list[Address]] = {}
    for row in graph.snapshots.newest_first():
        for address in graph.tables(row).values():
            recipe = graph.versions.recipe(graph.versions.require(address))
            known = found.setdefault(type(recipe).__name__, [])
            if address not in known:
                known.append(address)
    return found


def test_recipes_name_what_they_are_made_of(db: livingdb.Database) -> None:
    graph = db._graph
    found = versions_of(graph)
    assert {"Rows", "Change", "Derived"} <= set(found)
    every = {address for addresses in found.values() for address in addresses}
    for address in every:
        version = graph.versions.require(address)
        recipe = graph.versions.recipe(version)
        chunks, inputs = list(recipe_chunks(recipe)), recipe_inputs(recipe)
        if isinstance(recipe, Rows):
            assert (chunks, inputs) == ([version.definition], [])
        elif isinstance(recipe, Change):
            assert chunks == list(recipe.chunks) != []
            assert inputs == []
        else:
            assert isinstance(recipe, Derived)
            assert chunks == []
            assert inputs
            assert set(inputs) <= every
        assert graph.store.contains(chunks).all() if chunks else True


def test_a_walk_meets_every_chunk_once_and_the_root_first(db: livingdb.Database) -> None:
    graph = db._graph
    for ref in ("dev", "dev~1"):
        graph.fold(tables_of(graph, graph.resolve(ref).snapshot)["t"])
    trees = Trees(graph.store)
    met: list[Address] = []
    roots = []
    for version, root, _ in graph.catalog.versions.materializations():
        definition = graph.versions.require(version).definition
        part = list(trees.walk(definition, root))
        if root not in met:
            assert part[0] == root
        met += part
        roots.append((definition, root))
    assert len(roots) > 3
    assert len(met) == len(set(met)) == len(trees.seen)
    alone = {root: set(Trees(graph.store).walk(definition, root)) for definition, root in roots}
    assert set(met) == set().union(*alone.values())
    assert sum(map(len, alone.values())) > len(met), "trees share what they have in common"
    assert graph.store.contains(met).all()


def test_what_chunks_are_stored_against_is_there(db: livingdb.Database) -> None:
    graph = db._graph
    compact(graph)
    depths = []
    for address in graph.store.addresses():
        chain = list(references(graph.store, address))
        assert address not in chain
        assert len(chain) == len(set(chain))
        if chain:
            assert graph.store.contains(chain).all()
        depths.append(len(chain))
    assert max(depths) >= 1, "a compacted leaf is stored against an older one"
