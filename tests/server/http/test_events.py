"""Events: what changes is told to who may know it, and to who comes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from tests.server.http.conftest import Served

import livingdb
from livingdb.catalog.marks import Marks

Told = tuple[str, dict[str, Any]]


class Heard:
    """What somebody hears."""

    def __init__(self, answer: httpx.Response):
        self._lines = answer.iter_lines()
        self.last = ""

    def until(self, kind: str, subject: str | None = None) -> list[Told]:
        """Everything up to an event."""
        found: list[Told] = []
        for told in self._events():
            found.append(told)
            if told[0] == kind and subject in (None, told[1]["subject"]):
                return found
        raise AssertionError(f"the stream ended: {found}")

    def _events(self) -> Iterator[Told]:
        name = ""
        for field, value in self._fields():
            if field == "event":
                name = value
            elif field == "data":
                yield name, json.loads(value)

    def _fields(self) -> Iterator[tuple[str, str]]:
        for line in self._lines:
            field, _, value = line.partition(": ")
            self.last = value if field == "id" else self.last
            yield field, value

    def position(self) -> str:
        """The id of what was heard last."""
        fields = self._fields()
        while not self.last:
            next(fields)
        return self.last


@contextmanager
def listening(client: httpx.Client, after: str | None = None) -> Iterator[Heard]:
    headers = {} if after is None else {"Last-Event-ID": after}
    with client.stream("GET", "/v1/events", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Heard(answer)


def test_nothing_is_missed_between_a_look_and_listening(served: Served) -> None:
    olga, main = served.client("olga"), served.db.branch("main")
    position = olga.get("/v1/about").json()["position"]
    made = main.insert("orders", [{"id": 3000}])
    main.clone("dev/between")
    with olga.stream("GET", "/v1/events", params={"after": position}) as answer:
        heard = Heard(answer)
        assert heard.until("commit", "main")[-1][1]["snapshot"] == made.id
        heard.until("branches")
    refused = olga.get("/v1/events", params={"after": "nonsense"})
    assert refused.status_code == 422, refused.text


def test_changes_are_told_as_they_happen(served: Served) -> None:
    olga, db = served.client("olga"), served.db
    with listening(olga) as heard, livingdb.open(db.name, author="other") as elsewhere:
        begin = heard.position()
        made = elsewhere.branch("main").insert("orders", [{"id": 2000}])
        (_, told) = heard.until("commit", "main")[-1]
        assert (told["snapshot"], told["author"]) == (made.id, "other")
        elsewhere.branch("main").clone("dev/heard")
        assert heard.until("branch", "dev/heard")[-1][1]["operation"] == "clone"
        elsewhere.branch("main").reset("main~1")
        assert heard.until("branch", "main")[-1][1]["operation"] == "reset"
        elsewhere.drop_branch("dev/heard")
        heard.until("branches")
        for change in (lambda: elsewhere.tag("heard", "main"), lambda: elsewhere.drop_tag("heard")):
            change()
            heard.until("tags")
        elsewhere.branch("main").derive("told", "SELECT id FROM orders", when="immediate")
        elsewhere.sync("told").detach("why not")
        assert heard.until("sync")[-1][1]["reason"] == "why not"
        request = elsewhere.request_merge("dev/one", "main")
        assert heard.until("merge_request", str(request.number))[-1][1]["state"] == "open"
        olga.post("/v1/compact")
        heard.until("job")
    with listening(olga, after=begin) as heard:
        again = heard.until("merge_request")
        assert [kind for kind, _ in again] == ["commit", "branches", "sync", "merge_request"]
        assert again[0][1]["branch"] == "told"


def test_nobody_hears_of_what_they_may_not_read(served: Served) -> None:
    main, dev = served.db.branch("main"), served.db.branch("dev/one")
    with listening(served.client("rita")) as rita, listening(served.client("will")) as will:
        rita.position()
        will.position()
        dev.upsert("orders", [{"id": 1, "city": "hidden"}])
        main.upsert("orders", [{"id": 1, "city": "seen"}])
        dev.upsert("orders", [{"id": 1, "city": "hidden"}])
        main.upsert("orders", [{"id": 1, "city": "seen"}])
        heard = rita.until("commit", "main") + rita.until("commit", "main")
        assert {told["branch"] for _, told in heard} == {"main"}
        heard = will.until("commit", "dev/one") + will.until("commit", "dev/one")
        assert {told["branch"] for _, told in heard} == {"dev/one"}


def test_a_position_that_is_none(served: Served) -> None:
    for text in ("x", "1-2", "-1", "9" * 400):
        answer = served.client("olga").get("/v1/events", headers={"Last-Event-ID": text})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_data")
    assert Marks.from_text(Marks(1, 2).to_text()) == Marks(1, 2)


def test_streams_are_counted_and_end_with_the_server(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop(limits={"streams": 1})
    olga = served.client()
    with listening(olga) as heard:
        heard.position()
        assert olga.get("/v1/events").json()["code"] == "too_many_requests"
        served.server.stop()
        assert list(heard._events()) == []
