"""The session index: what can be loaded again, one row a line in `sessions.jsonl`.

Readers take no lock; a writer takes it, reads everything, and replaces the file whole. Members that
a row has and this craze does not know are kept. One bad line makes the whole index unreadable,
rather than lose a row at the next write; only a last line that was cut short, so has no newline, is
passed over.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from craze.wire.limits import INDEX_ROWS
from craze.wire.times import format_time, parse_time

from . import files, locks, trees
from .errors import MachineError, reason
from .paths import Paths, lock_beside

_BYTES = 64 * 1024 * 1024
LOCK_PATIENCE = 2.0

Row = dict[str, Any]

BUSY = "craze: the session index is busy — try again"
CHANGED = "craze: the session index changed — try again"


class IndexBusy(MachineError):
    """Another craze is writing the index, or changed the row meanwhile: nothing was written."""


class Load(NamedTuple):
    """What `--load` names: a row by its craze id, or one from before those by its key."""

    craze_id: str = ""
    provider: str = ""
    session: str = ""

    def __str__(self) -> str:
        return self.craze_id or self.session


class Unattended(NamedTuple):
    """How a session that nobody answers for, another's sub-agent, was started, and is started
    again; "" is what was not asked for."""

    mode: str = ""  # ask or plan
    permission_mode: str = ""  # bypass or prompt
    model: str = ""
    effort: str = ""

    @classmethod
    def read(cls, row: Row) -> "Unattended | None":
        """What a row says of it; None for a person's session."""
        if row.get("unattended") is not True:
            return None
        said = (row.get(member) for member in _UNATTENDED)
        return cls(*(value if isinstance(value, str) else "" for value in said))

    def write(self, row: Row) -> None:
        """Make the row say this and nothing else of it."""
        row["unattended"] = True
        for member, value in zip(_UNATTENDED, self, strict=True):
            row.pop(member, None)
            if value:
                row[member] = value


# The members of a row that carry an Unattended, in its order.
_UNATTENDED = ("mode", "permissionMode", "model", "effort")


class Index:
    """The index of one craze directory. Methods block on the disk, writers on its lock too."""

    __slots__ = ("_lock_path", "_path", "_paths", "_sleep")

    def __init__(self, paths: Paths, *, sleep: locks.Sleep = time.sleep) -> None:
        self._paths = paths
        self._path = paths.index
        self._lock_path = lock_beside(paths.index)
        self._sleep = sleep

    # ---- reading ----

    def rows(self) -> list[Row]:
        """Every row, one for each provider and session id, in file order; none without a file.

        Raises MachineError (`<path>:<line>: …`).
        """
        try:
            data = files.read(self._path, _BYTES)
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as failure:
            raise MachineError(f"{self._path}: {reason(failure)}") from None
        return _decode(data, self._path)

    def find(self, load: Load) -> Row | None:
        """The row that a load takes: the newest of a craze id, or the one of a key."""
        return find(self.rows(), load)

    def newest(self, workspace: str) -> Row | None:
        """The newest row of a directory, compared as written."""
        return newest(row for row in self.rows() if row["cwd"] == workspace)

    # ---- writing ----

    def mint(self, row: Row, craze_id: str) -> str:
        """Give a row from before craze ids one; the id it has now, which another may have given.

        Raises IndexBusy, MachineError.
        """

        def give(rows: list[Row]) -> Any:
            for there in rows:
                if key(there) == key(row):
                    there["crazeId"] = there.get("crazeId") or craze_id
                    return there["crazeId"]
            raise IndexBusy(CHANGED)

        return str(self._change(give))

    def record(
        self,
        provider: str,
        session: str,
        cwd: str,
        craze_id: str,
        now: int,
        *,
        title: str = "",
        source: str = "none",
        unattended: Unattended | None = None,
    ) -> None:
        """Write or renew a session's row. `source` says whose `title` it is: `fallback` fills an
        empty one, `agent` replaces one that is not pinned, `user` replaces and pins, `none` writes
        no title. Without `unattended` the row stays whose it was.

        Raises IndexBusy, MachineError.
        """
        stamp = format_time(now)

        def put(rows: list[Row]) -> None:
            for row in rows:
                if key(row) == (provider, session):
                    rows.remove(row)
                    break
            else:
                row = {"provider": provider, "sessionId": session, "createdAt": stamp}
                row.update(title="", pinned=False)
            row.update(cwd=cwd, updatedAt=stamp)
            row["crazeId"] = row.get("crazeId") or craze_id
            _entitle(row, title, source)
            if unattended is not None:
                unattended.write(row)
            rows.append(row)

        self._change(put)

    def _change(self, change: Callable[[list[Row]], Any]) -> Any:
        try:
            trees.home(self._paths.craze)
            with locks.take(self._lock_path, sleep=self._sleep, patience=LOCK_PATIENCE):
                rows = self.rows()
                result = change(rows)
                files.replace(self._path, _encode(rows))
                return result
        except locks.Held:
            raise IndexBusy(BUSY) from None
        except (OSError, ValueError, RecursionError) as failure:
            raise MachineError(f"{self._path}: {reason(failure)}") from None


def find(rows: Iterable[Row], load: Load) -> Row | None:
    """The one of `rows` that a load takes."""
    if load.craze_id:
        return newest(row for row in rows if row.get("crazeId") == load.craze_id)
    return next((row for row in rows if key(row) == (load.provider, load.session)), None)


def newest(rows: Iterable[Row]) -> Row | None:
    """The row that was updated last; of equals the first."""
    return max(rows, key=updated, default=None)


def key(row: Row) -> tuple[str, str]:
    """What no two rows share: the provider and its session id."""
    return row["provider"], row["sessionId"]


def updated(row: Row) -> int:
    return parse_time(row["updatedAt"])


class LoadRefused(MachineError):
    """The session asked for cannot be loaded as asked; `exit` is the exit code it earns."""

    def __init__(self, message: str, exit: int = 1) -> None:
        super().__init__(message)
        self.exit = exit


def find_load(index: Index, load: Load, workspace: str = "") -> Row:
    """The row to load, its directory looked at; `workspace` is an explicit `--workspace`.

    Raises LoadRefused, whose text follows `craze serve: `, and MachineError.
    """
    row = index.find(load)
    if row is None:
        of = f" for provider {load.provider}" if load.provider else ""
        raise LoadRefused(f"no session {load}{of}")
    cwd = row["cwd"]
    if workspace and workspace != cwd:
        raise LoadRefused(
            f"--load names a session that ran in {cwd}, not in --workspace {workspace}", 2
        )
    if not os.path.isdir(cwd):
        raise LoadRefused(f"that session ran in {cwd}, which is no longer a directory")
    return row


def _decode(data: bytes, path: str) -> list[Row]:
    rows: dict[tuple[str, str], Row] = {}
    *lines, last = data.split(b"\n")
    for number, line in enumerate((*lines, last), 1):
        if not line.strip():
            continue
        try:
            row = _row(line)
        except ValueError as failure:
            if number > len(lines):
                break  # cut short by a full disk or a kill: never a whole row
            raise MachineError(f"{path}:{number}: {failure}") from None
        rows.pop(key(row), None)
        rows[key(row)] = row
    return list(rows.values())


def _row(line: bytes) -> Row:
    try:
        row = json.loads(line, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    for name in ("sessionId", "provider", "cwd", "updatedAt"):
        if not isinstance(row.get(name), str) or not row[name]:
            raise ValueError(f"{name} is no string or empty")
    parse_time(row["updatedAt"])
    if not isinstance(row.get("crazeId", ""), str):
        raise ValueError("crazeId is no string")
    return row


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number too large to be written back")
    return value


def _encode(rows: list[Row]) -> bytes:
    while len(rows) > INDEX_ROWS:
        rows.remove(min(rows, key=updated))
    return b"".join(
        json.dumps(row, sort_keys=True, separators=(",", ":")).encode() + b"\n" for row in rows
    )


def _entitle(row: Row, title: str, source: str) -> None:
    if not title or source == "none":
        return
    if source == "fallback" and row.get("title"):
        return
    if source == "agent" and row.get("pinned"):
        return
    row["title"] = title
    row["pinned"] = source == "user" or bool(row.get("pinned"))
