"""The export to OpenLineage, held against its specification."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator

import livingdb
from livingdb.evolution import AddColumn, MaskColumn

SPEC = json.loads((Path(__file__).parents[3] / "data/openlineage/spec.json").read_text())
TOTALS = "SELECT city, sum(amount) AS total FROM orders WHERE amount > 0 GROUP BY city"
OWN = "livingdb_snapshot"


def fail(tables: dict[str, pa.Table]) -> bytes:
    """A model that fails when there is nothing to learn from."""
    if not tables["orders"].num_rows:
        raise ValueError("no orders")
    return b"model"


def facets_of(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every facet of an event, by name."""
    places = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
    for place in places:
        for kind in ("facets", "inputFacets", "outputFacets"):
            yield from place.get(kind, {}).items()


def check(event: dict[str, Any]) -> None:
    """The event is one that the specification allows, and so is each of its facets."""
    Draft202012Validator(SPEC).validate(event)
    assert event["schemaURL"].endswith("/2-0-2/OpenLineage.json#/$defs/RunEvent")
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    uuid.UUID(event["run"]["runId"])
    for name, facet in facets_of(event):
        if name == OWN:
            continue
        _, _, rest = facet["_schemaURL"].partition("/spec/facets/")
        version, title, pointer = rest.replace(".json#/$defs", "").split("/")
        assert title == pointer
        schema = {"$defs": SPEC["$defs"], "$ref": f"#/$defs/{version}_{title}"}
        Draft202012Validator(schema).validate(facet)


@pytest.fixture
def exported(db: livingdb.Database, tmp_path: Path) -> Any:
    """Exports a database, and holds all events against the specification."""

    def export(**options: Any) -> list[dict[str, Any]]:
        path = tmp_path / "events.jsonl"
        count = db.export_openlineage(path, **options)
        lines = path.read_text(encoding="utf-8").splitlines()
        events = [json.loads(line) for line in lines]
        assert count == len(events)
        for event in events:
            check(event)
        kinds: dict[str, list[str]] = {}
        for event in events:
            kinds.setdefault(event["run"]["runId"], []).append(event["eventType"])
        assert all(some[0] == "START" and len(some) == 2 for some in kinds.values())
        assert sorted(tmp_path.glob("*.part")) == []
        return events

    return export


def test_nothing_to_tell(main: livingdb.Branch, exported: Any) -> None:
    assert exported() == []


def test_a_view(db: livingdb.Database, main: livingdb.Branch, exported: Any) -> None:
    main.derive("totals", sql=TOTALS, when="deferred", message="derived")
    main.update("orders", {"id": [1], "amount": [5]}, message="five", author="bo")
    db.propagate()
    events = exported(namespace="shop")
    assert [e["eventType"] for e in events] == ["START", "COMPLETE", "START", "COMPLETE"]
    done = events[-1]
    assert done["job"]["name"] == "main/totals"
    assert done["job"]["namespace"] == "shop"
    assert done["job"]["facets"]["sql"]["query"] == TOTALS
    assert done["job"]["facets"]["jobType"]["jobType"] == "VIEW"
    (read,), (made,) = done["inputs"], done["outputs"]
    assert (read["name"], made["name"]) == ("main.orders", "totals.totals")
    assert read["facets"]["version"]["datasetVersion"] == main.head.id
    assert made["facets"]["version"]["datasetVersion"] == db.at("totals").id
    fields = made["facets"]["schema"]["fields"]
    assert [field["name"] for field in fields] == ["city", "total"]
    assert made["outputFacets"]["outputStatistics"]["rowCount"] == 1
    lineage = made["facets"]["columnLineage"]
    (field,) = lineage["fields"]["total"]["inputFields"]
    assert (field["namespace"], field["name"], field["field"]) == ("shop", "main.orders", "amount")
    used = {(f["field"], t["subtype"]) for f in lineage["dataset"] for t in f["transformations"]}
    assert used == {("amount", "FILTER"), ("city", "GROUP_BY")}
    assert done["run"]["facets"][OWN]["sources"] == {"main": main.head.id}
    assert done["run"]["facets"][OWN]["strategy"]
    assert "parent" not in done["run"]["facets"]


def test_runs_have_the_same_id_in_every_export(
    db: livingdb.Database, main: livingdb.Branch, exported: Any
) -> None:
    main.derive("totals", sql=TOTALS, when="immediate")
    main.update("orders", {"id": [1], "amount": [5]})
    first, second = exported(), exported()
    assert first == second
    assert len({event["run"]["runId"] for event in first}) == 2
    assert first[-1]["run"]["facets"]["parent"]["job"]["name"] == "main"


def test_since(db: livingdb.Database, main: livingdb.Branch, exported: Any) -> None:
    main.derive("totals", sql=TOTALS, when="immediate")
    main.update("orders", {"id": [1], "amount": [5]})
    db.tag("then", "totals")
    main.update("orders", {"id": [1], "amount": [6]})
    assert len(exported()) == 6
    assert len(exported(since="then")) == 2
    assert len(exported(since=db.at("then").time)) == 2
    assert len(exported(since=datetime(2000, 1, 1))) == 6
    assert exported(since="totals") == []


def test_what_syncs_carried(db: livingdb.Database, main: livingdb.Branch, exported: Any) -> None:
    main.evolve(AddColumn("orders", "vat", "double"), keep="v1", sync="both")
    db.branch("v1").update("orders", {"id": [1], "amount": [5]})
    main.update("orders", {"id": [1], "amount": [6]})
    forward, reverse = [event for event in exported() if event["eventType"] == "COMPLETE"]
    assert forward["job"]["facets"]["jobType"]["jobType"] == "SYNC"
    assert [place["name"] for place in forward["inputs"]] == ["v1.orders"]
    assert [place["name"] for place in forward["outputs"]] == ["main.orders"]
    assert [place["name"] for place in reverse["outputs"]] == ["v1.orders"]
    assert forward["run"]["facets"][OWN]["direction"] == "forward"


def test_masked_clones(db: livingdb.Database, main: livingdb.Branch, exported: Any) -> None:
    mask = MaskColumn("customers", "name")
    main.clone("masked", transform=[mask], sync="forward", when="deferred")
    (done,) = [event for event in exported() if event["eventType"] == "COMPLETE"]
    assert done["job"]["facets"]["jobType"]["jobType"] == "CLONE"
    by_name = {place["name"]: place for place in done["outputs"]}
    fields = by_name["masked.customers"]["facets"]["columnLineage"]["fields"]
    (name,) = fields["name"]["inputFields"]
    assert name["transformations"] == [{"type": "DIRECT", "masking": True}]
    (key,) = fields["id"]["inputFields"]
    assert key["transformations"] == [{"type": "DIRECT", "masking": False}]


def test_failures(db: livingdb.Database, main: livingdb.Branch, exported: Any) -> None:
    main.derive(
        "model", model="tests.unit.tracing.provenance.test_openlineage:fail", when="deferred"
    )
    main.delete("orders", list(range(6)))
    db.propagate()
    events = exported()
    assert [event["eventType"] for event in events] == ["START", "COMPLETE", "START", "FAIL"]
    told = events[-1]["run"]["facets"]["errorMessage"]
    assert "no orders" in told["message"]
    assert told["programmingLanguage"] == "PYTHON"
    assert events[-1]["job"]["name"] == "main/model"
    assert {place["name"] for place in events[-1]["inputs"]} == {"main.customers", "main.orders"}


def test_a_view_that_is_gone(db: livingdb.Database, main: livingdb.Branch, exported: Any) -> None:
    main.derive("totals", sql=TOTALS, when="deferred")
    db.drop_branch("totals", detach=True)
    names = {place["name"] for event in exported() for place in event["inputs"]}
    assert names == {"main.customers", "main.orders"}
