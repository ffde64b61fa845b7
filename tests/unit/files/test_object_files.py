"""Object stores: what is published when an upload fails, how little is fetched, what is hidden."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.thinned import thinned

from livingdb.errors import InvalidName, LivingDBError, NotFound, StorageFailure
from livingdb.files.object_url import ObjectURL
from livingdb.files.objects import TAIL_BYTES, ObjectFiles
from livingdb.files.url import open_files

LARGE = bytes(25 * 1024 * 1024)


@pytest.fixture
def files(s3_server: Any, s3_bucket: str) -> ObjectFiles:
    return ObjectFiles(s3_server.url(s3_bucket, "data"))


@pytest.fixture
def refuse(s3_server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make the store refuse requests that hold one of these words."""

    def refuse(*words: str) -> None:
        monkeypatch.setattr(s3_server, "refuse", lambda request: any(w in request for w in words))

    yield refuse
    gc.collect()


def test_a_large_file_is_uploaded_in_parts(s3_server: Any, files: ObjectFiles) -> None:
    s3_server.requests.clear()
    content = b"head" + LARGE + b"foot"
    files.write("large", content)
    assert sum("partNumber=" in request for request in s3_server.requests) == 3
    assert files.read("large") == content


def test_a_small_file_is_one_request(s3_server: Any, files: ObjectFiles) -> None:
    s3_server.requests.clear()
    files.write("small", b"x")
    assert len(s3_server.requests) == 1


@pytest.mark.parametrize(
    "word", thinned(["partNumber=2", "?uploads", "kept?uploadId=", "PUT", "POST"], every=3)
)
def test_a_failed_part_publishes_nothing(files: ObjectFiles, refuse: Any, word: str) -> None:
    files.write("kept", b"old")
    refuse(word)
    with pytest.raises(StorageFailure, match=r"cannot write s3://.*/data/kept: "):
        files.write("kept", LARGE)
    refuse()
    gc.collect()
    assert files.list() == ["kept"]
    assert files.read("kept") == b"old"


def test_an_interrupt_does_not_publish_half(
    files: ObjectFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        """The main thread is interrupted while the upload's thread goes on."""

        def __init__(self, future: Any) -> None:
            self._future = future

        def result(self) -> None:
            raise KeyboardInterrupt

    submit = ThreadPoolExecutor.submit
    with monkeypatch.context() as patch:
        patch.setattr(
            ThreadPoolExecutor, "submit", lambda *arguments: Interrupted(submit(*arguments))
        )
        with pytest.raises(KeyboardInterrupt):
            files.write("large", LARGE)
    assert files.size("large") == len(LARGE)


def test_a_refused_small_file_publishes_nothing(files: ObjectFiles, refuse: Any) -> None:
    refuse("PUT")
    with pytest.raises(StorageFailure, match="ACCESS_DENIED"):
        files.write("small", b"x")
    refuse()
    gc.collect()
    assert files.list() == []
    files.write("small", b"x")
    assert files.list() == ["small"]


def test_an_aborted_file_is_never_sent(s3_server: Any, files: ObjectFiles) -> None:
    s3_server.requests.clear()
    with files.create("large") as writer:
        writer.write(LARGE)
    dropped = files.create("dropped")
    dropped.write(b"x")
    del dropped
    gc.collect()
    assert s3_server.requests == []


def test_the_tail_is_fetched_once_and_the_rest_on_demand(
    s3_server: Any, files: ObjectFiles
) -> None:
    content = bytes(range(256)) * 1024
    files.write("pack", content)
    s3_server.requests.clear()
    view = files.view("pack")
    assert len(view) == len(content)
    assert view[-8:] == content[-8:]
    assert view[-1000:-8] == content[-1000:-8]
    assert view[-TAIL_BYTES:] == content[-TAIL_BYTES:]
    assert [request.split()[0] for request in s3_server.requests] == ["HEAD", "GET"]
    assert view[100:200] == content[100:200]
    assert len(s3_server.requests) == 3


def test_a_view_is_sliced_in_steps_of_one(files: ObjectFiles) -> None:
    files.write("pack", b"abc")
    with pytest.raises(ValueError, match="steps"):
        files.view("pack")[::2]


def test_a_view_of_a_deleted_file_is_not_found(files: ObjectFiles) -> None:
    files.write("pack", bytes(100_000))
    view = files.view("pack")
    files.delete("pack")
    with pytest.raises(NotFound, match="data/pack"):
        view[0:10]


def test_a_bucket_that_is_not_there_is_a_failure_to_write(s3_server: Any) -> None:
    files = ObjectFiles(s3_server.url("no-such-bucket", "data"))
    with pytest.raises(StorageFailure, match="NO_SUCH_BUCKET"):
        files.write("a", b"x")
    assert files.list() == []


def test_a_spool_folder_that_fails_is_a_storage_failure(s3_server: Any, s3_bucket: str) -> None:
    files = ObjectFiles(s3_server.url(s3_bucket), spool_folder="/nonexistent")
    with pytest.raises(StorageFailure, match="spool"):
        files.create("a")


def test_other_prefixes_are_out_of_sight(s3_server: Any, s3_bucket: str) -> None:
    ours = ObjectFiles(s3_server.url(s3_bucket, "data"))
    theirs = ObjectFiles(s3_server.url(s3_bucket, "data2"))
    ours.write("a", b"x")
    theirs.write("b", b"y")
    assert ours.list() == ["a"]
    assert theirs.list() == ["b"]
    assert ObjectFiles(s3_server.url(s3_bucket)).list() == ["data/a", "data2/b"]


def test_the_url_opens_the_same_files_without_the_secret(s3_server: Any, s3_bucket: str) -> None:
    files = ObjectFiles(s3_server.url(s3_bucket, "data", userinfo="ACCESS:canary%2Fsecret@"))
    files.write("a", b"x")
    assert "canary" not in files.url
    assert "ACCESS" not in files.url
    assert open_files(files.url).read("a") == b"x"


@pytest.mark.parametrize("secret", ["canary", "can%2Fary", "canary%40host", "c+a%3Dn"])
def test_secrets_appear_nowhere(s3_server: Any, refuse: Any, secret: str) -> None:
    url = s3_server.url("no-such-bucket", "data", userinfo=f"KEYID:{secret}@")
    address = ObjectURL.parse(url)
    files = ObjectFiles(url)
    refuse("s")
    shown = [repr(files), files.url, str(vars(files)), repr(address), address.safe]
    calls: list[Callable[[], object]] = [
        lambda: files.write("a", b"x"),
        lambda: files.read("a"),
        files.list,
        lambda: files.delete("a"),
        lambda: files.exists("a"),
    ]
    for call in calls:
        with pytest.raises(LivingDBError) as caught:
            call()
        shown += ["".join(traceback.format_exception(caught.value)), repr(caught.value)]
    for text in shown:
        assert secret not in text
        assert address.password not in text
        assert "KEYID" not in text


@pytest.mark.parametrize(
    "url",
    [
        "s3://KEYID:can/ary@bucket/prefix",
        "s3://KEYID:can?ary@bucket/prefix",
        "s3://KEYID:can#ary@bucket/prefix",
        "s3://KEYID:can ary@buc ket/prefix",
        "s3://KEYID:canary",
        "s3://KEYID:canary@",
        "s3://KEYID:canary@/prefix",
        "s3://KEYID:canary@bucket/a/../b",
        "s3://KEYID:canary@bucket/prefix?session_token=canary",
        "s3://KEYID:canary@bucket/prefix?background_writes=false",
        "s3://KEYID:canary@bucket/prefix?region",
        "s3://bucket/prefix?scheme=ftp&region=canary",
        "s3://bucket/prefix?endpoint_override=KEYID:canary@host",
        "s3://[KEYID:canary",
        "gs://canary@bucket/prefix",
    ],
)
def test_bad_urls_are_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(InvalidName) as caught:
        open_files(url)
    text = "".join(traceback.format_exception(caught.value))
    for word in ("canary", "KEYID", "ary@", "can/", "can?", "can#"):
        assert word not in str(caught.value)
        assert word not in text.replace(url, "")


def test_google_urls_are_taken() -> None:
    files = open_files("gs://anonymous@bucket/prefix?endpoint_override=127.0.0.1:1&scheme=http")
    assert files.url == ("gs://anonymous@bucket/prefix?endpoint_override=127.0.0.1%3A1&scheme=http")
