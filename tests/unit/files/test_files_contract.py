"""What every kind of `Files` promises, asked of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.trying import tries

from livingdb.errors import InvalidName, NotFound
from livingdb.files.base import Files
from livingdb.files.local import LocalFiles
from livingdb.files.objects import ObjectFiles
from livingdb.files.url import open_files
from livingdb.testing import FaultyFiles, MemoryFiles

BAD_PATHS = [
    "",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/../b",
    "a/./b",
    "a\\b",
    "a\0b",
    "a\nb",
    "\ud800",
    ".tmp-a",
    "a/.tmp-b",
]


class FilesContract:
    """Inherit it and give a `files` fixture."""

    def test_what_is_written_is_read(self, files: Files) -> None:
        files.write("packs/one", b"rows")
        assert files.read("packs/one") == b"rows"
        assert files.size("packs/one") == 4
        assert files.exists("packs/one")

    def test_an_empty_file_is_a_file(self, files: Files) -> None:
        files.write("empty", b"")
        assert files.read("empty") == b""
        assert files.size("empty") == 0
        assert files.exists("empty")
        assert files.list() == ["empty"]
        assert len(files.view("empty")) == 0
        assert bytes(files.view("empty")[0:10]) == b""

    def test_a_second_write_replaces_the_first(self, files: Files) -> None:
        files.write("a", b"first, and longer")
        files.write("a", b"second")
        assert files.read("a") == b"second"
        assert files.list() == ["a"]

    def test_what_is_not_there_is_not_found(self, files: Files) -> None:
        for call in (files.read, files.view, files.size):
            with pytest.raises(NotFound, match="nothing/here"):
                call("nothing/here")
        assert not files.exists("nothing/here")

    def test_a_folder_is_not_a_file(self, files: Files) -> None:
        files.write("folder/file", b"x")
        assert not files.exists("folder")
        for call in (files.read, files.view, files.size):
            with pytest.raises(NotFound):
                call("folder")
        files.delete("folder")
        assert files.read("folder/file") == b"x"

    def test_a_file_is_not_a_folder(self, files: Files) -> None:
        files.write("file", b"x")
        assert not files.exists("file/below")
        assert files.list("file") == []
        files.delete("file/below")
        assert files.exists("file")

    def test_deleting_twice_is_fine(self, files: Files) -> None:
        files.write("a/b", b"x")
        files.delete("a/b")
        assert not files.exists("a/b")
        files.delete("a/b")
        files.delete("never/there")
        assert files.list() == []

    def test_list_is_deep_sorted_and_below_the_folder(self, files: Files) -> None:
        for path in ("b/2", "b/1/x", "b.c", "a", "bb/1", "b-/1"):
            files.write(path, b"x")
        assert files.list() == ["a", "b-/1", "b.c", "b/1/x", "b/2", "bb/1"]
        assert files.list("b") == ["b/1/x", "b/2"]
        assert files.list("b/") == ["b/1/x", "b/2"]
        assert files.list("b/1") == ["b/1/x"]
        assert files.list("absent") == []

    def test_an_empty_root_has_no_files(self, files: Files) -> None:
        assert files.list() == []
        assert not files.exists("a")

    def test_nothing_is_visible_before_the_commit(self, files: Files) -> None:
        with files.create("a/b") as writer:
            writer.write(b"one ")
            writer.write(bytearray(b"two "))
            writer.write(memoryview(b"three"))
            assert not files.exists("a/b")
            assert files.list() == []
            writer.commit()
        assert files.read("a/b") == b"one two three"
        assert files.list() == ["a/b"]

    def test_leaving_without_commit_aborts(self, files: Files) -> None:
        files.write("a", b"old")
        with files.create("a") as writer:
            writer.write(b"new")
        with files.create("b") as writer:
            writer.write(b"new")
        assert files.read("a") == b"old"
        assert files.list() == ["a"]

    def test_an_error_in_the_block_aborts(self, files: Files) -> None:
        def write_and_fail() -> None:
            with files.create("a") as writer:
                writer.write(b"new")
                raise KeyError

        with pytest.raises(KeyError):
            write_and_fail()
        assert files.list() == []

    def test_abort_leaves_nothing_and_may_be_repeated(self, files: Files) -> None:
        writer = files.create("a")
        writer.write(b"x" * 100_000)
        writer.abort()
        writer.abort()
        assert files.list() == []

    def test_a_finished_writer_takes_nothing_more(self, files: Files) -> None:
        committed, aborted = files.create("a"), files.create("b")
        committed.commit()
        aborted.abort()
        for writer in (committed, aborted):
            with pytest.raises(ValueError, match="already"):
                writer.write(b"more")
            with pytest.raises(ValueError, match="already"):
                writer.commit()
        committed.abort()
        assert files.read("a") == b""
        assert not files.exists("b")

    def test_of_two_writers_the_later_commit_wins(self, files: Files) -> None:
        with files.create("a") as first, files.create("a") as second:
            first.write(b"first")
            second.write(b"second")
            second.commit()
            assert files.read("a") == b"second"
            first.commit()
        assert files.read("a") == b"first"

    def test_anything_with_bytes_in_it_can_be_written(self, files: Files) -> None:
        import numpy as np

        numbers = np.arange(6, dtype=np.int32).reshape(2, 3)
        files.write("numbers", numbers.data)
        assert files.read("numbers") == numbers.tobytes()

    def test_a_view_slices_like_bytes(self, files: Files) -> None:
        content = bytes(range(256)) * 1024
        files.write("large", content)
        view = files.view("large")
        assert len(view) == len(content)
        spans = [
            slice(0, 0),
            slice(0, 10),
            slice(-10, None),
            slice(None, None),
            slice(len(content) - 65536, None),
            slice(len(content) - 65537, -1),
            slice(1000, 200_000),
            slice(200_000, 10**9),
            slice(300, 200),
            slice(10**9, 10**9 + 1),
        ]
        for span in spans:
            assert bytes(view[span]) == content[span], span

    def test_a_view_cannot_be_written(self, files: Files) -> None:
        files.write("a", b"x")
        view: Any = files.view("a")
        with pytest.raises(TypeError):
            view[0:1] = b"y"

    @pytest.mark.parametrize("path", BAD_PATHS)
    def test_paths_outside_the_rules_are_refused(self, files: Files, path: str) -> None:
        calls = [files.read, files.view, files.create, files.delete, files.exists, files.size]
        for call in calls:
            with pytest.raises(InvalidName):
                call(path)
        with pytest.raises(InvalidName):
            files.write(path, b"")
        if path not in ("", "a/"):
            with pytest.raises(InvalidName):
                files.list(path)

    @pytest.mark.parametrize("path", ["with space", "größe", "a+b=c%20&d#e?f", "Ω/…", "..a", "a.."])
    def test_unusual_names_are_names(self, files: Files, path: str) -> None:
        files.write(path, b"x")
        assert files.read(path) == b"x"
        assert files.list() == [path]
        files.delete(path)
        assert files.list() == []

    def test_sweep_takes_nothing_that_is_committed(self, files: Files) -> None:
        files.write("a", b"x")
        assert files.sweep(0) == 0
        assert files.read("a") == b"x"

    @settings(
        max_examples=tries(15),
        suppress_health_check=[
            HealthCheck.differing_executors,
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
        ],
    )
    @given(
        contents=st.dictionaries(
            st.from_regex(r"[a-c]{1,2}/[a-c0-9]{1,3}", fullmatch=True), st.binary(max_size=40)
        )
    )
    def test_it_is_a_map_from_paths_to_bytes(
        self, files: Files, contents: dict[str, bytes]
    ) -> None:
        for path in files.list():
            files.delete(path)
        for path, content in contents.items():
            files.write(path, content)
        assert files.list() == sorted(contents)
        assert {path: files.read(path) for path in files.list()} == contents


class TestMemoryFiles(FilesContract):
    @pytest.fixture
    def files(self) -> Files:
        return MemoryFiles()


class TestLocalFiles(FilesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> Files:
        return LocalFiles(tmp_path / "made" / "on first write")


class TestFaultyFilesWithoutFaults(FilesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> Files:
        return FaultyFiles(tmp_path / "root", power_loss=True)


class TestObjectFiles(FilesContract):
    @pytest.fixture
    def files(self, s3_server: Any, s3_bucket: str) -> Files:
        return ObjectFiles(s3_server.url(s3_bucket, "data/here"))


class TestWholeBucket(FilesContract):
    @pytest.fixture
    def files(self, s3_server: Any, s3_bucket: str) -> Files:
        return open_files(s3_server.url(s3_bucket))
