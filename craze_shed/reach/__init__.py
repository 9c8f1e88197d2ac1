"""Where a command runs: this machine, one behind the system's ssh program, or one behind paramiko.

    with SshReach("that-machine") as machine, machine.run("cat") as running:
        running.sendall(b"hello\n")
        print(running.recv(100))

paramiko is imported when a ParamikoReach is made, and not before.
"""

from craze_shed.reach.errors import ReachError
from craze_shed.reach.forwards import Share
from craze_shed.reach.interface import Keepalive, Reach, Running
from craze_shed.reach.local import LocalReach
from craze_shed.reach.paramiko import ParamikoReach
from craze_shed.reach.scripted import ScriptedReach
from craze_shed.reach.ssh import SshReach

__all__ = [
    "Keepalive",
    "LocalReach",
    "ParamikoReach",
    "Reach",
    "ReachError",
    "Running",
    "ScriptedReach",
    "Share",
    "SshReach",
]
