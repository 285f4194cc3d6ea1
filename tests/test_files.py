import errno
import os
import resource
import signal
import stat

import pytest

from madbayes.files import whole_file, write_whole


def test_only_the_file_is_there_afterwards(tmp_path):
    write_whole(tmp_path / "a", b"one")
    write_whole(str(tmp_path / "a"), b"two")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a", b"two")]


def test_the_file_appears_when_it_is_complete(tmp_path):
    with whole_file(tmp_path / "a") as file:
        file.write(b"half")
        file.flush()
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_bytes() == b"half"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_a_failure_in_the_block_leaves_the_old_file_and_nothing_else(tmp_path, error):
    write_whole(tmp_path / "a", b"old")

    def write_half():
        with whole_file(tmp_path / "a") as file:
            file.write(b"new")
            raise error("no more")

    with pytest.raises(error):
        write_half()
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a", b"old")]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_is_named(tmp_path, monkeypatch, call):
    write_whole(tmp_path / "a", b"old")

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match=r"No space left on device, nothing was written: '.*/a'") as caught:
        write_whole(tmp_path / "a", b"new")
    assert caught.value.errno == errno.ENOSPC
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a", b"old")]


def test_a_system_that_takes_no_more_bytes_leaves_the_old_file(tmp_path):
    write_whole(tmp_path / "a", b"old")
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match="nothing was written"):
            write_whole(tmp_path / "a", b"x" * 20_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a", b"old")]


def test_a_folder_one_may_not_write_to_is_named(tmp_path, monkeypatch):
    # Simulated: whoever runs the tests may be allowed everything.
    def refuse(path, *_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(PermissionError, match=r"Permission denied, nothing was written: '.*/a'"):
        write_whole(tmp_path / "a", b"new")


def test_places_where_no_file_can_be(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder: name a file in it"):
        write_whole(tmp_path, b"")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*not-there"):
        write_whole(tmp_path / "not-there" / "a", b"")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_whole(tmp_path / "file" / "a", b"")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not an ordinary file"):
        write_whole(tmp_path / "pipe", b"")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_permissions_are_the_usual_ones_and_are_kept(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    (tmp_path / "a").chmod(0o604)
    write_whole(tmp_path / "a", b"new")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o604


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path):
    write_whole(tmp_path / ("a" * 255), b"long")
    assert (tmp_path / ("a" * 255)).read_bytes() == b"long"
