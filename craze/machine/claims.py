"""The claim on a session: whoever holds it is the one process that may serve or load the session.

Claims are the user's, not a craze directory's, and depend on no socket. Their files are never
unlinked: a name that comes and goes would let two processes lock two files under one name.
"""

import os
import time

from . import locks, trees
from .errors import MachineError, reason
from .ids import is_token
from .paths import Paths


class Claimed(MachineError):
    """Another craze has the session; `pid` is 0 and `host` is "" where its line does not say."""

    def __init__(self, session: str, holder: locks.Holder) -> None:
        super().__init__(
            f"rundir: session {session} is open in another craze"
            f" (pid {holder.pid or '?'}, host {holder.id or '?'})"
        )
        self.session = session
        self.pid = holder.pid
        self.host = holder.id


class Claim:
    """A session claimed until `release`, or the end of the process."""

    __slots__ = ("_lock", "session")

    def __init__(self, session: str, lock: locks.Lock) -> None:
        self.session = session
        self._lock = lock

    def release(self) -> None:
        self._lock.release(truncate=True)


def claim(paths: Paths, session: str, host: str, *, sleep: locks.Sleep = time.sleep) -> Claim:
    """Claim `session` for this process, which serves it as `host`.

    Raises Claimed when another process has it, and MachineError when it cannot be claimed at all.
    """
    if not is_token(session):
        raise MachineError(f"rundir: session id {session!r} is no token")
    trees.cache(paths, paths.locks)
    path = paths.claim(session)
    try:
        lock = locks.take(path, sleep=sleep)
    except locks.Held as held:
        raise Claimed(session, held.holder) from None
    except OSError as failure:
        raise MachineError(f"rundir: {path}: {reason(failure)}") from None
    try:
        lock.write(f"{os.getpid()} {host}")
    except OSError as failure:
        lock.release()
        raise MachineError(f"rundir: {path}: {reason(failure)}") from None
    return Claim(session, lock)
