"""Nothing that is older than a masked branch, or not masked, is reached through it."""

from __future__ import annotations

import pytest
from tests.unit.commit.masks.shop import NAME, names, rows

import livingdb
from livingdb.errors import NotFound, RuleViolation, Unsupported
from livingdb.evolution import AddColumn, MaskColumn, RenameColumn

RAW = {"raw 0", "raw 1", "raw 2"}
HOW = pytest.mark.parametrize("how", ["immediate", "deferred", "once", "both", "evolve", "reverse"])


def masked(main: livingdb.Branch, how: str) -> livingdb.Branch:
    if how in ("both", "reverse"):
        main.evolve(NAME, to="masked", sync=how)
    elif how == "evolve":
        main.evolve([RenameColumn("customers", "city", "town"), NAME], to="masked", sync="forward")
    elif how == "once":
        main.clone("masked", transform=NAME)
    else:
        main.clone("masked", transform=NAME, sync="forward", when=how)
    return main.database.branch("masked")


@HOW
def test_its_first_snapshot_has_no_parent(
    db: livingdb.Database, main: livingdb.Branch, how: str
) -> None:
    before = main.head
    branch = masked(main, how)
    first = branch.head
    assert first.parents == ()
    assert first.sources == {"main": before.id}
    if how not in ("once", "reverse"):
        main.update("customers", [{"id": 1, "name": "raw 9"}])
        db.propagate()
        assert branch.head.parents == (first.id,)
    assert [snapshot.id for snapshot in branch.log()][-1] == first.id
    line = len(branch.log())
    for ref in (f"masked~{line}", f"masked@{before.time.isoformat()}"):
        with pytest.raises(NotFound):
            db.at(ref)
        with pytest.raises(NotFound):
            branch.sql(f"SELECT * FROM customers VERSION AS OF '{ref}'")
    with pytest.raises(NotFound):
        branch.sql(f"SELECT * FROM customers TIMESTAMP AS OF '{before.time.isoformat()}'")
    for position in range(line):
        shown = db.at(f"masked~{position}").table("customers").to_arrow()
        assert RAW.isdisjoint(shown.column("name").to_pylist())


@HOW
def test_history_and_blame(db: livingdb.Database, main: livingdb.Branch, how: str) -> None:
    main.update("customers", [{"id": 1, "name": "raw 2"}], message="earlier")
    branch = masked(main, how)
    if how not in ("once", "reverse"):
        main.update("customers", [{"id": 1, "name": "raw 0"}], message="later")
        db.propagate()
    found = db.history("masked", "customers", 1).column("name").to_pylist()
    assert found
    assert RAW.isdisjoint(found)
    assert len(found) == (1 if how in ("once", "reverse") else 2)
    blamed = db.blame("masked", "customers")
    assert blamed.num_rows == len(rows(branch))
    assert "name" not in blamed.column_names
    changes = db.diff(f"masked~{len(branch.log()) - 1}", "masked")
    assert RAW.isdisjoint(str(diff.to_arrow().to_pylist()) for diff in changes.values())


@HOW
def test_it_is_not_merged(db: livingdb.Database, main: livingdb.Branch, how: str) -> None:
    branch = masked(main, how)
    aside = main.clone("aside")
    with pytest.raises(RuleViolation, match="shares no history"):
        db.merge("masked", into="aside")
    other = branch.clone("other")
    with pytest.raises(RuleViolation, match="shares no history"):
        db.merge("aside", into="other")
    with pytest.raises(RuleViolation, match="shares no history"):
        db.preview_merge("aside", into="other")
    with pytest.raises(Unsupported, match="no history"):
        db.at("main", schema="masked").table("customers")
    other.insert("customers", [{"id": 40}])
    more = branch.clone("more")
    db.merge("other", into="more")
    assert more.table("customers").get(40) is not None
    assert names(aside) == RAW


@HOW
def test_no_rows_are_picked_from_the_other_side(
    db: livingdb.Database, main: livingdb.Branch, how: str
) -> None:
    """They would come as they are, with no mask on the way, or masked to where none is."""
    mine = masked(main, how).clone("mine")
    aside = db.at("main").clone("aside")
    aside.insert("customers", [{"id": 70, "name": "raw 2", "city": "Oslo"}])
    known, raw, line = rows(mine), rows(aside), aside.log()
    for act in (
        lambda: mine.cherry_pick("aside"),
        lambda: mine.cherry_pick(line[2]),
        lambda: mine.revert(line[0]),
        lambda: db.apply(db.diff("aside~1", "aside"), "mine"),
    ):
        with pytest.raises(RuleViolation, match="masked otherwise"):
            act()
    mine.insert("customers", [{"id": 71}])
    with pytest.raises(RuleViolation, match="masked otherwise"):
        aside.cherry_pick("mine")
    assert rows(aside) == raw
    mine.cherry_pick(mine.clone("other").insert("customers", [{"id": 72}]))
    assert [row for row in rows(mine) if row["id"] < 71] == known
    assert len(rows(mine)) == len(known) + 2


def test_no_rows_are_picked_past_a_mask_in_place(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    dev = main.clone("dev")
    dev.evolve(NAME)
    main.insert("customers", [{"id": 70, "name": "raw 2", "city": "Oslo"}])
    with pytest.raises(RuleViolation, match="'customers' is not put on a branch"):
        dev.cherry_pick("main")
    with pytest.raises(RuleViolation, match="'customers' is not put on a branch"):
        db.apply(db.diff("main~1", "main"), "dev")
    main.update("orders", [{"id": 3, "note": "three"}])
    dev.cherry_pick("main")
    note = dev.table("orders").get(3)
    assert note is not None
    assert note["note"] == "three"
    main.evolve(AddColumn("customers", "extra", "string"))
    main.update("customers", [{"id": 3, "name": "raw 2"}])
    with pytest.raises(RuleViolation, match="'customers' is not put on a branch"):
        db.apply(db.diff("main~2", "main"), "dev")
    assert RAW.isdisjoint(names(dev))


@HOW
def test_rows_of_tables_without_masks_are_picked_from_the_other_side(
    db: livingdb.Database, main: livingdb.Branch, how: str
) -> None:
    mine = masked(main, how).clone("mine")
    aside = db.at("main").clone("aside")
    aside.update("orders", [{"id": 3, "note": "three"}])
    mine.cherry_pick("aside")
    assert mine.table("orders").to_arrow() == aside.table("orders").to_arrow()
    aside.update("orders", [{"id": 3, "note": "four"}])
    db.apply(db.diff("aside~1", "aside"), "mine")
    assert mine.table("orders").to_arrow() == aside.table("orders").to_arrow()


def test_no_rows_are_picked_from_a_replica_past_a_mask_in_place(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    replica = main.clone("replica", sync="forward", when="deferred")
    db.sync("replica").detach()
    main.evolve(NAME)
    replica.insert("customers", [{"id": 70, "name": "raw 2", "city": "Oslo"}])
    with pytest.raises(RuleViolation, match="'customers' is not put on a branch"):
        main.cherry_pick("replica")
    assert RAW.isdisjoint(names(main))


def test_no_rows_are_picked_past_the_masks_of_a_later_definition(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    other = MaskColumn("customers", "city", method="null")
    first = main.clone("first", transform=other, sync="forward", when="deferred")
    second = first.clone("second", transform=NAME, sync="forward", when="deferred")
    mine = second.clone("mine")
    aside = first.clone("aside")
    aside.insert("customers", [{"id": 70, "name": "raw 2"}])
    with pytest.raises(RuleViolation, match="'customers' is not put on a branch"):
        mine.cherry_pick("aside")
    aside.update("orders", [{"id": 3, "note": "three"}])
    mine.cherry_pick("aside")
    assert RAW.isdisjoint(names(mine))


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_versions_for_source_snapshots(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    branch = masked(main, when)
    start = main.head
    main.update("customers", [{"id": 1, "name": "raw 9"}])
    then = main.head
    main.update("customers", [{"id": 1, "name": "raw 8"}])
    db.propagate()
    at = [db.derived_at("masked", source=f"id:{row.id}") for row in (start, then, main.head)]
    assert at[0] == branch.log()[-1]
    assert at[2] == branch.head
    shown = [row.table("customers").get(1)["name"] for row in at]
    assert len(set(shown)) == 3
    assert db.refresh("masked").snapshot is None
    assert db.sync("masked").lag == 0


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_resets_of_the_source(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    branch = masked(main, when)
    before, start = rows(branch), main.head
    main.update("customers", [{"id": 1, "name": "raw 9"}])
    db.propagate()
    assert rows(branch) != before
    main.reset(start)
    db.propagate()
    assert rows(branch) == before
    main.revert("main")
    db.propagate()
    assert db.check(deep=True).problems == []


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_pictures(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    masked(main, when)
    picture = db.graph()
    for text in (picture.to_text(), picture.to_mermaid(), picture.to_svg(), picture.to_html()):
        assert "masked" in text


@HOW
def test_its_rows_are_found_from_the_source(
    db: livingdb.Database, main: livingdb.Branch, how: str
) -> None:
    """Who asks on the source is told of all copies; who asks on a copy, of no raw row."""
    branch = masked(main, how)
    branch.clone("copy")
    found = {place.name: place for place in db.whereabouts("customers", 4)}
    assert set(found) == {"main", "masked", "copy"}
    assert found["copy"].masked == found["masked"].masked == ("name",)
    assert found["main"].masked == ()
    told = db.whereabouts("customers", 4, branch="copy")
    assert "main" not in {place.name for place in told}


@HOW
def test_lineage_and_provenance(db: livingdb.Database, main: livingdb.Branch, how: str) -> None:
    masked(main, how)
    assert "main" in str(db.provenance("masked"))
    if how == "once":
        return
    lineage = db.lineage("masked.customers", 4)
    assert [row["id"] for row in lineage["customers"].to_pylist()] == [4]
    columns = db.column_lineage("masked.customers")
    assert columns["name"] == ["customers.name"]
    assert columns.masked == {"name": ["customers.name"]}
