"""What changes in a database, for those who look on."""

from __future__ import annotations

from pathlib import Path

import livingdb
from livingdb import alert
from livingdb.database.changes import ChangeFollower


def test_every_kind_of_change_is_seen(tmp_path: Path) -> None:
    with (
        livingdb.create(tmp_path / "db", engine="embedded") as db,
        livingdb.open(tmp_path / "db", engine="embedded") as other,
    ):
        main = other.branch("main")
        main.create_table("t", {"id": "int"}, key="id")
        follower = ChangeFollower(db)
        begin = follower.marks
        assert follower.poll() == []

        def seen() -> list[tuple[str, str, object]]:
            return [
                (one.kind, one.subject, one.details.get("operation")) for one in follower.poll()
            ]

        main.insert("t", [{"id": 1}])
        main.insert("t", [{"id": 2}])
        assert seen() == [("commit", "main", "insert")] * 2
        dev = main.clone("dev")
        assert seen() == [("branch", "dev", "clone")]
        main.reset("main~1")
        assert seen() == [("branch", "main", "reset")]
        other.rename_branch("dev", "dev2")
        assert seen() == [("branch", "dev2", "rename")]
        main.derive("v", "SELECT id FROM t", when="immediate")
        assert seen() == [("commit", "v", "derive")]
        main.insert("t", [{"id": 3}])
        assert {one[:2] for one in seen()} == {("commit", "main"), ("commit", "v")}
        other.watch("merges", alert.on_merge("main"))
        other.merge("dev2", into="main")
        kinds = [one[0] for one in seen()]
        assert "commit" in kinds
        assert "alert" in kinds
        other.sync("v").detach("no more")
        assert seen() == [("sync", "main/v", None)]
        request = other.request_merge("dev2", "main")
        request.comment("hm")
        assert seen() == [("merge_request", "1", None)]
        other.drop_branch("dev2")
        assert seen() == [("branches", "", None)]
        again = [one.kind for one in follower.since(begin)]
        assert again.count("branches") == again.count("sync") == 1
        assert again.count("alert") == again.count("merge_request") == 1
        assert follower.since(follower.marks) == []
        assert dev.name == "dev"
