import os
import subprocess
import sys
from pathlib import Path

import pytest

from craze.machine import claims
from craze.machine.errors import MachineError
from craze.machine.paths import Paths

CLAIM = """
import os, subprocess, sys, time
from craze.machine import claims
from craze.machine.paths import Paths
claims.claim(Paths.of(os.environ), "s-1", "0123456789ab")
agent = subprocess.Popen(["sleep", "60"], start_new_session=True)
print(agent.pid, flush=True)
time.sleep(60)
"""


def test_one_process_has_a_session(paths: Paths) -> None:
    claim = claims.claim(paths, "s-1", "0123456789ab")
    with pytest.raises(claims.Claimed) as claimed:
        claims.claim(paths, "s-1", "aaaaaaaaaaaa", sleep=lambda _: None)
    assert str(claimed.value) == (
        f"rundir: session s-1 is open in another craze (pid {os.getpid()}, host 0123456789ab)"
    )
    assert (claimed.value.session, claimed.value.pid, claimed.value.host) == (
        "s-1", os.getpid(), "0123456789ab",
    )  # fmt: skip
    claims.claim(paths, "s-2", "aaaaaaaaaaaa").release()
    claim.release()
    assert Path(paths.claim("s-1")).read_bytes() == b""
    claims.claim(paths, "s-1", "aaaaaaaaaaaa").release()


def test_a_holder_that_has_not_written_its_line_is_unknown(paths: Paths) -> None:
    claim = claims.claim(paths, "s-1", "0123456789ab")
    os.truncate(paths.claim("s-1"), 0)
    with pytest.raises(claims.Claimed, match=r"\(pid \?, host \?\)"):
        claims.claim(paths, "s-1", "aaaaaaaaaaaa", sleep=lambda _: None)
    claim.release()


@pytest.mark.parametrize("session", ["", ".", "..", "a/b", "x" * 129, "a\n"])
def test_only_a_token_can_be_claimed(paths: Paths, session: str) -> None:
    with pytest.raises(MachineError, match="is no token"):
        claims.claim(paths, session, "0123456789ab")


def test_a_claim_does_not_depend_on_the_craze_directory(
    environ: dict[str, str], root: Path
) -> None:
    one = Paths.of(environ)
    other = Paths.of(environ | {"CRAZE_HOME": f"{root}/other"})
    claim = claims.claim(one, "s-1", "0123456789ab")
    with pytest.raises(claims.Claimed):
        claims.claim(other, "s-1", "aaaaaaaaaaaa", sleep=lambda _: None)
    claim.release()


def test_b31_a_killed_hosts_claim_is_free_though_its_agent_lives(
    environ: dict[str, str], paths: Paths
) -> None:
    host = subprocess.Popen(
        [sys.executable, "-c", CLAIM], env=os.environ | environ, stdout=subprocess.PIPE
    )
    assert host.stdout is not None
    with host.stdout as out:
        agent = int(out.readline())
    host.kill()
    host.wait()
    try:
        claims.claim(paths, "s-1", "aaaaaaaaaaaa", sleep=lambda _: None).release()
        os.kill(agent, 0)
    finally:
        os.kill(agent, 9)


def test_an_unwritable_claim_is_an_error(paths: Paths) -> None:
    claims.claim(paths, "s-0", "0123456789ab").release()
    os.mkdir(paths.claim("s-1"))
    with pytest.raises(MachineError, match=r"s-1\.lock: is a directory"):
        claims.claim(paths, "s-1", "0123456789ab")
