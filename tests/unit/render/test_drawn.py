"""Mermaid, SVG and the page: well-formed whatever users wrote."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.render.pictures import item, large, small

from livingdb.render.arrange import arrange_graph
from livingdb.render.mermaid import escape_label
from livingdb.render.picture import SnapshotGraph

HOSTILE = [
    '"><script>alert(1)</script>',
    "</script><b>",
    "]]> --> <!-- -->",
    "`md` #quot; ; end",
    "\u202eevil\u202c\x00\x1b[31m",
    "مرحبا بالعالم",
    "x" * 200,
    "it's & <3",
    "{{a}} [b] (c) |d| ==> e",
    "lone \ud800 surrogate",
]
SVG = "{http://www.w3.org/2000/svg}"


def hostile() -> SnapshotGraph:
    graph = large(80, 8, 3, HOSTILE)
    named = zip(graph.lanes, HOSTILE, strict=False)
    lanes = tuple(replace(lane, name=f"{n}{lane.name}") for lane, n in named)
    return replace(graph, title=HOSTILE[0], lanes=lanes)


def empty() -> SnapshotGraph:
    return arrange_graph("empty", [], [], 0, [])


GRAPHS = {"small": small(), "hostile": hostile(), "empty": empty(), "wide": large(400, 50)}


@pytest.fixture(params=GRAPHS)
def graph(request: pytest.FixtureRequest) -> SnapshotGraph:
    return GRAPHS[request.param]


# --- Mermaid -----------------------------------------------------------------------------------

_LABEL = r'"(?:[^"<>`]|<br/>)*"'
_MERMAID = re.compile(
    rf"flowchart LR|  subgraph b\d+\[{_LABEL}\]|    direction LR|  end"
    rf"|    n\d+(?:\({_LABEL}\)|\[{_LABEL}\]|\{{\{{{_LABEL}\}}\}}|\[\[{_LABEL}\]\]"
    rf"|\(\[{_LABEL}\]\)|\(\({_LABEL}\)\))(?::::\w+)?"
    rf"|  n\d+ (?:-->|==>|-\.->) n\d+|  n\d+ <?== {_LABEL} ==> n\d+"
    r"|  linkStyle \d+ stroke:#[0-9a-f]{6},stroke-width:4px|  classDef \w+ [\w:,\- ]+"
    r"|  style b\d+ fill:transparent,stroke:#[0-9a-f]{6}"
)


def test_mermaid_has_only_lines_that_are_in_the_grammar(graph: SnapshotGraph) -> None:
    lines = graph.to_mermaid().splitlines()
    for line in lines:
        assert _MERMAID.fullmatch(line), line
    subgraphs = [line for line in lines if line.startswith("  subgraph")]
    assert len(subgraphs) == lines.count("  end") == len(graph.lanes)


def test_mermaid_draws_kinds_and_syncs_as_they_are() -> None:
    text = small().to_mermaid()
    assert "  n1 ==> n2\n" in text  # a clone
    assert "  n4 --> n5\n" in text
    assert "  n6 -.-> n8\n" in text
    both = next(line for line in text.splitlines() if "<==" in line)
    assert "immediate" in both
    held = text.splitlines().index(next(li for li in text.splitlines() if "too many" in li))
    number = int(re.findall(r"linkStyle (\d+)", text.splitlines()[held + 1])[0])
    arrows = [li for li in text.splitlines() if re.search(r"(-->|==>|-\.->) n", li)]
    assert "too many" in arrows[number]


@given(st.text())
def test_an_escaped_label_has_nothing_of_mermaids_own(text: str) -> None:
    label = escape_label(text)
    assert not set('"<>`[]{}|&;'.replace(";", "")) & set(label)
    back = re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label)
    assert back == text


# --- SVG ---------------------------------------------------------------------------------------


def test_svg_is_xml_with_a_title_and_nothing_foreign(graph: SnapshotGraph) -> None:
    text = graph.to_svg()
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert root.find(f"{SVG}title") is not None
    assert root.find(f"{SVG}desc") is not None
    shapes = {"rect", "circle", "path", "line", "text", "tspan", "g"}
    known = {"svg", "title", "desc", "style", *shapes}
    assert {element.tag for element in root.iter()} <= {f"{SVG}{name}" for name in known}
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r"(href|src|url\(|@import)\s*=?", text.replace("onerror", ""))


def test_svg_has_every_snapshot_and_its_rules_stay_in_it() -> None:
    graph = small()
    root = ElementTree.fromstring(graph.to_svg())
    groups = root.findall(f"{SVG}g")
    assert len(groups) == len(graph.nodes)
    titles = [group.findtext(f"{SVG}title") or "" for group in groups]
    assert any("merge dev into main" in title and "ada" in title for title in titles)
    style = root.findtext(f"{SVG}style") or ""
    for rule in re.sub(r"@media[^{]*\{", "", style).split("}"):
        assert not rule.strip() or rule.strip().startswith(".livingdb-graph "), rule


def test_svg_shades_the_arrow_a_sync_began_with_by_its_state() -> None:
    text = small().to_svg()
    assert 'class="core tint s-held"' in text
    assert 'class="core tint s-active"' in text
    assert text.count('class="rim s-l') == 1  # the clone, which no sync began with


# --- the page ----------------------------------------------------------------------------------


class _Page(HTMLParser):
    """The scripts of a page, and what it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.data = ""
        self._in_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        self._in_data = tag == "script" and given.get("id") == "data"

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data += data


def parsed(text: str) -> _Page:
    page = _Page()
    page.feed(text)
    page.close()
    return page


def test_the_page_loads_nothing_and_has_two_scripts(graph: SnapshotGraph) -> None:
    text = graph.to_html()
    page = parsed(text)
    assert page.loads == ["data:,"]
    assert page.tags.count("script") == 2
    assert "img" not in page.tags
    assert "default-src 'none'" in text
    assert "@@" not in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_the_page_has_every_snapshot(graph: SnapshotGraph) -> None:
    written = parsed(graph.to_html()).data
    assert not set("<>&") & set(written)
    data = json.loads(written)
    assert len(data["nodes"]) == len(graph.nodes)
    assert len(data["links"]) == 5 * len(graph.links)
    assert [node[7] for node in data["nodes"]] == [node.message for node in graph.nodes]
    assert [name for name, _ in data["lanes"]] == [lane.name for lane in graph.lanes]


def test_what_is_written_to_a_path_is_what_is_returned(tmp_path: Path) -> None:
    graph = small()
    page, image = tmp_path / "graph.html", tmp_path / "graph.svg"
    assert graph.to_html(page) == page.read_text(encoding="utf-8")
    assert graph.to_svg(image) == image.read_text(encoding="utf-8")


def test_a_link_knows_the_sync_that_began_with_it() -> None:
    graph = small()
    began = {
        graph.nodes[link.target].kind: link.sync for link in graph.links if link.sync is not None
    }
    assert {kind: graph.syncs[sync].name for kind, sync in began.items()} == {
        "derive": "main/totals",
        "schema_change": "main/main_v2",
    }


def test_a_branch_goes_on_from_its_start() -> None:
    graph = small()
    place = next(at for at, node in enumerate(graph.nodes) if node.is_start)
    after = [graph.nodes[link.target] for link in graph.links if link.source == place]
    assert [node.message for node in after] == ["fix city"]
    assert arrange_graph("t", [item(1, 0)], ["main"], 1, []).links == ()
