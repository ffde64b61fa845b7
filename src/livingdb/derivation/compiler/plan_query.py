"""Plans: how a view, which is a query over tables, follows the changes of these tables.

A query is compiled once, into stages.  Given what changed in the tables, each stage says what
changes in it; the last stage is the view.  Nothing here reads or writes storage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from livingdb.derivation.compiler.aggregates import unmaintainable_function
from livingdb.derivation.compiler.flow import Flow
from livingdb.derivation.compiler.fuse_stages import fuse
from livingdb.derivation.compiler.parentheses import without_parentheses
from livingdb.derivation.compiler.query_compiler import Block, Compiler, Environment
from livingdb.derivation.compiler.query_trees import column
from livingdb.derivation.operators.linear_block import LinearBlock
from livingdb.derivation.operators.node import Leaf, Node
from livingdb.derivation.operators.stage import build_stage, renamed_stage
from livingdb.derivation.operators.stored_node import StoredNode
from livingdb.derivation.plan import (
    WEIGHT,
    Ask,
    Input,
    NeedsFull,
    Plan,
    Relations,
    Stage,
)
from livingdb.errors import InvalidData, InvalidName
from livingdb.tables.letter_case import alike_names

__all__ = ["WEIGHT", "Ask", "Input", "NeedsFull", "Plan", "Relations", "Stage", "plan"]


def plan(query: exp.Query, tables: Mapping[str, Input], key: Sequence[str] | None = None) -> Plan:
    """The plan of a view; `key` are columns that identify its rows, if the caller knows.

    The tables of the query are plain names, keys of `tables`.
    """
    compiler = Compiler(tables)
    query = without_parentheses(query)
    reason = unmaintainable_function(query)
    if query.find(exp.Placeholder) is not None:
        reason = "PARAMETER"
    if reason is not None:
        block = compiler.compile_in_full(query, Environment(), reason)
    else:
        block = compiler.compile_query(query, Environment())
    _check_names(block, key or ())
    last = _last_stage(compiler, block, None if key is None else tuple(key))
    return Plan((*_required_stages(compiler.stages, last), last), tuple(compiler.notes))


def _required_stages(stages: Sequence[Stage], last: Stage) -> list[Stage]:
    """The stages that the last one reads, through others as well."""
    read, found = set(last.reads), []
    for stage in reversed(stages):
        if stage.name in read:
            read |= set(stage.reads)
            found.append(stage)
    return found[::-1]


def _check_names(block: Block, key: Sequence[str]) -> None:
    missing = [name for name in key if name not in dict(block.names)]
    if missing:
        raise InvalidData(f"the view has no column {missing[0]!r}, which its key names")
    names = [name for name, _ in block.names]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidData(f"the view has several columns {twice[0]!r}; give each its own name")
    for one, other in alike_names(names):
        raise InvalidName(f"the columns {one!r} and {other!r} of the view differ in case only")


def _last_stage(compiler: Compiler, block: Block, key: tuple[str, ...] | None) -> Stage:
    """The stage of the view; the last hidden stage, if that is already it."""
    stages = compiler.stages
    shown = [name for name, _ in block.names]
    node = block.node
    if stages and stages[-1].name == getattr(node, "name", None) and list(node.columns) == shown:
        found = stages.pop()
        return renamed_stage(found, "", found.key if key is None else key)
    if isinstance(node, Leaf) or list(node.columns) != shown:
        flow = Flow(compiler.fresh_name, compiler.constants)
        relation = compiler.fresh_name()
        flow.add(relation, node)
        node = flow.project(
            [(name, flow.substitute(column(relation, place))) for name, place in block.names]
        )
    whole = _merge_full_stage(compiler, node)
    if whole is not None:
        return renamed_stage(whole, "", whole.key if key is None else key)
    made = _fuse_last_stage(compiler, node)
    return build_stage("", made, made.key if key is None else key)


def _merge_full_stage(compiler: Compiler, node: Node) -> Stage | None:
    """A selection over a stage that is answered in full is answered with it."""
    if not isinstance(node, LinearBlock) or not _reads_only_last(compiler, node):
        return None
    last = compiler.stages[-1]
    if last.strategy != "full" or node.constants:
        return None
    (name,) = node.sources
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    query = node.query_over(exp.Subquery(this=last.ask.query.copy(), alias=alias))
    compiler.stages.pop()
    return replace(last, ask=Ask(query, last.ask.relations), key=node.key)


def _reads_only_last(compiler: Compiler, node: LinearBlock) -> bool:
    """Whether the last hidden stage is all that a selection reads."""
    if len(node.sources) != 1 or not compiler.stages or node.laterals:
        return False
    read = [part.name for part in node.parts() if isinstance(part, Leaf)]
    (source,) = node.sources.values()
    last = compiler.stages[-1].name
    return isinstance(source, Leaf) and source.name == last and read.count(last) == 1


def _fuse_last_stage(compiler: Compiler, node: Node) -> Node | StoredNode:
    """The node with the last hidden stage in it, if nothing else reads that."""
    if not isinstance(node, LinearBlock) or not _reads_only_last(compiler, node):
        return node
    before = compiler.stage_nodes.get(compiler.stages[-1].name)
    made = None if before is None else fuse(node, before)
    if made is None:
        return node
    compiler.stages.pop()
    return made
