"""Plans schema changes made one after the other, and writes the recipes of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from livingdb.chunks.address import Address
from livingdb.chunks.store import StoredChunk
from livingdb.errors import BrokenConstraint, InvalidData
from livingdb.evolution.lens_evaluator import lens_recipe, store_rows
from livingdb.evolution.lenses.lens import DIRECTIONS, SHOWN_FAILURES, Lens
from livingdb.evolution.lenses.sides import VersionSide
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.constraints import check_references, check_targets
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import check_table
from livingdb.tables.given_schema import check_width
from livingdb.tables.index import Version
from livingdb.tables.letter_case import check_new
from livingdb.tables.recipe import Definition

__all__ = [
    "ChangeResult",
    "ChunkSink",
    "EvolutionPlan",
    "Explanation",
    "apply_changes",
    "changed_tables",
    "check_change_names",
    "definitions_of",
    "explain",
    "new_tables",
    "new_versions",
    "plan_changes",
]


class ChunkSink(Protocol):
    """Takes the chunks of what is being made."""

    def sink(self, chunk: StoredChunk) -> None:
        """Take a chunk."""
        ...


@dataclass(frozen=True)
class EvolutionPlan:
    """Changes that compose, each with its lens, and the schemas they lead to."""

    changes: tuple[SchemaChange, ...]
    lenses: tuple[Lens, ...]
    tables: Mapping[str, Definition]

    @property
    def conceals(self) -> bool:
        """Whether one of the changes hides what it is made of."""
        return any(lens.conceals for lens in self.lenses)

    def verdicts(self) -> dict[str, str | None]:
        """For each direction None if it is legal for all changes, else the first reason."""
        found: dict[str, str | None] = dict.fromkeys(DIRECTIONS)
        for lens in self.lenses:
            for direction, reason in lens.directions().items():
                found[direction] = found[direction] or reason
        return found


@dataclass(frozen=True)
class Explanation:
    """What a schema change would mean."""

    legal: tuple[str, ...]
    illegal: Mapping[str, str]
    scans: tuple[str, ...] = field(default=())
    failures: tuple[str, ...] = field(default=())
    """The first rows that do not fit: table, column, key and value."""

    def __str__(self) -> str:
        lines = [f"legal: {', '.join(self.legal)}"]
        lines += [f"not {direction}: {reason}" for direction, reason in self.illegal.items()]
        looks = "; ".join(self.scans)
        lines.append(f"looks at the rows first: {looks}" if looks else "takes the rows unseen")
        lines += [f"not possible: {failure}" for failure in self.failures]
        return "\n".join(lines)


def plan_changes(
    tables: Mapping[str, Definition], changes: Sequence[SchemaChange], is_new: bool = False
) -> EvolutionPlan:
    """The lenses of changes made one after the other.

    `is_new`: they are defined now, so that what users wrote in them has to be portable.
    """
    if not changes:
        raise InvalidData("there is no change to make")
    now = dict(tables)
    lenses = []
    for change in changes:
        if not isinstance(change, SchemaChange):
            raise InvalidData(f"{change!r} is no schema change; see livingdb.evolution")
        lens = change.plan(now)
        if is_new:
            change.check_definition(now)
            for expression, schema in lens.expressions:
                expression.require_portable(schema.whole)
            _check_widths(lens, now)
        for name in lens.new:
            check_table(name)
        now = {name: known for name, known in now.items() if name not in lens.old}
        now.update(lens.new)
        lenses.append(lens)
    check_targets({name: definition.schema for name, definition in now.items()})
    return EvolutionPlan(tuple(changes), tuple(lenses), now)


def _check_widths(lens: Lens, before: Mapping[str, Definition]) -> None:
    """`Unsupported` for a table that gets wider than tables can be."""
    widest = max((len(before[name].schema.visible_columns) for name in lens.old), default=0)
    for definition in lens.new.values():
        width = len(definition.schema.visible_columns)
        if width > widest:
            check_width(width)


def explain(graph: Graph, branch: str, changes: Sequence[SchemaChange]) -> Explanation:
    """Which directions are legal, why the others are not, and which rows do not fit."""
    tables = tables_of(graph, graph.snapshots.at(graph.branch(branch).head))
    known = definitions_of(graph, tables)
    plan = plan_changes(known, changes, is_new=True)
    check_change_names(plan, known)
    verdicts = plan.verdicts()
    scans = _scans(plan, known)
    return Explanation(
        tuple(name for name in DIRECTIONS if verdicts[name] is None),
        {name: reason for name, reason in verdicts.items() if reason is not None},
        tuple(scans),
        tuple(_failures(graph, plan, tables)) if scans else (),
    )


def _scans(plan: EvolutionPlan, tables: Mapping[str, Definition]) -> list[str]:
    """Why rows have to be looked at before the changes."""
    found, now = list[str](), dict(tables)
    for lens in plan.lenses:
        reason = lens.scan_reason()
        found += [] if reason is None else [reason]
        now = {name: known for name, known in now.items() if name not in lens.old} | dict(lens.new)
        for child, column, target in _links_to_hidden(lens, now):
            found.append(
                f"each {column!r} of {child!r} must be the key of a row that {target!r} shows"
            )
    return found


def _links_to_hidden(lens: Lens, after: Mapping[str, Definition]) -> list[tuple[str, str, str]]:
    """The foreign keys to tables of which a lens may hide rows: table, column and target."""
    if not lens.hides(is_right=True):
        return []
    return [
        (name, column, target)
        for name, definition in after.items()
        for column, target in definition.schema.foreign_keys
        if target in lens.new
    ]


def _failures(graph: Graph, plan: EvolutionPlan, tables: Mapping[str, Version]) -> list[str]:
    """The first rows on which the first change cannot be made that cannot be made."""
    with graph.stage() as staging:
        work = _Application(graph, staging, "transient")
        work.origins = {name: frozenset([name]) for name in tables}
        for change, lens in zip(plan.changes, plan.lenses, strict=True):
            found = lens.failures(VersionSide(graph.versions, tables))
            first = list(islice(found, SHOWN_FAILURES)) if lens.scan_reason() is not None else []
            if first:
                return first
            tables, _ = work.apply(change, lens, tables, is_stored=False, is_checked=True)
            try:
                work.check_links(lens, tables)
            except InvalidData as error:
                return [str(error)]
    return []


def check_change_names(plan: EvolutionPlan, tables: Mapping[str, Definition]) -> None:
    """`InvalidName` if one of the changes makes a name that differs from another in case only."""
    now = {name: definition.schema for name, definition in tables.items()}
    for lens in plan.lenses:
        after = {name: schema for name, schema in now.items() if name not in lens.old}
        after.update((name, definition.schema) for name, definition in lens.new.items())
        check_new(after, now)
        now = after


@dataclass(frozen=True)
class ChangeResult:
    """All tables after one of the changes, and the versions it made that later ones do not hide.

    `concealed`: what it hides is stored as rows.
    """

    tables: Mapping[str, Version]
    made: Sequence[Version]
    concealed: bool = False


def new_tables(
    graph: Graph,
    plan: EvolutionPlan,
    tables: Mapping[str, Version],
    staging: ChunkSink,
    recipes: str = "",
) -> tuple[dict[str, Version | None], list[Version]]:
    """The tables that differ after the changes (None: gone), and all versions that were made.

    Nothing is written but recipes, and rows that a change conceals; others are looked at only by
    changes that say so.
    """
    stages = apply_changes(graph, plan, tables, staging, recipes)
    return changed_tables(tables, stages[-1].tables), new_versions(stages)


def apply_changes(
    graph: Graph,
    plan: EvolutionPlan,
    tables: Mapping[str, Version],
    staging: ChunkSink,
    recipes: str = "",
    each_stage: bool = False,
) -> list[ChangeResult]:
    """The tables after each of the changes.

    What changes conceal is stored as rows: after the last one that does, or after `each_stage`,
    where branches may stand on what each of them makes.  Unless there are to be `recipes`: to be
    forgotten again ("transient"), or to be stored when they are first read ("lazy").
    """
    work = _Application(graph, staging, recipes)
    work.origins = {name: frozenset([name]) for name in tables}
    last = max((at for at, lens in enumerate(plan.lenses) if lens.conceals), default=-1)
    stages: list[ChangeResult] = []
    for at, (change, lens) in enumerate(zip(plan.changes, plan.lenses, strict=True)):
        is_whole = each_stage or at == last or any(lens.row_map(n) is None for n in lens.new)
        is_stored = lens.conceals and not recipes and is_whole
        tables, made = work.apply(change, lens, tables, is_stored)
        stages.append(ChangeResult(tables, made, is_stored))
    if each_stage or not any(stage.concealed for stage in stages):
        return stages
    needed = work.reachable_versions(tables)
    return [
        replace(stage, made=[version for version in stage.made if version.address in needed])
        for stage in stages
    ]


@dataclass
class _Application:
    """Changes on their way: what they make, and the tables that it comes from."""

    graph: Graph
    staging: ChunkSink
    recipes: str
    origins: dict[str, frozenset[str]] = field(default_factory=dict)
    """For each table, those of before all changes that a recipe of it leads to."""
    _recipes: dict[Address, tuple[Lens, Mapping[str, Version], str]] = field(default_factory=dict)
    """How recipes that were made lead to rows."""
    _pending: set[str] = field(default_factory=set)
    """The tables that hold something concealed."""
    _concealed: frozenset[str] = frozenset()
    """The tables of before all changes of which something is concealed."""

    def apply(
        self,
        change: SchemaChange,
        lens: Lens,
        tables: Mapping[str, Version],
        is_stored: bool,
        is_checked: bool = False,
    ) -> tuple[dict[str, Version], list[Version]]:
        """The tables after one change, and the versions that it makes.

        `is_checked`: the rows have been looked at.
        """
        graph, made = self.graph, list[Version]()
        read = (*lens.old, *sorted(lens.consults))
        inputs = {name: tables[name] for name in read}
        if not is_checked and lens.scan_reason() is not None:
            lens.check(VersionSide(graph.versions, tables))
        if lens.conceals and not self.recipes:
            lens.unlock()
        after = {name: version for name, version in tables.items() if name not in lens.old}
        below = frozenset[str]().union(*(self.origins[name] for name in read))
        for name, definition in lens.new.items():
            same = _unchanged_version(graph, lens, name, definition, inputs)
            if same is not None:
                after[name] = same
                continue
            after[name] = self._make(change, lens, name, inputs, is_stored)
            made.append(after[name])
        is_pending = lens.conceals or bool(self._pending & set(read))
        self._pending = (self._pending - set(lens.old)) | (set(lens.new) if is_pending else set())
        origins = {name: self.origins.get(name, frozenset()) for name in after}
        self.origins = origins | dict.fromkeys(lens.new, frozenset() if is_stored else below)
        if lens.conceals:
            self._concealed |= below
        if is_stored:
            made += self._store_concealed(after)
        if not is_checked:
            self.check_links(lens, after)
        return after, made

    def check_links(self, lens: Lens, after: Mapping[str, Version]) -> None:
        """`InvalidData` if a change hides a row that a foreign key names."""
        if not lens.hides(is_right=True):
            return
        versions = self.graph.versions
        for name, column, target in _links_to_hidden(lens, definitions_of(self.graph, after)):
            sides = versions.rows(after[name]), versions.rows(after[target])
            try:
                check_references(name, column, target, *sides)
            except BrokenConstraint as error:
                raise BrokenConstraint(
                    f"{error} that is not hidden: change first what refers to it"
                ) from None

    def _make(
        self,
        change: SchemaChange,
        lens: Lens,
        name: str,
        inputs: Mapping[str, Version],
        is_stored: bool,
    ) -> Version:
        versions, sink, definition = self.graph.versions, self.staging.sink, lens.new[name]
        if not inputs:
            return versions.create(definition, [], sink)
        if is_stored:
            return store_rows(versions, lens, inputs, name, sink)
        stored = definition.to_chunk()
        sink(stored)
        is_lazy = lens.conceals and self.recipes == "lazy"
        recipe = lens_recipe(change, inputs, name, stored.address, is_lazy)
        version = versions.derive(recipe, sink)
        self._recipes[version.address] = lens, inputs, name
        return version

    def reachable_versions(self, tables: Mapping[str, Version]) -> set[Address]:
        """The versions that tables are, or are made of: what was concealed is made of nothing."""
        waiting, found = [version.address for version in tables.values()], set[Address]()
        while waiting:
            address = waiting.pop()
            if address not in found:
                found.add(address)
                if address in self._recipes:
                    waiting += [v.address for v in self._recipes[address][1].values()]
        return found

    def _store_concealed(self, after: dict[str, Version]) -> list[Version]:
        """Store, too, what earlier changes made of tables of which something is concealed now."""
        found = []
        for name, version in list(after.items()):
            how = self._recipes.get(version.address)
            is_near = name in self._pending or self.origins[name] & self._concealed
            if how is not None and is_near:
                after[name] = store_rows(self.graph.versions, *how, self.staging.sink)
                self.origins[name] = frozenset()
                found.append(after[name])
        self._pending = set()
        return found


def new_versions(stages: Sequence[ChangeResult]) -> list[Version]:
    """The versions that changes made."""
    return [version for stage in stages for version in stage.made]


def changed_tables(
    before: Mapping[str, Version], after: Mapping[str, Version]
) -> dict[str, Version | None]:
    """The tables that are not as before; None: gone."""
    found: dict[str, Version | None] = {
        name: version for name, version in after.items() if before.get(name) != version
    }
    found.update(dict.fromkeys(name for name in before if name not in after))
    return found


def _unchanged_version(
    graph: Graph, lens: Lens, name: str, definition: Definition, inputs: Mapping[str, Version]
) -> Version | None:
    """The old version, where the change is one of names outside the table only."""
    source = lens.unchanged_source(name)
    if source is None or graph.versions.definition(inputs[source]) != definition:
        return None
    return inputs[source]


def definitions_of(graph: Graph, tables: Mapping[str, Version]) -> dict[str, Definition]:
    """The schemas and layouts of tables."""
    return {name: graph.versions.definition(version) for name, version in tables.items()}
