"""Bytes both ways between this process's stdin and stdout and one socket, unread and unchanged.

Stdin and stdout may be anything, and one description shared with other programs, a shell among
them: so their flags are never touched, and nothing done on them may block the other direction.
"""

import contextlib
import os
import select
import socket as names
import stat
from _thread import start_new_thread
from collections.abc import Callable, Iterator

import gevent
from gevent import socket
from gevent.event import AsyncResult
from gevent.hub import Waiter
from gevent.socket import wait_read, wait_write

from craze import greenlets
from craze.machine.errors import reason
from craze.wire.limits import CHUNK

STDIN, STDOUT = 0, 1
_PROBE = 1.0  # how often stdout is looked at once stdin has ended
_LAST_WORDS = 0.5  # what the session has written before it went is still fetched
_PIPE_BUF = select.PIPE_BUF
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Broken(Exception):
    """A direction failed; `str()` says which and why."""


def pump(sock: socket.socket) -> None:
    """Run until the socket's end, and close it. Raises Broken for every other end."""
    ended = AsyncResult()
    fail = ended.set_exception
    outward = greenlets.spawn("bridge: to stdout", _outward, sock, ended, on_error=fail)
    inward = greenlets.spawn("bridge: from stdin", _inward, sock, outward, on_error=fail)
    try:
        ended.get()
    finally:
        gevent.killall((inward, outward))
        sock.close()


def _outward(sock: socket.socket, ended: AsyncResult) -> None:
    with _writer() as write:
        _copy(sock, write, ended)


def _copy(sock: socket.socket, write: Callable[[memoryview], int], ended: AsyncResult) -> None:
    while True:
        try:
            data = sock.recv(CHUNK)
        except OSError as failure:
            raise Broken(f"read the session socket: {reason(failure)}") from failure
        if not data:
            ended.set(None)
            return
        view = memoryview(data)
        try:
            while view:
                view = view[write(view) :]
        except OSError as failure:
            raise Broken(f"write stdout: {reason(failure)}") from failure


def _inward(sock: socket.socket, outward: gevent.Greenlet) -> None:
    while True:
        try:
            data = _read()
        except OSError as failure:
            raise Broken(f"read stdin: {reason(failure)}") from failure
        if not data:
            break
        try:
            sock.sendall(data)
        except OSError as failure:
            outward.join(_LAST_WORDS)
            raise Broken(f"write to the session socket: {reason(failure)}") from failure
    try:
        sock.shutdown(names.SHUT_WR)
    except OSError as failure:
        outward.join(_LAST_WORDS)
        raise Broken(f"half-close the session socket: {reason(failure)}") from failure
    _watch_reader()


def _read() -> bytes:
    """What stdin has next; b"" at its end."""
    while True:
        wait_read(STDIN)
        try:
            return os.read(STDIN, CHUNK)
        except BlockingIOError:
            continue  # somebody else made it so, or was quicker


@contextlib.contextmanager
def _writer() -> Iterator[Callable[[memoryview], int]]:
    """How stdout is written to without blocking: takes a part, waiting until that is possible."""
    mode = os.fstat(STDOUT).st_mode
    if stat.S_ISSOCK(mode):
        with names.socket(fileno=os.dup(STDOUT)) as out:
            yield lambda view: _retried(lambda: out.send(view, names.MSG_DONTWAIT))
    elif stat.S_ISFIFO(mode):
        yield _write_pipe
    else:
        yield lambda view: _retried(lambda: _write_elsewhere(view))


def _write_pipe(view: memoryview) -> int:
    """A pipe that polls writable takes PIPE_BUF bytes without blocking, and no more for sure."""
    if not _polled(select.POLLOUT):
        wait_write(STDOUT)
    return _retried(lambda: os.write(STDOUT, view[:_PIPE_BUF]))


def _write_elsewhere(view: memoryview) -> int:
    """A terminal may be stopped and a disk may hang: only another thread can wait for those.

    A bare one, for gevent's pool would load as much again as a whole bridge.
    """
    outcome: list[int | OSError] = []

    def write() -> None:
        try:
            outcome.append(os.write(STDOUT, view))
        except OSError as failure:
            outcome.append(failure)
        finally:
            done.send()

    waiter = Waiter()
    done = gevent.get_hub().loop.async_()
    done.start(waiter.switch, None)
    try:
        start_new_thread(write, ())
        waiter.get()
    finally:
        done.stop()
        done.close()
    if isinstance(outcome[0], OSError):
        raise outcome[0]
    return outcome[0]


def _retried(write: Callable[[], int]) -> int:
    while True:
        try:
            return write()
        except BlockingIOError:
            wait_write(STDOUT)


def _watch_reader() -> None:
    """Raise Broken once nobody reads stdout any more, where that can be seen; forever until then.

    A quiet session writes nothing, so a reader that went would never be noticed.
    """
    while _can_be_watched():
        if _polled(select.POLLOUT) & _GONE:
            raise Broken("its reader went away (stdout closed)")
        gevent.sleep(_PROBE)


def _can_be_watched() -> bool:
    mode = os.fstat(STDOUT).st_mode
    if stat.S_ISFIFO(mode):
        return True
    if not stat.S_ISSOCK(mode):
        return False
    with names.socket(fileno=os.dup(STDOUT)) as out:
        return out.family == names.AF_UNIX and out.type == names.SOCK_STREAM


def _polled(events: int) -> int:
    poll = select.poll()
    poll.register(STDOUT, events)
    found = poll.poll(0)
    return found[0][1] if found else 0
