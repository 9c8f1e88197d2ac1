"""A machine with a real hub and real hosts, all in this process."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from gevent import socket

from craze import greenlets
from craze.clock import Clock
from craze.fakes.host import FakeHost, Options
from craze.machine import sockets
from craze.machine.paths import Paths
from craze.wire import json
from craze_shed.reach import ReachError, ScriptedReach
from craze_shed.reach.scripted import Peer
from tests.unit.hub.hosting import Served
from tests.unit.shed.craze.scripting import PATIENCE, until

CHUNK = 65536
HOST = {"stop": True, "presence": True, "rowFacts": True, "permissionMode": "prompt"}


class RealMachine(ScriptedReach):
    """A way to it: a bridge is a connection to the hub, and ends as a bridge does where there is
    none. Nothing starts a hub but `start`."""

    def __init__(self, root: Path, paths: Paths, home: str) -> None:
        super().__init__(self._bridge, label="real")
        self._root, self._paths, self._home = root, paths, home
        self.hub: Served | None = None
        self.hosts: list[FakeHost] = []
        self._links: set[Any] = set()
        self.start()

    def start(self) -> Served:
        """Have a hub run."""
        self.hub = Served(self._root, self._paths, Clock())
        return self.hub

    def stop(self) -> None:
        """End the hub."""
        hub, self.hub = self.hub, None
        if hub is not None:
            hub.close()

    def host(self, id: str = "0123456789ab", **host: Any) -> FakeHost:
        """List a host."""
        about = json.dumps({**HOST, **host}).decode()
        session = f"session-{id}"
        made = FakeHost(Options(registry=self._home, host_id=id, session_id=session, host=about))
        made.serve()
        self.hosts.append(made)
        return made

    def cut(self) -> None:
        """Lose every connection there is."""
        lost = set(self._links)
        for link in lost:
            link.shutdown(socket.SHUT_RDWR)
        until(lambda: not lost & self._links)

    def close(self) -> None:
        super().close()
        self.stop()
        for host in self.hosts:
            host.close()

    def _bridge(self, line: str, peer: Peer) -> int | None:
        if " providers --hub --json;" in line:
            if self.hub is None:
                peer.say(b"craze providers: no hub is running\n")
                return 1
            peer.sendall(b"{}\n")
            return 0
        if self.hub is None:
            peer.say(b"craze bridge: no hub is running\n")
            return 3
        link = sockets.dial(self.hub.path, PATIENCE)
        self._links.add(link)
        up = greenlets.spawn("bridge", self._up, peer, link)
        try:
            with suppress(OSError, ReachError):
                while data := link.recv(CHUNK):
                    peer.sendall(data)
        finally:
            up.kill()
            self._links.discard(link)
            link.close()
        return 0

    def _up(self, peer: Peer, link: Any) -> None:
        with suppress(OSError):
            while data := peer.recv(CHUNK):
                link.sendall(data)
            link.shutdown(socket.SHUT_WR)
