"""How a notebook shows what differs: schema changes, then the rows, with what was and what is."""

from __future__ import annotations

from html import escape
from typing import Any

from livingdb.database.diff import Diff, SnapshotDiff
from livingdb.render.labels import cut

__all__ = ["diff_html", "snapshot_diff_html"]

_ROWS = 20
_TABLES = 30
_LETTERS = 80
_COLORS = {"insert": "#2a7a4b", "update": "#9a6700", "delete": "#c0362c"}
_WAS = "color:#c0362c;background:rgba(192,54,44,.14);text-decoration:line-through"
_IS = "color:#2a7a4b;background:rgba(42,122,75,.16);text-decoration:none"
_STATES = {"changed": "another schema", "added": "a new table", "dropped": "dropped"}


def snapshot_diff_html(diff: SnapshotDiff) -> str:
    """The schema changes, and for each table how many rows differ and the first of them."""
    parts = []
    if diff.schema:
        lines = "".join(f"<li><code>{escape(cut(c.text, 200))}</code></li>" for c in diff.schema)
        parts.append(f"<p><b>schema</b>: {len(diff.schema):,} changes</p><ul>{lines}</ul>")
    parts += [f"<p>{escape(note)}</p>" for note in diff.notes]
    tables = list(diff.values())
    parts += [diff_html(part) for part in tables[:_TABLES]]
    more = len(tables) - _TABLES
    if more > 0:
        parts.append(f"<p>and {more:,} more tables</p>")
    return "".join(parts) or "<p>nothing differs</p>"


def diff_html(diff: Diff) -> str:
    """How many rows differ, and the first of them."""
    summary = diff.summary()
    counts = ", ".join(f"{number:,} {what}" for what, number in summary.items())
    state = _STATES.get(diff.schema_state)
    told = f" <small>({state})</small>" if state else ""
    heading = f"<p><b>{escape(diff.table)}</b>: {counts}{told}</p>"
    rows = _first_rows(diff)
    if not rows:
        return heading
    key = list(diff.key)
    names = dict.fromkeys(key)
    for row in rows:
        *_, before, after = row.values()
        names |= dict.fromkeys([*(after or {}), *(before or {})])
    titles = "".join(_cell("th", escape(cut(name, 40))) for name in ("change", *names))
    lines = "".join(f"<tr>{_row_cells(row, list(names), key)}</tr>" for row in rows)
    rest = sum(summary.values()) - len(rows)
    more = f"<p>and {rest:,} more rows</p>" if rest > 0 else ""
    table = f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>"
    return f'{heading}<div style="overflow-x:auto">{table}</div>{more}'


def _first_rows(diff: Diff) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for batch in diff.batches():
        found += batch.slice(0, _ROWS - len(found)).to_pylist()
        if len(found) >= _ROWS:
            break
    return found


def _row_cells(row: dict[str, Any], names: list[str], key: list[str]) -> str:
    *_, kind, before, after = row.values()
    cells = [_cell("td", f'<span style="color:{_COLORS[kind]}">{kind}</span>')]
    for name in names:
        if name in key:
            cells.append(_cell("td", f"<b>{_value(row[name])}</b>"))
        else:
            cells.append(_cell("td", _change(before, after, name)))
    return "".join(cells)


def _change(before: dict[str, Any] | None, after: dict[str, Any] | None, name: str) -> str:
    """A value that stays as it is, one that goes, one that comes, or both."""
    has_old, has_new = before is not None and name in before, after is not None and name in after
    old = before[name] if before is not None and has_old else None
    new = after[name] if after is not None and has_new else None
    if has_old and has_new and _is_same(old, new):
        return _value(new)
    was = f'<del style="{_WAS}">{_value(old)}</del>' if has_old else ""
    now = f'<ins style="{_IS}">{_value(new)}</ins>' if has_new else ""
    return f"{was} {now}".strip()


def _is_same(old: object, new: object) -> bool:
    return type(old) is type(new) and (old == new or (old != old and new != new))  # noqa: PLR0124


def _value(value: object) -> str:
    if value is None:
        return "<em>null</em>"
    return escape(cut(str(value), _LETTERS))


def _cell(tag: str, content: str) -> str:
    return f'<{tag} style="text-align:left">{content}</{tag}>'
