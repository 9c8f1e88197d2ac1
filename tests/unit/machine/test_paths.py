import hashlib
import os
import pwd
from pathlib import Path

import pytest

from craze.machine import paths
from craze.machine.errors import MachineError


@pytest.mark.parametrize(
    ("value", "home"),
    [("/home/me", "/home/me"), ("  /home/me/ ", "/home/me"), ("//home//me/.", "/home/me")],
)
def test_home_is_the_variable_trimmed_and_cleaned(value: str, home: str) -> None:
    assert paths.home({"HOME": value}) == home


@pytest.mark.parametrize("environ", [{}, {"HOME": "  "}])
def test_home_is_else_the_accounts(environ: dict[str, str]) -> None:
    assert paths.home(environ) == pwd.getpwuid(os.geteuid()).pw_dir


def test_a_relative_home_is_refused() -> None:
    with pytest.raises(MachineError, match="HOME='me' is not an absolute path"):
        paths.home({"HOME": "me"})


@pytest.mark.parametrize(
    ("value", "directory"),
    [
        ("", "/h/.craze"),
        ("   ", "/h/.craze"),
        ("/c", "/c"),
        (" /c/./x/../y ", "/c/y"),
        ("~", "/h"),
        ("~/craze", "/h/craze"),
        ("~other", "/cwd/~other"),
        ("sub", "/cwd/sub"),
    ],
)
def test_the_craze_directory_is_absolute(value: str, directory: str) -> None:
    assert paths.craze_home({"HOME": "/h", "CRAZE_HOME": value}, "/cwd") == directory


def test_links_are_not_resolved(root: Path) -> None:
    (root / "link").symlink_to(root)
    directory = paths.craze_home({"HOME": "/h", "CRAZE_HOME": f"{root}/link/c"})
    assert directory == f"{root}/link/c"


def test_a_current_directory_that_is_gone_matters_only_to_relative_paths(root: Path) -> None:
    here = os.getcwd()
    gone = root / "gone"
    gone.mkdir()
    os.chdir(gone)
    try:
        gone.rmdir()
        assert paths.craze_home({"HOME": "/h"}) == "/h/.craze"
        with pytest.raises(MachineError, match="the current directory: no such file"):
            paths.craze_home({"HOME": "/h", "CRAZE_HOME": "c"})
    finally:
        os.chdir(here)


@pytest.mark.parametrize("directory", ["/h/.craze", "/h/é", "/h/\udcff"])
def test_a_namespace_is_the_digest_of_the_paths_bytes(directory: str) -> None:
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()
    assert paths.namespace(directory) == digest[:8]


def test_every_path_is_where_the_tables_put_it() -> None:
    one = paths.Paths.of({"HOME": "/h", "CRAZE_HOME": "/c"})
    found = {
        one.entry("0a"): "/h/.cache/craze/hosts/0a.json",
        one.host_lock("0a"): "/h/.cache/craze/hosts/0a.lock",
        one.claim("s"): "/h/.cache/craze/locks/s.lock",
        one.host_log("0a"): "/h/.cache/craze/host-logs/0a.log",
        one.pgids("0a"): "/h/.cache/craze/host-logs/0a.pgids",
        one.hubs: "/h/.cache/craze/hubs",
        one.catalogs: "/h/.cache/craze/catalogs",
        one.config: "/c/config.toml",
        one.index: "/c/sessions.jsonl",
        paths.lock_beside(one.index): "/c/sessions.jsonl.lock",
        paths.host_socket("/r", "ns", "0a"): "/r/ns/0a.sock",
    }
    assert list(found) == list(found.values())
