"""The session's event log: numbered records, the ring, subscriptions, cursors.

The log itself does no I/O; its journal on disk is `craze.eventlog.journal`.
"""

from craze.eventlog.cursors import CursorRefused, ReplayFailed
from craze.eventlog.log import EventLog
from craze.eventlog.record import Record
from craze.eventlog.subscription import Subscription

__all__ = ["CursorRefused", "EventLog", "Record", "ReplayFailed", "Subscription"]
