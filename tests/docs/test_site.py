"""The site has every page and every public name; the tests and commands it names are there."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import livingdb
from livingdb.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
GUARANTEES = (DOCS / "guarantees.md").read_text(encoding="utf-8")
SECURITY = (DOCS / "security.md").read_text(encoding="utf-8")


class _Loader(yaml.SafeLoader):
    """Reads what MkDocs reads; objects of plugins are of no interest."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
CONFIG: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)


def _pages(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in _pages(part)]


def test_the_navigation_has_every_page_once() -> None:
    listed = _pages(CONFIG["nav"])
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


def test_nothing_is_fetched_from_a_network() -> None:
    assert CONFIG["theme"]["font"] is False
    assert "extra_javascript" not in CONFIG
    assert all(not path.startswith("http") for path in CONFIG["extra_css"])


def _links(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _links(page):
        assert target.startswith("https://") or (page.parent / target).exists(), target


# --- the reference --------------------------------------------------------------------------


def _referred() -> set[str]:
    """What the pages of the reference show, by the paths they name it with."""
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    return set(re.findall(r"^::: ([\w.]+)", text, re.M))


def test_every_public_name_is_in_the_reference() -> None:
    referred = _referred()
    wanted = [name for name in livingdb.__all__ if not name.startswith("__")]
    for name in wanted:
        value = getattr(livingdb, name)
        assert f"{value.__module__}.{value.__qualname__}" in referred or (
            value.__module__ in referred
        ), name
    evolution = importlib.import_module("livingdb.evolution")
    for name in set(evolution.__all__) - {"SchemaChange"}:
        value = getattr(evolution, name)
        assert f"{value.__module__}.{value.__qualname__}" in referred, name


def test_the_reference_names_what_is_there() -> None:
    for path in _referred():
        home, _, name = path.rpartition(".")
        module = importlib.import_module(home)
        assert hasattr(module, name) or importlib.import_module(path), path


def test_what_is_referred_to_says_what_it_is() -> None:
    for path in _referred():
        home, _, name = path.rpartition(".")
        value = getattr(importlib.import_module(home), name, None)
        assert value is None or value.__doc__, path


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_described(command: str) -> None:
    assert re.search(rf"[`,| ]{command}\b", (DOCS / "cli.md").read_text(encoding="utf-8"))


# --- the guarantees -------------------------------------------------------------------------


def named_tests(text: str) -> Iterator[str]:
    """The tests that a page names; a name alone is that of a file or test beside the one before."""
    for line in text.splitlines():
        place = ""
        for name in re.findall(r"`((?:tests/|test_)[^`]+)`", line):
            if name.startswith("tests/"):
                place = name
            elif name.endswith(".py"):
                place = f"{place.rpartition('/')[0]}/{name}"
            else:
                place = f"{place.partition('::')[0]}::{name}"
            yield place


@pytest.mark.parametrize("named", sorted(set(named_tests(GUARANTEES + SECURITY))))
def test_tests_that_hold_guarantees_exist(named: str) -> None:
    path, _, test = named.partition("::")
    assert (ROOT / path).is_file(), path
    if test:
        assert re.search(rf"def {test}\(", (ROOT / path).read_text(encoding="utf-8"))


def test_every_promise_about_strangers_names_a_test() -> None:
    rows = [line for line in SECURITY.splitlines() if line.startswith("| ")]
    promises = [line for line in rows if line != "| promise | tested by |"]
    assert len(promises) > 20
    assert [line for line in promises if "`tests/" not in line] == []


def test_guarantees_name_tests() -> None:
    assert GUARANTEES.count("tests/") > 40
