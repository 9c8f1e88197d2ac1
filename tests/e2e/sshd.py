"""A real OpenSSH server of the test's own: on a loopback port, as this user, with keys made for it.

`Sshd` is started and stopped by hand; `blackhole` is a link to it that can stop carrying bytes.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket as names
import subprocess
import time
from pathlib import Path

import gevent
import pytest
from gevent import socket

_ELSEWHERE = ":/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin"
_SEPARATED = Path("/run/sshd")  # where a server run by root locks itself up
PATIENCE = 30.0


def program(name: str, package: str) -> str:
    """The path of a program; skips the test without it."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + _ELSEWHERE)
    if path is None:
        pytest.skip(f"{name} is missing; the package {package} brings it")
    return path


def keygen(path: Path, *options: str, kind: str = "ed25519") -> str:
    """Make a key pair; its public half as `type base64`."""
    keygen = program("ssh-keygen", "openssh-client")
    subprocess.run(
        [keygen, "-q", "-t", kind, "-N", "", "-C", "test", "-f", str(path), *options],
        check=True, stdin=subprocess.DEVNULL, timeout=PATIENCE,
    )  # fmt: skip
    kind, body, *_ = path.with_name(path.name + ".pub").read_text().split()
    return f"{kind} {body}"


class Sshd:
    """A server in `folder`, with what a client needs to use it: `host`, `port`, `user`, the key
    `identity`, the host key `host_key`, and the configuration `config` in which it is called
    `box`."""

    def __init__(self, folder: Path, **options: str) -> None:
        self._sshd = program("sshd", "openssh-server")
        program("ssh", "openssh-client")
        if os.geteuid() == 0 and not _SEPARATED.is_dir():
            pytest.skip(f"{_SEPARATED} is missing; a boot with openssh-server makes it")
        self.folder = folder
        self.host = "127.0.0.1"
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        self.identity = folder / "identity"
        self.host_key = keygen(folder / "host_key")
        self.authorized = folder / "authorized"
        self.authorize(keygen(self.identity))
        self.known_hosts = folder / "known_hosts"
        self.config = folder / "config"
        self.log = folder / "log"
        with names.socket() as free:
            free.bind((self.host, 0))
            self.port = free.getsockname()[1]
        self.known_hosts.write_text(f"[{self.host}]:{self.port} {self.host_key}\n")
        self.configure()
        self._options = {
            "AuthorizedKeysFile": str(self.authorized),
            "HostKey": str(folder / "host_key"),
            "KbdInteractiveAuthentication": "no",
            "ListenAddress": self.host,
            "LogLevel": "VERBOSE",
            "PasswordAuthentication": "no",
            "PermitRootLogin": "yes",
            "PidFile": "none",
            "Port": str(self.port),
            "PrintMotd": "no",
            "SetEnv": "SHLVL=9",  # or bash takes the user's own .bashrc to be wanted
            "StrictModes": "no",
            "UsePAM": "no",
        } | options
        self._mark = f"CRAZE_TEST_SSHD={os.urandom(8).hex()}"
        self._options["SetEnv"] += f" {self._mark}"
        self._process: subprocess.Popen[bytes] | None = None

    def authorize(self, key: str) -> None:
        """Let `key` in, and no other."""
        self.authorized.write_text(f"{key}\n")

    def configure(self, more: str = "", *, host: str = "", port: int = 0) -> None:
        """Write the client's configuration, with `more` lines of it first."""
        lines = f"""
            Host box
            HostName {host or self.host}
            Port {port or self.port}
            User {self.user}
            Host *
            IdentityFile {self.identity}
            IdentitiesOnly yes
            IdentityAgent none
            UserKnownHostsFile {self.known_hosts}
            GlobalKnownHostsFile /dev/null
            """
        self.config.write_text(more + lines)

    def start(self) -> "Sshd":
        config = self.folder / "sshd_config"
        config.write_text("".join(f"{name} {value}\n" for name, value in self._options.items()))
        self._process = subprocess.Popen(
            [self._sshd, "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log.open("wb"),
        )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
            with names.socket() as sock:
                if sock.connect_ex((self.host, self.port)) == 0:
                    return self
            time.sleep(0.02)
        raise AssertionError(f"sshd did not start: {self.log.read_text()}")

    def stop(self) -> None:
        if self._process is not None:
            self.drop()
            self._process.terminate()
            self._process.wait(PATIENCE)

    def sweep(self) -> None:
        """Kill what was run here and goes on: a server leaves that alone."""
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # it has just gone, or is somebody else's
                if self._mark.encode() in path.read_bytes().split(b"\0"):
                    os.kill(int(path.parent.name), signal.SIGKILL)

    def sessions(self) -> list[int]:
        """The processes that serve a connection each."""
        assert self._process is not None
        path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def drop(self) -> None:
        """Lose every connection."""
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def until(self, sessions: int) -> None:
        """Wait until it serves so many connections."""
        with gevent.Timeout(PATIENCE):
            while len(self.sessions()) != sessions:
                gevent.sleep(0.02)


class Blackhole:
    """A TCP proxy to a port on the loopback. After `swallow` what is connected then is taken from,
    both ways, and passed on nowhere; nothing is closed."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._swallowed: set[socket.socket] = set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(16)
        self.port: int = self._listener.getsockname()[1]
        self._work = [gevent.spawn(self._accept)]

    def swallow(self) -> None:
        self._swallowed.update(self._sockets)

    def close(self) -> None:
        gevent.killall(self._work)
        for sock in (self._listener, *self._sockets):
            sock.close()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = socket.create_connection(("127.0.0.1", self._to))
            self._sockets += (near, far)
            self._work += (gevent.spawn(self._copy, near, far), gevent.spawn(self._copy, far, near))

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if source not in self._swallowed:
                    sink.sendall(data)
            if source not in self._swallowed:
                sink.shutdown(names.SHUT_WR)
        except OSError:
            return


class Agent:
    """An ssh-agent of the test's own, at the socket `path`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "agent"
        self._process = subprocess.Popen(
            [program("ssh-agent", "openssh-client"), "-D", "-a", str(self.path)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while not self.path.exists() and time.monotonic() < deadline:
            time.sleep(0.02)

    def add(self, key: Path) -> None:
        subprocess.run(
            [program("ssh-add", "openssh-client"), "-q", str(key)],
            env={**os.environ, "SSH_AUTH_SOCK": str(self.path)}, check=True,
            stdin=subprocess.DEVNULL, timeout=PATIENCE,
        )  # fmt: skip

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
