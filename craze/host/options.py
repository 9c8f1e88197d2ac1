"""What a host process is told to serve: the flags of `craze serve`, settled."""

from typing import NamedTuple

from craze.machine.config import Config
from craze.machine.index import Load
from craze.machine.paths import Paths
from craze.machine.ready import ReadyPipe


class Options(NamedTuple):
    """Every form is checked already; texts that were not given are ""."""

    paths: Paths
    config: Config
    warnings: tuple[str, ...]
    workspace: str  # absolute
    workspace_given: bool
    provider: str  # "" for a load, whose row says
    model: str = ""
    effort: str = ""
    fast: bool | None = None
    agent_bin: str = ""
    force: bool = True  # the permission mode bypass
    mode: str = ""  # "", ask or plan
    newest: bool = False  # load the workspace's newest saved session
    load: Load | None = None
    title: str = ""
    unattended: bool = False
    log: str = ""
    host_id: str = ""
    host_status: bool = True
    request_id: str = ""
    request_hash: str = ""
    hub_pid: int | None = None
    ready: ReadyPipe | None = None
