"""A clone with its views: as of any ref, as they were defined then, all of them or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.commit.derived.test_view_names import TOTALS, totals

import livingdb
from livingdb import AlreadyExists, InvalidData, RuleViolation, condition
from livingdb.evolution import AddColumn, DropColumn, RenameColumn, RenameTable

HERE = "tests.unit.commit.derived.shop_functions"
BIG = "SELECT city, total FROM totals WHERE total > 100"


def everything(db: livingdb.Database) -> Any:
    heads = {branch.name: branch.head.id for branch in db.branches()}
    return heads, [(sync.name, sync.state) for sync in db.syncs()], len(db._graph.branches.all())


def oslo(place: Any, name: str = "totals") -> object:
    return totals(place, name).get("Oslo")


@pytest.mark.parametrize("how", ["steps", "id", "tag", "snapshot"])
def test_at_a_ref(db: livingdb.Database, main: livingdb.Branch, how: str) -> None:
    main.derive("totals", TOTALS, when="immediate")
    main.derive("big", BIG, when="deferred")
    then = main.update("orders", [{"id": 0, "amount": 500}])
    main.update("orders", [{"id": 0, "amount": 700}])
    main.derive("late", "SELECT id FROM orders", when="immediate")
    main.update("orders", [{"id": 0, "amount": 900}])
    db.tag("v1", then)
    ref = {"steps": "main~2", "id": then.id, "tag": "v1", "snapshot": then}[how]
    dev = db.at(ref).clone("dev", derived=True, author="eva", message="what was")
    assert dev.head == then
    assert db.branches() == ["big", "big_dev", "dev", "late", "main", "totals", "totals_dev"]
    assert (oslo(dev), oslo(dev, "big"), oslo(main)) == (590, 590, 990)
    assert (db.sync("totals_dev").when, db.sync("big_dev").when) == ("immediate", "deferred")
    dev.update("orders", [{"id": 0, "amount": 1}])
    assert (oslo(dev), oslo(main)) == (91, 990)
    (first,) = [move for move in dev.movements() if move.operation == "clone"]
    assert (first.author, first.message) == ("eva", "what was")


def test_at_a_ref_of_several_branches(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    dev = main.clone("dev")
    shared = dev.head.id
    made = db.at(shared).clone("one", derived=True)
    assert oslo(made) == 90, "it was made on main"
    assert db.at("dev").clone("two", derived=True).tables() == main.tables()
    assert "totals_two" not in db.branches(), "nothing is derived on dev"
    db.merge("dev", into="main")
    dev.update("orders", [{"id": 0, "amount": 1}])
    both = db.merge("dev", into="main")
    with pytest.raises(InvalidData, match=r"is on dev, main: name one"):
        db.at(both.id).clone("three", derived=True)
    assert oslo(db.at("main").clone("three", derived=True)) == 91


def test_definitions_of_that_time(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    main.derive("big", BIG, when="immediate")
    first = main.head
    main.evolve(AddColumn("orders", "vat", "bigint", default=1))
    second = main.head
    main.evolve([RenameColumn("orders", "amount", "net"), RenameTable("orders", "sales")])
    main.update("sales", [{"id": 0, "net": 1000}])
    for at, name in ((first, "one"), (second, "two")):
        made = db.at(at).clone(name, derived=True)
        assert (oslo(made), oslo(made, "big")) == (90, None)
        made.update("orders", [{"id": 0, "amount": 100}])
        assert (oslo(made), oslo(made, "big")) == (190, 190)
    last = main.clone("three", derived=True)
    last.update("sales", [{"id": 0, "net": 2000}])
    assert oslo(last) == 2090


def test_a_definition_that_nobody_knows(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    main.evolve(RenameColumn("orders", "amount", "between"))
    ref = main.head
    main.evolve(RenameColumn("orders", "between", "net"))
    before = everything(db)
    with pytest.raises(RuleViolation, match=r"'totals' cannot be derived on 'dev': its definition"):
        db.at(ref).clone("dev", derived=True)
    assert everything(db) == before
    # A name that means another column now is not taken for the old one.
    main.evolve([DropColumn("orders", "note"), RenameColumn("orders", "customer", "amount")])
    with pytest.raises(RuleViolation, match="is not known"):
        db.at(ref).clone("dev", derived=True)


def test_a_star_of_that_time(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("every", "SELECT * FROM orders", when="immediate")
    main.evolve(AddColumn("orders", "vat", "bigint", default=1))
    ref = main.head
    main.evolve(RenameColumn("orders", "amount", "net"))
    with pytest.raises(RuleViolation, match="is not known"):
        db.at(ref).clone("dev", derived=True)
    made = db.at("main~2").clone("dev", derived=True)
    assert "vat" not in made.sql("SELECT * FROM every").to_arrow().column_names


@pytest.mark.parametrize("at", ["branch", "ref"])
def test_all_or_nothing(
    db: livingdb.Database, main: livingdb.Branch, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.derive("totals", TOTALS, when="immediate")
    main.derive("big", BIG, when="immediate")
    main.derive("model", model=f"{HERE}:train")
    main.update("orders", [{"id": 0, "amount": 500}])
    before = everything(db)

    def clone() -> Any:
        if at == "branch":
            return main.clone("dev", derived=True)
        return db.at("main~1").clone("dev", derived=True)

    # The function is not trusted any more.
    monkeypatch.setattr(db._pipeline, "trust", ())
    with pytest.raises(livingdb.Untrusted, match="'model' cannot be derived on 'dev'"):
        clone()
    assert everything(db) == before
    monkeypatch.undo()
    # A name that is taken is found before anything is made.
    db.tag("keep", "main")
    main.clone("big_dev")
    before = everything(db)
    with pytest.raises(AlreadyExists, match="'big_dev' already, for a view of 'dev'"):
        clone()
    assert everything(db) == before
    db.drop_branch("big_dev")
    assert {"big_dev", "dev", "model_dev", "totals_dev"} < {
        b.name for b in clone().database.branches()
    }


def test_a_condition_that_does_not_hold(db: livingdb.Database, main: livingdb.Branch) -> None:
    most = condition.row_count(at_most=9, action="hold")
    main.derive("every", "SELECT id FROM orders", when="immediate")
    main.derive("few", "SELECT id FROM every", when="immediate", conditions=[most])
    main.insert("orders", [{"id": 50, "customer": 0, "amount": 1}])
    db.sync("few").approve(by="bo")
    before = everything(db)
    with pytest.raises(livingdb.LivingDBError, match="'few' cannot be derived on 'dev'"):
        main.clone("dev", derived=True)
    assert everything(db) == before
    dev = db.at("main~1").clone("dev", derived=True)
    assert len(dev.sql("SELECT * FROM few").to_arrow()) == 9


def test_a_model_and_a_clone_over_what_is_made_with_them(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("totals", TOTALS, when="deferred")
    main.derive("model", model=f"{HERE}:into_folder", tables=["totals"], params={"title": "x"})
    db.branch("totals").clone("copy", sync="forward", when="deferred")
    dev = main.clone("dev", derived=True)
    assert db.at("model_dev").artifact() == db.at("model").artifact()
    assert db.at("model_dev").sources == {"totals_dev": db.at("totals_dev").id}
    assert db.branch("copy_dev").table("totals_dev").get("Oslo") == {"city": "Oslo", "total": 90}
    dev.update("orders", [{"id": 0, "amount": 500}])
    db.propagate()
    assert db.branch("copy_dev").table("totals_dev").get("Oslo") == {"city": "Oslo", "total": 590}


def test_an_interrupt_leaves_nothing(
    db: livingdb.Database, main: livingdb.Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.derive("totals", TOTALS, when="immediate")
    main.derive("big", BIG, when="immediate")
    before = everything(db)
    from livingdb.commit.deriving import clone_derived

    derive = clone_derived.first_version

    def interrupted(pipeline: Any, wanted: Any, *rest: Any) -> Any:
        if wanted.view.name == "big_dev":
            raise KeyboardInterrupt
        return derive(pipeline, wanted, *rest)

    monkeypatch.setattr(clone_derived, "first_version", interrupted)
    with pytest.raises(KeyboardInterrupt):
        main.clone("dev", derived=True)
    assert everything(db) == before
    assert db.check().ok
