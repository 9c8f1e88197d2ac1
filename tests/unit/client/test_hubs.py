"""Which hub is found, when one is started or ended, and what is said when there is none."""

import json
import os
import re
import shutil
import signal
import socket as names
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from craze import greenlets
from craze.client import hubs
from craze.machine import files, peer, processes, reexec, sockets, trees
from craze.machine import hubs as places
from craze.machine.errors import MachineError
from craze.machine.paths import Paths
from tests.unit.client import fake_hub

HUB, OTHER = "0123456789ab", "ffffffffffff"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="as Linux tells processor time")


@pytest.fixture
def root() -> Iterator[Path]:
    path = tempfile.mkdtemp(prefix="craze-", dir="/tmp")
    os.mkdir(f"{path}/home", 0o700)
    yield Path(path)
    shutil.rmtree(path)


@pytest.fixture
def environ(root: Path) -> dict[str, str]:
    return {
        "HOME": f"{root}/home",
        "CRAZE_RUNTIME_DIR": f"{root}/run",
        "PATH": os.environ["PATH"],
        "FAKE_HUB_BIRTHS": f"{root}/births",
    }


@pytest.fixture
def paths(environ: dict[str, str]) -> Paths:
    return Paths.of(environ)


def settled(holds: Callable[[], object]) -> bool:
    """Whether it comes to hold, the loop running meanwhile."""
    end = time.monotonic() + 10
    while not holds():
        if time.monotonic() > end:
            return False
        gevent.sleep(0.01)
    return True


# ---- a hub that has a record ----


class Listed:
    """A record of ours, and what listens at its socket: connections are the test's to answer."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.record = places.Record(
            protocol=1,
            hubId=HUB,
            ns=paths.namespace,
            pid=os.getpid(),
            startToken=processes.start_token(os.getpid()),
            socket=f"{os.path.dirname(paths.home)}/s",
            crazeVersion="9.9",
            startedAt="t",
        )
        self.listener = sockets.bind(self.record.socket)
        self.asked: list[dict[str, Any]] = []
        self.reads = True
        self.write()
        self._serving = greenlets.spawn("stub hub", self._serve)
        self.answer: Callable[[Any], None] = self.result

    def write(self, **members: Any) -> None:
        self.record = self.record._replace(**members)
        trees.cache(self.paths, self.paths.hubs)
        files.put(self.paths.hub_record, places.encode(self.record)).close()

    def result(self, sock: Any, **changes: Any) -> None:
        self.say(
            sock, {"jsonrpc": "2.0", "id": 1, "result": fake_hub.answer(self.record) | changes}
        )

    def say(self, sock: Any, message: Any) -> None:
        sock.sendall(json.dumps(message).encode() + b"\n")

    def stop(self) -> None:
        self.listener.close()
        self._serving.kill()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with sock:
                if self.reads:
                    self.asked.append(json.loads(sock.recv(65536)))
                    self.answer(sock)


@pytest.fixture
def listed(paths: Paths) -> Iterator[Listed]:
    listed = Listed(paths)
    yield listed
    listed.stop()


def endpoint(**changes: Any) -> dict[str, Any]:
    return {"kind": "hub", "hostId": HUB, "crazeVersion": "9.9", "pid": 1} | changes


def test_a_hub_that_answers_is_found(listed: Listed, environ: dict[str, str]) -> None:
    found = hubs.find(listed.paths)
    assert found == (listed.record.socket, listed.record, fake_hub.answer(listed.record))
    assert hubs.find_or_start(listed.paths, environ, needs=["reopen"]) == found
    assert listed.asked == 2 * [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "hello",
            "params": {"protocols": [1], "client": {"kind": "cli", "name": "craze hub ensure"}},
        }
    ]


def test_none_runs_where_none_ever_did(paths: Paths) -> None:
    with pytest.raises(hubs.NoHub, match=r"^no hub is running$"):
        hubs.find(paths)
    assert os.listdir(paths.home) == []


def closing(code: str = "unavailable", reason: str = "closing") -> dict[str, Any]:
    return {"code": -32000, "message": "no\nmore", "data": {"code": code, "reason": reason}}


@pytest.mark.parametrize(
    "answer",
    [
        lambda hub, sock: hub.result(sock, endpoint=endpoint(hostId=OTHER)),
        lambda hub, sock: hub.say(sock, {"id": 1, "error": closing()}),
        lambda hub, sock: None,
        lambda hub, sock: sock.sendall(b'{"id":1,'),
    ],
    ids=["another", "closing", "end", "cut"],
)
def test_what_answers_so_is_no_hub(listed: Listed, answer: Callable[..., None]) -> None:
    listed.answer = lambda sock: answer(listed, sock)
    with pytest.raises(hubs.NoHub):
        hubs.find(listed.paths)
    assert len(listed.asked) == 1


def test_a_connection_that_is_reset_is_no_hub(listed: Listed) -> None:
    listed.reads = False  # to close a socket with something unread resets its connection
    with pytest.raises(hubs.NoHub):
        hubs.find(listed.paths)


ENDPOINT = "an endpoint of kind {kind} answers at the hub's socket {at}"
UNKNOWN = "the hub (craze {version}) chose protocol 2, which this craze does not speak"
ANSWER = "the hub's hello answer: it names no {what}"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"endpoint": endpoint(kind="host")}, ENDPOINT.replace("{kind}", '"host"')),
        ({"endpoint": endpoint(kind='\x1b"')}, ENDPOINT.replace("{kind}", '"\\x1b\\""')),
        ({"endpoint": None}, ANSWER.format(what="endpoint")),
        ({"endpoint": endpoint(kind=["hub"])}, ANSWER.format(what="endpoint")),
        ({"protocol": 2}, UNKNOWN.format(version="9.9")),
        ({"protocol": 2, "endpoint": endpoint(crazeVersion=9)}, UNKNOWN.format(version="?")),
        ({"protocol": 1.0}, ANSWER.format(what="protocol")),
        ({"protocol": True}, ANSWER.format(what="protocol")),
    ],
)
def test_b80_a_result_that_is_no_hubs_of_ours(
    listed: Listed, result: dict[str, Any], text: str
) -> None:
    listed.answer = lambda sock: listed.result(sock, **result)
    with pytest.raises(hubs.HubError) as failure:
        hubs.find(listed.paths)
    assert str(failure.value) == text.replace("{at}", listed.record.socket)
    assert not isinstance(failure.value, hubs.NoHub)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"hello\n", "the hub's hello answer: expecting value: line 1 column 1 (char 0)"),
        (b"[" * 60_000 + b"\n", "the hub's hello answer: maximum recursion depth exceeded"),
        (b"x" * 70_000, "the hub's hello answer: longer than 65536 bytes"),
        (b"[]\n", "the hub's hello answer: it answers another question"),
        (b'{"id":2,"result":{}}\n', "the hub's hello answer: it answers another question"),
        (b'{"id":1}\n', "the hub's hello answer: it names no endpoint"),
        (b'{"id":1,"error":{"message":"no\\nthanks"}}\n', "the hub refused hello: no thanks"),
        (b'{"id":1,"error":7}\n', "the hub refused hello: it does not say why"),
    ],
)
def test_an_answer_that_is_none(listed: Listed, said: bytes, text: str) -> None:
    listed.answer = lambda sock: sock.sendall(said)
    with pytest.raises(hubs.HubError) as failure:
        hubs.find(listed.paths)
    assert str(failure.value).startswith(text)


def test_b80_what_a_hub_lacks_is_named_and_not_asked_twice(
    listed: Listed, environ: dict[str, str]
) -> None:
    listed.answer = lambda sock: listed.result(sock, capabilities={"reopen": 1, "connect": True})
    for needs, words in (
        (("sessionCreate",), "create sessions"),
        (("reopen", "connect", "createTitle"), "reopen a saved session or set a title at create"),
    ):
        text = f"this hub (craze 9.9) cannot {words}; it exits when idle"
        for find in (hubs.find, lambda p, **n: hubs.find_or_start(p, environ, **n)):
            with pytest.raises(hubs.Lacks) as failure:
                find(listed.paths, needs=needs)
            assert str(failure.value) == text
    assert len(listed.asked) == 4
    assert hubs.find(listed.paths, needs=["connect"]).hello["protocol"] == 1


def test_every_ability_has_its_words() -> None:
    assert list(hubs.ABILITIES.values()) == [
        *("create sessions", "subscribe to the session roster", "connect to a session"),
        *("multiplex sessions", "take a snapshot", "attach with when now"),
        *("list what it can create", "set a title at create", "reopen a saved session"),
    ]
    record = places.Record(1, HUB, "", 1, "", "", "", "")
    assert fake_hub.answer(record)["capabilities"].keys() == hubs.ABILITIES.keys()


def test_b33_a_strangers_socket_is_not_spoken_to(
    listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "uid", lambda _: 7)
    listed.answer = lambda sock: None
    with pytest.raises(hubs.HubError) as failure:
        hubs.find(listed.paths)
    at = f"the hub's socket {listed.record.socket}: "
    assert str(failure.value) == f"{at}its peer runs as uid 7, not as uid {os.geteuid()}"


def test_b26_a_socket_whose_path_is_too_long(listed: Listed) -> None:
    long = "/" + "é" * 60
    listed.write(socket=long)
    with pytest.raises(hubs.HubError) as failure:
        hubs.find(listed.paths)
    assert str(failure.value) == f"the hub's socket {long}: AF_UNIX path too long"


def test_a_socket_that_refuses_or_is_missing_is_no_hub(listed: Listed) -> None:
    listed.stop()
    for _ in range(2):
        with pytest.raises(hubs.NoHub):
            hubs.find(listed.paths)
        Path(listed.record.socket).unlink(missing_ok=True)


def test_b33_a_record_that_others_can_write_is_not_read(listed: Listed) -> None:
    for path, mode in ((listed.paths.hubs, 0o777), (listed.paths.cache, 0o750)):
        os.chmod(path, mode)
        with pytest.raises(MachineError, match=f"{path} has mode 0{mode:o}, and 0700 is required"):
            hubs.find(listed.paths)
        os.chmod(path, 0o700)
    assert listed.asked == []
    assert hubs.find(listed.paths).record == listed.record


# ---- whose process a record names ----


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def test_b27_a_record_whose_process_is_another_is_not_dialled(
    listed: Listed, sleeper: subprocess.Popen[bytes]
) -> None:
    for pid in (1, os.getppid(), sleeper.pid):
        listed.write(pid=pid, startToken=processes.start_token(pid) + "0")
        with pytest.raises(hubs.NoHub):
            hubs.find(listed.paths)
    listed.write(startToken=processes.start_token(sleeper.pid))
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    for pid in (sleeper.pid, 2**31 + 5):  # a zombie; no pid at all
        listed.write(pid=pid)
        with pytest.raises(hubs.NoHub):
            hubs.find(listed.paths)
    sleeper.wait()
    with pytest.raises(hubs.NoHub):
        hubs.find(listed.paths)
    assert listed.asked == []


def test_a_record_that_cannot_be_checked_is_dialled(
    listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed.write(pid=1, startToken="")
    assert hubs.find(listed.paths).record.pid == 1
    listed.write(startToken="st1/x")
    monkeypatch.setattr(processes, "start_token", lambda _: "")
    assert hubs.find(listed.paths).record.startToken == "st1/x"


@AS_ROOT
def test_b27_another_users_process_is_not_signalled(
    listed: Listed, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "HUB_ASK", 0.1)
    child = subprocess.Popen(["sleep", "60"], user=65534)
    listed.write(pid=child.pid)
    with pytest.raises(hubs.NoHub):
        hubs.find(listed.paths)
    listed.write(startToken="")
    listed.answer = lambda sock: gevent.sleep(5)
    text = f"the hub (pid {child.pid}) does not answer, and its record carries no start token"
    with pytest.raises(hubs.HubError, match=re.escape(text)):
        hubs.find_or_start(listed.paths, environ, budget=0.5)
    assert child.poll() is None
    child.kill()
    child.wait()


# ---- a hub that answers late, or not at all ----


def test_the_second_hello_may_be_the_one_that_is_answered(
    listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "HUB_ASK", 0.1)
    answers = [lambda sock: gevent.sleep(0.12), listed.result]
    listed.answer = lambda sock: answers.pop(0)(sock)
    assert hubs.find(listed.paths).record == listed.record
    assert len(listed.asked) == 2 and not answers


def test_b28_a_full_backlog_is_a_hub_all_the_same(listed: Listed) -> None:
    listed.stop()
    os.unlink(listed.record.socket)
    with names.socket(names.AF_UNIX) as listener:
        listener.bind(listed.record.socket)
        listener.listen(0)
        queued = sockets.dial(listed.record.socket, 1)
        found: list[hubs.Hub] = []
        finding = greenlets.spawn("find", lambda: found.append(hubs.find(listed.paths)))
        gevent.sleep(0.05)
        listener.accept()[0].close()
        gevent.sleep(0.05)
        accepted, _ = listener.accept()
        with accepted, queued:
            accepted.recv(65536)
            listed.result(accepted)
            finding.join()
    assert [hub.record for hub in found] == [listed.record]


def test_who_only_looks_waits_for_a_silent_hub_and_leaves_it_alone(
    standing: Callable[..., Any], paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "HUB_ASK", 0.1)
    hub = standing(hello="silent")
    begun = time.monotonic()
    with pytest.raises(hubs.HubError) as failure:
        hubs.find(paths, budget=0.5)
    assert time.monotonic() - begun >= 0.5
    assert str(failure.value) == f"the hub (pid {hub.pid}) does not answer"
    assert not isinstance(failure.value, hubs.NoHub)
    assert hub.poll() is None and len(births(paths)) == 1


# ---- hubs in processes of their own ----


def births(paths: Paths) -> list[int]:
    """The stand-ins started so far."""
    try:
        text = Path(os.path.dirname(paths.home), "births").read_text()
    except FileNotFoundError:
        return []
    return [int(line.split()[0]) for line in text.splitlines()]


@pytest.fixture(autouse=True)
def program(
    paths: Paths, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """This program is the stand-in; whichever is left at the end is ended."""
    monkeypatch.setattr(reexec, "_prefix", [sys.executable, fake_hub.__file__])
    yield
    for pid in births(paths):
        try:
            mine = environ["FAKE_HUB_BIRTHS"].encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if mine:
            os.kill(pid, signal.SIGKILL)
    assert settled(lambda: not alive(paths))


def alive(paths: Paths) -> list[int]:
    """The stand-ins that run, and what is left of them until somebody reaps it."""
    return [pid for pid in births(paths) if os.path.exists(f"/proc/{pid}")]


@pytest.fixture
def plan(environ: dict[str, str]) -> Callable[..., None]:
    """Says how the stand-ins behave, one after the other."""

    def say(*plans: dict[str, Any]) -> None:
        environ["FAKE_HUB"] = json.dumps(plans)

    return say


@pytest.fixture
def standing(
    environ: dict[str, str], paths: Paths
) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a stand-in that is the hub already."""
    started = []

    def start(**plan: Any) -> subprocess.Popen[bytes]:
        reading, writing = os.pipe()
        env = environ | {"CRAZE_READY_FD": str(writing), "FAKE_HUB": json.dumps([plan])}
        command = [sys.executable, fake_hub.__file__, "hub"]
        started.append(subprocess.Popen(command, env=env, pass_fds=[writing]))
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert json.loads(pipe.readline())["ok"]
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_one_is_started_where_none_answers(
    paths: Paths, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/usr")
    environ |= {"CRAZE_PROVIDER": "x", "TMUX": "y", "KEPT": "z", "CRAZE_READY_FD": "0"}
    hub = hubs.find_or_start(paths, environ, needs=["reopen"])
    assert hub == hubs.find(paths) == hubs.find_or_start(paths, environ)
    assert births(paths) == [hub.record.pid]
    born = Path(environ["FAKE_HUB_BIRTHS"]).read_text()
    assert born == f"{hub.record.pid} {paths.home} {hub.record.pid}\n"
    given = Path(f"/proc/{hub.record.pid}/environ").read_bytes().decode().split("\0")
    inherited = dict(line.split("=", 1) for line in given if line)
    assert inherited.pop("CRAZE_HUB_CHILD") == "1" and inherited.pop("CRAZE_READY_FD").isdigit()
    assert inherited.keys() == environ.keys() - {"CRAZE_PROVIDER", "TMUX", "CRAZE_READY_FD"}


def test_a_hub_starts_at_the_root_where_home_is_none(
    paths: Paths, environ: dict[str, str], mocker: Any
) -> None:
    from craze.machine import background

    start = mocker.patch.object(background, "start", side_effect=OSError(13, "Permission denied"))
    os.rmdir(paths.home)
    with pytest.raises(hubs.HubError, match=r"^start craze hub: permission denied$"):
        hubs.find_or_start(paths, environ)
    assert [call.kwargs["cwd"] for call in start.call_args_list] == ["/", "/"]
    os.mkdir(paths.home, 0o700)


@pytest.mark.parametrize("prefix", [["/nowhere/craze"], [sys.executable, "/nowhere/craze"]])
def test_b79_a_program_that_was_removed(
    paths: Paths, environ: dict[str, str], prefix: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reexec, "_prefix", prefix)
    text = r"^start craze hub: /nowhere/craze is not there any more$"
    with pytest.raises(hubs.HubError, match=text):
        hubs.find_or_start(paths, environ)


READY = {"ok": True, "hubId": HUB, "ns": "00000000", "socket": "/s"}


EXITED = "the hub it started (pid {pid}) exited before it answered"
MALFORMED = "the hub it started (pid {pid}) answered no ready line (WHY), and was ended"
REFUSED = '{"ok":false,"error":"no\\nsuch thing"}'
FAILED = "craze hub could not start: no such thing"


def malformed(why: str) -> str:
    return MALFORMED.replace("WHY", why)


@pytest.mark.parametrize(
    ("says", "more", "text"),
    [
        ("", {"exits": 1}, EXITED),
        ('{"ok":true', {"exits": 0}, EXITED),
        ("", {}, malformed("its pipe ended without one")),
        ("hello\n", {}, malformed("expecting value: line 1 column 1 (char 0)")),
        ("7\n", {"exits": 0}, malformed("it does not say whether it is ready")),
        ('{"ok":1}\n', {}, malformed("it does not say whether it is ready")),
        ('{"ok":true}\n', {}, malformed("it does not say which hub is where")),
        ('{"ok":false,"held":7}\n', {}, malformed("it does not say who holds the lock")),
        ('{"ok":false,"held":{"pid":-1}}\n', {}, malformed("it does not say who holds the lock")),
        ('{"ok":false}\n', {}, malformed("a failure without its error")),
        ("[" * 60_000 + "\n", {}, malformed("nested too deeply")),
        ("x" * 66_000, {}, malformed("longer than 65536 bytes")),
        (REFUSED + "\n", {"exits": 1}, FAILED),
        (REFUSED + "\n", {"stubborn": True}, FAILED),
    ],
)
def test_a_start_that_fails_is_tried_once_more(
    paths: Paths,
    environ: dict[str, str],
    plan: Callable[..., None],
    says: str,
    more: dict[str, Any],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hubs, "HUB_GRACE", 0.3)
    plan({"place": False, "says": says} | more)
    with pytest.raises(hubs.HubError) as failure:
        hubs.find_or_start(paths, environ)
    _, last = births(paths)
    assert str(failure.value) == text.replace("{pid}", str(last))
    assert settled(lambda: not alive(paths))


def test_a_hub_of_another_namespace_is_not_started_twice(
    paths: Paths, environ: dict[str, str], plan: Callable[..., None]
) -> None:
    plan({"place": False, "says": json.dumps(READY) + "\n"})
    with pytest.raises(hubs.HubError) as failure:
        hubs.find_or_start(paths, environ)
    assert str(failure.value) == (
        f"the hub it started serves namespace 00000000, not this craze's {paths.namespace}"
    )
    assert len(births(paths)) == 1


def test_a_start_that_fails_once_is_no_failure(
    paths: Paths, environ: dict[str, str], plan: Callable[..., None]
) -> None:
    plan({"says": '{"ok":false,"error":"x"}\n', "exits": 1}, {})
    hub = hubs.find_or_start(paths, environ)
    assert births(paths)[1:] == [hub.record.pid]


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_hub_that_says_nothing_is_ended(
    paths: Paths,
    environ: dict[str, str],
    plan: Callable[..., None],
    stubborn: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hubs, "HUB_READY", 0.5)
    monkeypatch.setattr(hubs, "HUB_GRACE", 0.3)
    plan({"says": None, "stubborn": stubborn}, {})
    hub = hubs.find_or_start(paths, environ)  # the first one's place has been cleared
    assert settled(lambda: alive(paths) == [hub.record.pid])
    assert births(paths)[1:] == [hub.record.pid]


def test_the_text_of_a_hub_that_says_nothing(
    paths: Paths,
    environ: dict[str, str],
    plan: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hubs, "HUB_READY", 0.3)
    plan({"says": None})
    with pytest.raises(hubs.HubError) as failure:
        hubs.find_or_start(paths, environ)
    _, last = births(paths)
    assert str(failure.value) == (
        f"the hub it started (pid {last}) did not answer within 0.3s, and was ended"
    )
    assert settled(lambda: not alive(paths))


@pytest.mark.parametrize("stubborn", [False, True])
def test_one_whose_starter_runs_out_of_time_is_ended_too(
    paths: Paths,
    environ: dict[str, str],
    plan: Callable[..., None],
    stubborn: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hubs, "HUB_GRACE", 0.5)
    plan({"says": None, "place": False, "stubborn": stubborn})
    with pytest.raises(hubs.HubError) as failure:
        hubs.find_or_start(paths, environ, budget=1)
    (pid,) = births(paths)
    assert str(failure.value) == (
        f"the hub it started (pid {pid}) did not answer within 5s, and is being ended"
    )
    assert settled(lambda: not alive(paths))


def test_one_whose_starter_is_killed_is_ended_too(
    paths: Paths, environ: dict[str, str], plan: Callable[..., None]
) -> None:
    plan({"says": None, "place": False})
    starting = greenlets.spawn("find", hubs.find_or_start, paths, environ)
    assert settled(lambda: births(paths))
    starting.kill()
    assert settled(lambda: not alive(paths))
    with pytest.raises(gevent.Timeout), gevent.Timeout(1):
        hubs.find_or_start(paths, environ)
    assert len(births(paths)) == 2
    assert settled(lambda: not alive(paths))


def test_one_that_is_ready_and_does_not_answer(
    paths: Paths, environ: dict[str, str], plan: Callable[..., None]
) -> None:
    said = READY | {"ns": paths.namespace, "socket": "/nowhere/s"}
    plan({"says": json.dumps(said) + "\n", "place": False})
    with pytest.raises(hubs.HubError) as failure:
        hubs.find_or_start(paths, environ)
    pid = births(paths)[-1]
    assert str(failure.value) == f"the hub it started (pid {pid}) does not answer at /nowhere/s"
    assert len(births(paths)) == 2


def test_one_that_is_ready_where_another_answers(
    listed: Listed, environ: dict[str, str], plan: Callable[..., None]
) -> None:
    paths, path = listed.paths, listed.record.socket
    os.unlink(paths.hub_record)
    said = READY | {"ns": paths.namespace, "hubId": OTHER, "socket": path}
    plan({"says": json.dumps(said) + "\n", "place": False})
    with pytest.raises(hubs.HubError) as failure:
        hubs.find_or_start(paths, environ)
    assert str(failure.value) == f"another hub than the one it started ({OTHER}) answers at {path}"


# ---- who was quicker ----


def test_b29_many_start_one_hub_over_what_a_killed_one_left(
    paths: Paths, environ: dict[str, str], standing: Callable[..., subprocess.Popen[bytes]]
) -> None:
    killed = standing()
    killed.kill()
    killed.wait()
    assert os.path.exists(paths.hub_record)
    found: list[hubs.Hub] = []
    starting = [
        greenlets.spawn(f"find {n}", lambda: found.append(hubs.find_or_start(paths, environ)))
        for n in range(8)
    ]
    gevent.joinall(starting)
    assert len(found) == 8 and len({hub.record for hub in found}) == 1
    assert settled(lambda: alive(paths) == [found[0].record.pid])  # the losers are reaped
    assert hubs.find(paths).record == found[0].record


class Holder:
    """Holds the hub's lock in a process of its own, without a record."""

    CODE = """
import sys
from craze.machine import locks
lock = locks.take(sys.argv[1])
if sys.argv[2]:
    lock.write(f"{__import__('os').getpid()} {sys.argv[2]}")
print("held", flush=True)
sys.stdin.read()
"""

    def __init__(self, paths: Paths, line: str = HUB) -> None:
        trees.cache(paths, paths.hubs)
        command = [sys.executable, "-c", self.CODE, paths.hub_lock, line]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"held\n"

    def go(self) -> None:
        self.process.communicate()


@pytest.mark.parametrize(
    ("line", "who"),
    [(HUB, "pid {pid}, hub " + HUB), ("", "a hub that has not written its line yet")],
)
def test_a_holder_that_does_not_answer(
    paths: Paths, environ: dict[str, str], line: str, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "HUB_MEET", 0.3)
    holder = Holder(paths, line)
    with pytest.raises(hubs.HubError) as failure:
        hubs.find_or_start(paths, environ)
    assert str(failure.value) == (
        f"the hub holding the namespace's lock ({who.format(pid=holder.process.pid)})"
        f" did not answer within 0.3s"
    )
    assert len(births(paths)) == 2
    assert settled(lambda: not alive(paths))
    holder.go()


def test_a_holder_that_exits_makes_room(
    paths: Paths, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = Holder(paths)
    found: list[hubs.Hub] = []
    starting = greenlets.spawn("find", lambda: found.append(hubs.find_or_start(paths, environ)))
    assert settled(lambda: births(paths) and not alive(paths))
    assert not found
    holder.go()
    starting.join()
    assert births(paths)[1:] == [found[0].record.pid]


def test_a_holder_that_answers_in_time_is_met(
    paths: Paths, environ: dict[str, str], listed: Listed
) -> None:
    holder = Holder(paths)
    data = Path(paths.hub_record).read_bytes()
    os.unlink(paths.hub_record)
    found: list[hubs.Hub] = []
    starting = greenlets.spawn("find", lambda: found.append(hubs.find_or_start(paths, environ)))
    assert settled(lambda: births(paths) and not alive(paths))
    files.put(paths.hub_record, data).close()
    starting.join()
    assert found[0].record == listed.record and len(births(paths)) == 1
    holder.go()


def test_a_hub_that_is_closing_is_waited_for(
    paths: Paths, environ: dict[str, str], standing: Callable[..., subprocess.Popen[bytes]]
) -> None:
    leaving = standing(hello="closing", **{"for": 0})
    hub = hubs.find_or_start(paths, environ)
    assert leaving.wait() == 0
    assert births(paths)[0] == leaving.pid and births(paths)[-1] == hub.record.pid


def test_a_hub_that_is_closing_and_stays(
    paths: Paths,
    environ: dict[str, str],
    standing: Callable[..., subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hubs, "HUB_MEET", 0.3)
    standing(hello="closing")
    found = places.read(paths)
    assert found is not None
    with monkeypatch.context() as patch:
        patch.setattr(hubs, "HUB_PAUSE", 60)  # longer than there is time: one round
        with pytest.raises(hubs.HubError) as failure:
            hubs.find_or_start(paths, environ)
    assert str(failure.value) == (
        f"the hub holding the namespace's lock neither answered nor let it go"
        f" (pid {found.record.pid}, hub {found.record.hubId}) within 0.3s"
    )
    assert len(births(paths)) == 2
    starting = greenlets.spawn("find", hubs.find_or_start, paths, environ)
    assert settled(lambda: len(births(paths)) == 5)  # it is tried while there is time
    starting.kill()
    assert settled(lambda: len(alive(paths)) == 1)


# ---- a hub that has stopped working ----


@LINUX
def test_b28_a_stopped_hub_is_replaced(
    paths: Paths,
    environ: dict[str, str],
    standing: Callable[..., subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hubs, "HUB_GRACE", 0.5)
    old = standing()
    old.send_signal(signal.SIGSTOP)
    hub = hubs.find_or_start(paths, environ)
    assert old.wait() == -signal.SIGKILL  # a stopped process does not hear SIGTERM
    assert births(paths) == [old.pid, hub.record.pid]


@LINUX
def test_a_hub_that_sleeps_for_ever_is_asked_to_end_first(
    paths: Paths, environ: dict[str, str], standing: Callable[..., subprocess.Popen[bytes]]
) -> None:
    old = standing(hello="silent")
    hub = hubs.find_or_start(paths, environ)
    assert old.wait() == -signal.SIGTERM
    assert births(paths) == [old.pid, hub.record.pid]


@LINUX
def test_b28_a_busy_hub_is_waited_for_and_left_alone(
    paths: Paths, environ: dict[str, str], standing: Callable[..., subprocess.Popen[bytes]]
) -> None:
    busy = standing(hello="spin")
    found = places.read(paths)
    assert found is not None
    there = files.named(found.record.socket)
    with pytest.raises(hubs.HubError) as failure:
        hubs.find_or_start(paths, environ, budget=4)
    assert str(failure.value) == (
        f"the hub (pid {busy.pid}) does not answer, and it may be busy, so it is not replaced"
    )
    assert busy.poll() is None and births(paths) == [busy.pid]
    assert files.named(found.record.socket) == there and places.read(paths) == found


@pytest.mark.parametrize(
    ("blind", "unknown", "why"),
    [
        ("", "", "its record carries no start token to tell it from another process by"),
        ("start_token", "", "its identity cannot be verified"),
        ("cpu_time", None, "its identity cannot be verified"),
    ],
)
def test_b28_a_hub_that_cannot_be_verified_is_left_alone(
    paths: Paths,
    environ: dict[str, str],
    standing: Callable[..., subprocess.Popen[bytes]],
    blind: str,
    unknown: str | None,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hubs, "HUB_ASK", 0.1)
    hub = standing(hello="silent")
    found = places.read(paths)
    assert found is not None
    if blind:
        monkeypatch.setattr(processes, blind, lambda _: unknown)
    else:
        record = found.record._replace(startToken="")
        files.put(paths.hub_record, places.encode(record)).close()
    with pytest.raises(hubs.HubError) as failure:
        hubs.find_or_start(paths, environ, budget=0.6)
    assert str(failure.value) == (
        f"the hub (pid {hub.pid}) does not answer, and {why}, so it is not replaced"
    )
    assert hub.poll() is None and births(paths) == [hub.pid]


@LINUX
def test_a_hub_that_cannot_be_killed(
    paths: Paths,
    environ: dict[str, str],
    standing: Callable[..., subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hubs, "HUB_ASK", 0.1)
    monkeypatch.setattr(hubs, "HUB_GRACE", 0.2)
    hub = standing(hello="silent")
    sent: list[tuple[int, int]] = []
    kill = os.kill

    def unheard(pid: int, number: int) -> None:
        if number:
            sent.append((pid, number))
        else:
            kill(pid, 0)

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", unheard)
        with pytest.raises(hubs.HubError) as failure:
            hubs.find_or_start(paths, environ)
    assert str(failure.value) == (
        f"the hub (pid {hub.pid}) does not answer, and it is still running 0.2s after SIGKILL,"
        f" so it is not replaced"
    )
    assert sent == 2 * [(hub.pid, signal.SIGTERM), (hub.pid, signal.SIGKILL)]


@LINUX
def test_b27_a_process_that_took_the_number_meanwhile_is_not_killed(
    paths: Paths, standing: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "HUB_GRACE", 0.2)
    standing(hello="silent")
    found = places.read(paths)
    assert found is not None
    sent: list[int] = []
    token, kill = processes.start_token, os.kill

    def replaced(pid: int, number: int) -> None:
        if number:
            sent.append(number)
            monkeypatch.setattr(processes, "start_token", lambda pid: token(pid) + "1")
        else:
            kill(pid, 0)

    monkeypatch.setattr(os, "kill", replaced)
    hubs._end(found.record, time.monotonic() + 5)
    hubs._end(found.record, time.monotonic() + 5)
    assert sent == [signal.SIGTERM]
    monkeypatch.undo()


@LINUX
def test_less_than_a_whole_wait_condemns_nobody(
    paths: Paths, environ: dict[str, str], standing: Callable[..., subprocess.Popen[bytes]]
) -> None:
    hub = standing(hello="silent")
    with pytest.raises(hubs.HubError, match="does not answer"):
        hubs.find_or_start(paths, environ, budget=1.5)
    assert hub.poll() is None and births(paths) == [hub.pid]


# ---- what it costs ----


def test_looking_loads_nothing_heavy(paths: Paths, environ: dict[str, str]) -> None:
    heavy = ["subprocess", "ujson", "ssl", "hashlib", "tempfile", "uuid", "secrets", "inspect",
             "craze.client.client", "craze.wire.schema", "jsonschema", "tenacity"]  # fmt: skip
    program = (
        "import os, sys\n"
        "from craze.client import hubs\n"
        "from craze.machine.paths import Paths\n"
        "try:\n"
        "    hubs.find(Paths.of(os.environ))\n"
        "except hubs.NoHub:\n"
        f"    print([name for name in {heavy} if name in sys.modules])\n"
    )
    shown = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True)
    assert shown.stdout == b"[]\n", shown.stderr
