"""The hub of a two-socket scenario: the real one, with the abilities that the scenario gives it.

`python -m tests.conformance.hub --socket PATH --host JSON` serves the hosts of its HOME at PATH,
says so in one line, and ends with its stdin. Of the host object it takes

    hubCreates      it creates sessions; each host it starts is `tests.conformance.created`
    createTitle     its create takes a title
    createOptions   what it answers sessions.createOptions with, as it stands

A scenario of what no recorded hub could do has `"hub":"craze"` beside the host object: it runs
with a `craze hub` instead, which can do everything.
"""

import argparse
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from gevent.socket import wait_read

from craze.clock import Clock
from craze.hub.admission import Admission
from craze.hub.bounds import Bounds
from craze.hub.create import Creates
from craze.hub.server import Hub
from craze.hub.spawn import Spawner
from craze.machine import ids, reexec, runtime, sockets
from craze.machine.paths import Paths
from craze.wire import json as wire

VERSION = "0.0.0-hub"
SLOW = Bounds(host=10.0, wait=10.0, fresh=60.0)  # no scenario passes or fails on a host's speed
SERVE = Path(__file__).with_name("created.py")


def report(where: str, failure: BaseException) -> None:
    """Say on stderr that the hub itself failed, and where: no scenario passes then."""
    print(f"{where}:", file=sys.stderr)
    traceback.print_exception(failure)


def quiet(line: str) -> None:
    """A hub's log; here nobody reads it."""


def serve_more(hub: Hub, paths: Paths, host: dict[str, Any], admission: Admission) -> None:
    """Have the hub serve what the scenario says, besides its own methods."""
    hub.titles = bool(host.get("createTitle"))
    if host.get("hubCreates"):
        reexec._prefix[:] = [sys.executable, str(SERVE)]  # in place of this program
        spawner = Spawner(paths, os.environ, pid=os.getpid(), say=quiet)
        sockets = runtime.socket_directory(paths)
        seen = hub.poll.seen
        creates = Creates(paths, os.environ, sockets, admission, spawner, Clock(), seen)
        hub.handlers["session.create"] = creates.create
    if "createOptions" in host:
        answer = wire.dumps(host["createOptions"])
        hub.handlers["sessions.createOptions"] = lambda args: answer


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("--socket", required=True)
    given.add_argument("--host", default={}, type=json.loads)
    options = given.parse_args()
    paths = Paths.of(os.environ)
    admission = Admission(report)
    hub = Hub(
        sockets.bind(options.socket),
        paths,
        hub_id=ids.host_id(),
        version=VERSION,
        pid=os.getpid(),
        report=report,
        say=quiet,
        failed=lambda: None,
        bounds=SLOW,
    )
    serve_more(hub, paths, options.host, admission)
    ready = {"socket": options.socket, "hubId": hub.id, "version": VERSION, "pid": os.getpid()}
    print(json.dumps(ready), flush=True)
    wait_read(0)
    hub.close(admission.wait)


if __name__ == "__main__":
    main()
