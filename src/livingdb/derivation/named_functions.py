"""Derived objects that a named function makes: data frames from data frames, and models.

A model's artefact is a table of its files: bytes that a function returned are a file without a
name, and what it wrote into the folder it was given are files by their paths.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from livingdb.derivation.trusted_functions import load_function
from livingdb.derivation.view import View
from livingdb.engines.request import TableLocation
from livingdb.engines.spark.session import spark_session
from livingdb.engines.spark.stop_jobs import stoppable_jobs
from livingdb.errors import InvalidData, LivingDBError, StorageFailure
from livingdb.interruption import check_interruption

__all__ = ["ARTIFACT", "FunctionFailed", "FunctionResult", "artifact_of", "run_frames", "run_model"]

ARTIFACT = pa.schema(
    [
        pa.field("path", pa.string(), False),
        pa.field("part", pa.int32(), False),
        pa.field("data", pa.binary(), False),
    ]
)
_PART_BYTES = 1 << 20


@dataclass(frozen=True)
class FunctionResult:
    """What a function made: rows, and what it reports about them."""

    rows: Any
    metrics: Mapping[str, Any] = field(default_factory=dict)


FrameSources = Mapping[str, TableLocation | Callable[[], pa.Table]]
"""Where tables lie; or what reads them, of those that only this process has."""


def run_frames(view: View, tables: FrameSources, trust: Sequence[str]) -> Any:
    """The data frame that a function makes of the tables' data frames."""
    function = load_function(view.function, trust)
    frames = _frames(tables)
    made = _call_function(view, function, frames, dict(view.params))
    if type(made).__name__ != "DataFrame" or "pyspark" not in type(made).__module__:
        raise InvalidData(f"{view.function!r} returned {type(made).__name__}, not a data frame")
    return made


def _frames(tables: FrameSources) -> dict[str, Any]:
    session = spark_session()
    frames = {}
    for name, stored in tables.items():
        if not isinstance(stored, TableLocation):
            frames[name] = session.createDataFrame(stored())
            continue
        read = session.read.format("livingdb").option("table", stored.table)
        frames[name] = read.option("versionAsOf", f"id:{stored.snapshot}").load(stored.url)
    return frames


def run_model(
    view: View,
    tables: FrameSources,
    read: Mapping[str, Callable[[], pa.Table]],
    trust: Sequence[str],
) -> FunctionResult:
    """The artefact a function trains, and the metrics it reports.

    The function is given the tables and, by name, what it asks for: `folder` to write files to, and
    its parameters.  Its tables are Arrow's, or Spark's data frames if its first parameter is
    called `frames` or annotated so.  It returns bytes, a dict of metrics, or both as a pair.
    """
    function = load_function(view.function, trust)
    wants = _parameters(function)
    params = dict(view.params)
    first = next(iter(wants.values()), None)
    try:
        place = tempfile.TemporaryDirectory(prefix="livingdb-model-")
    except OSError as error:
        why = f"there is no room for the files of {view.function!r}: {error.strerror}"
        raise StorageFailure(why) from error
    with place as folder:
        if "folder" in wants and "folder" not in params:
            params["folder"] = Path(folder)
        if _wants_frames(first):
            with stoppable_jobs(spark_session()):
                answer = _call_function(view, function, _frames(tables), params)
        else:
            rows = {name: get() for name, get in read.items()}
            answer = _call_function(view, function, rows, params)
        data, metrics = _parse_answer(view, answer)
        files = {"": data} if data is not None else {}
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                files[path.relative_to(folder).as_posix()] = path.read_bytes()
    if not files:
        raise InvalidData(f"{view.function!r} returned no bytes and wrote no files: no artefact")
    return FunctionResult(_artifact_table(files), metrics)


def _call_function(view: View, function: Any, tables: Any, params: dict[str, Any]) -> Any:
    """What a function answers; nothing interrupts it, but once stopped it has no answer."""
    try:
        answer = function(tables, **params)
    except LivingDBError:
        raise
    except Exception as error:
        check_interruption()
        raise FunctionFailed(
            f"{view.function!r} failed: {type(error).__name__}: {error}"
        ) from error
    check_interruption()
    return answer


class FunctionFailed(LivingDBError):
    """A named function raised an error."""

    code = "function_failed"


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _wants_frames(parameter: inspect.Parameter | None) -> bool:
    if parameter is None:
        return False
    return parameter.name in ("frames", "dfs") or "DataFrame" in str(parameter.annotation)


def _parse_answer(view: View, answer: Any) -> tuple[bytes | None, Mapping[str, Any]]:
    pair = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, {})
    if isinstance(answer, Mapping):
        pair = (None, answer)
    data, metrics = pair
    if data is not None and not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidData(
            f"{view.function!r} returned {type(data).__name__}: bytes, metrics or both are expected"
        )
    if not isinstance(metrics, Mapping):
        raise InvalidData(f"{view.function!r}: metrics are a dict, not {type(metrics).__name__}")
    plain = {str(name): _metric_value(value) for name, value in metrics.items()}
    return None if data is None else bytes(data), plain


def _metric_value(value: Any) -> Any:
    """A metric as JSON has it."""
    if hasattr(value, "item"):
        value = value.item()
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


def _artifact_table(files: Mapping[str, bytes]) -> pa.Table:
    paths, parts, data = [], [], []
    for path, content in files.items():
        for number, start in enumerate(range(0, max(len(content), 1), _PART_BYTES)):
            paths.append(path)
            parts.append(number)
            data.append(content[start : start + _PART_BYTES])
    arrays = [pa.array(paths), pa.array(parts, pa.int32()), pa.array(data, pa.binary())]
    return pa.Table.from_arrays(arrays, schema=ARTIFACT)


def artifact_of(rows: pa.Table) -> bytes | dict[str, bytes]:
    """The bytes a model's table holds; its files by path, if it has more than bytes."""
    files: dict[str, list[bytes]] = {}
    for path, data in zip(rows["path"].to_pylist(), rows["data"].to_pylist(), strict=True):
        files.setdefault(path, []).append(data)
    whole = {path: b"".join(parts) for path, parts in files.items()}
    return whole[""] if set(whole) == {""} else whole
