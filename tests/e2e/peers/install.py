"""Fetches the real agents that the end-to-end tests drive, from npm, into `.peers/` here.

    python tests/e2e/peers/install.py [NAME...]

They are hundreds of megabytes and none of the project's own dependencies, so they have a folder of
their own, and `make test` without them skips what needs them. Install scripts are off: each program
is used by the path where its package ships it.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PEERS = ROOT / ".peers"
MODULES = PEERS / "node_modules"
NPM_TIMEOUT_S = 600


def platform_suffix() -> str:
    """This machine as npm package names spell it, such as `linux-x64`."""
    machine = platform.machine().lower()
    cpu = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(machine, machine)
    return f"{platform.system().lower()}-{cpu}"


class Peer(NamedTuple):
    """One pinned npm package, and the program in it, relative to `node_modules`."""

    package: str
    version: str
    program: str

    @property
    def path(self) -> Path:
        return MODULES / self.program

    def installed(self) -> bool:
        """Whether exactly this version is there."""
        manifest = MODULES / self.package / "package.json"
        try:
            return json.loads(manifest.read_text())["version"] == self.version
        except (OSError, ValueError, KeyError):
            return False


PEERS_BY_NAME = {
    "codex-acp": Peer(
        "@zed-industries/codex-acp",
        "0.16.0",
        f"@zed-industries/codex-acp-{platform_suffix()}/bin/codex-acp",
    ),
    # The platform's package alone: the `opencode-ai` package around it adds only a launcher.
    "opencode": Peer(
        f"opencode-{platform_suffix()}",
        "1.18.33",
        f"opencode-{platform_suffix()}/bin/opencode",
    ),
    # What claude-agent-acp runs on: the node on PATH is often older than the one it declares.
    "node": Peer(f"node-{platform_suffix()}", "22.23.5", f"node-{platform_suffix()}/bin/node"),
    "claude-agent-acp": Peer(
        "@agentclientprotocol/claude-agent-acp",
        "0.101.0",
        "@agentclientprotocol/claude-agent-acp/dist/index.js",
    ),
}


def install(names: list[str]) -> None:
    """Install those of `names` that are not there yet, in one npm run."""
    missing = [PEERS_BY_NAME[name] for name in names if not PEERS_BY_NAME[name].installed()]
    if not missing:
        return
    PEERS.mkdir(exist_ok=True)
    # Its own manifest: npm would otherwise walk up and install into the first one it finds.
    manifest = PEERS / "package.json"
    if not manifest.exists():
        manifest.write_text('{"private": true}\n')
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-progress", "--save-exact"]
    specs = [f"{peer.package}@{peer.version}" for peer in missing]
    subprocess.run(
        ["npm", "install", *options, *specs], cwd=PEERS, check=True, timeout=NPM_TIMEOUT_S
    )


def main() -> None:
    names = sys.argv[1:] or list(PEERS_BY_NAME)
    install(names)
    for name in names:
        peer = PEERS_BY_NAME[name]
        if not os.access(peer.path, os.R_OK):
            sys.exit(f"{name}: {peer.package}@{peer.version} brought no {peer.path}")
        print(f"{name}: {peer.path}")


if __name__ == "__main__":
    main()
