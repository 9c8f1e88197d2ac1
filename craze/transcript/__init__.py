"""The fold of a session's events into what a reader of it sees, and the snapshot codec."""

from craze.transcript.model import Model
from craze.transcript.restore import restore
from craze.transcript.snapshot import SnapshotTooLarge, UnknownSubagent, encode

__all__ = ["Model", "SnapshotTooLarge", "UnknownSubagent", "encode", "restore"]
