"""Telling one process from another that got its number later.

A pid never proves life (a held lock does); with the time its process started it proves identity.
"""

import errno
import os
import sys


def dead(pid: int) -> bool:
    """Whether no process runs under `pid`; one that ended but is not reaped yet is dead."""
    if pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError as failure:
        return failure.errno != errno.EPERM  # another user's process is alive
    fields = _stat(pid)
    return fields is not None and fields[0] in "ZX"


def start_time(pid: int) -> int | None:
    """When `pid` started, in a unit of the platform's own; None when that cannot be known.

    Linux: clock ticks since boot. macOS: microseconds since 1970.
    """
    if sys.platform == "darwin":
        return _darwin_start(pid)
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def cpu_time(pid: int) -> int | None:
    """How long `pid` has run on a processor, in clock ticks; None where that cannot be known."""
    fields = _stat(pid)
    return None if fields is None else int(fields[11]) + int(fields[12])


def start_token(pid: int) -> str:
    """What tells this run of `pid` from every other on this machine; "" when it cannot be known."""
    started = start_time(pid)
    if started is None:
        return ""
    try:
        if sys.platform == "darwin":
            return f"st1/{_darwin_boot()}//{started}"
        with open("/proc/sys/kernel/random/boot_id") as source:
            boot = source.read().strip()
        return f"st1/{boot}/{os.readlink('/proc/self/ns/pid')}/{started}"
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on: the name before them may hold anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as source:
            return source.read().rpartition(b")")[2].decode().split() or None
    except OSError:
        return None


def _darwin_start(pid: int) -> int | None:
    import ctypes
    import struct

    name = (ctypes.c_int * 4)(1, 14, 1, pid)  # CTL_KERN, KERN_PROC, KERN_PROC_PID
    record = ctypes.create_string_buffer(1024)
    size = ctypes.c_size_t(len(record))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.sysctl(name, 4, record, ctypes.byref(size), None, 0) or size.value < 16:
        return None
    seconds, microseconds = struct.unpack_from("=qi", record)
    return int(seconds) * 1_000_000 + int(microseconds)


def _darwin_boot() -> str:
    import ctypes

    text = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0):
        raise OSError(ctypes.get_errno(), "kern.bootsessionuuid")
    return text.value.decode()
