"""Who may do what: users, roles, tokens, objects, rules and what was done."""

from __future__ import annotations

from livingdb import Database, LivingDBError

__all__ = ["make_people"]


def make_people(db: Database) -> None:
    """Users of every role, a token that counts and one that does not, and what they did."""
    for name, role in (("rea", "reader"), ("wim", "writer"), ("mia", "maintainer")):
        db.people.add(name, role=role, branches="team/*")
    db.people.add("olga", role="owner")
    db.people.add("nobody")
    db.people.grant("wim", role="reader", branches="wide")
    db.people.issue_token("wim", days=3650, note="laptop")
    (old,) = db.people.tokens("wim")
    db.people.revoke(old.id)
    db.people.issue_token("wim", days=3650)
    db.branch("wide").clone("team/a")
    db.protect("team/a")
    team = db.branch("wide").clone("team/b")
    with db.acting_as("mia"):
        team.derive("team/counts", sql="SELECT a, count(*) AS n FROM wide GROUP BY a")
    db.people.grant_object("nobody", "team/counts")
    with db.acting_as("wim"):
        team.upsert("wide", {"id": [1], "a": ["by wim"], "b": [1.0]})
    try:
        with db.acting_as("rea"):
            team.delete("wide", [1])
    except LivingDBError:
        return
    raise AssertionError
