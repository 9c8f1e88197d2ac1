"""A blocking client of protocol 1, for sessions' hosts and for hubs, on gevent sockets.

Ten lines are a program:

    from craze.client import Client

    with Client("/path/of/the/session.sock") as client, client.attach() as events:
        client.command("session.prompt", text="hello", mode="queue")
        for note in events:
            if note.method == "event":
                print(note.params["seq"], note.params["event"])
                if note.params["event"].get("turn", {}).get("phase") == "ended":
                    break
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from craze.client.aside import Aside
    from craze.client.bounds import Limits
    from craze.client.client import Client, Identity, splice
    from craze.client.errors import ClientError, ConnectionLost, OutcomeUnknown, Refused
    from craze.client.feed import Attachment, Cursor, Notification, Roster
    from craze.client.stream import Program, dial

_HOMES = {
    "Aside": "aside",
    "Attachment": "feed",
    "Client": "client",
    "ClientError": "errors",
    "ConnectionLost": "errors",
    "Cursor": "feed",
    "Identity": "client",
    "Limits": "bounds",
    "Notification": "feed",
    "OutcomeUnknown": "errors",
    "Program": "stream",
    "Refused": "errors",
    "Roster": "feed",
    "dial": "stream",
    "splice": "client",
}

__all__ = [
    "Aside",
    "Attachment",
    "Client",
    "ClientError",
    "ConnectionLost",
    "Cursor",
    "Identity",
    "Limits",
    "Notification",
    "OutcomeUnknown",
    "Program",
    "Refused",
    "Roster",
    "dial",
    "splice",
]


def __getattr__(name: str) -> Any:
    # Looked up when asked for: a bridge imports one small part of this package and counts its
    # megabytes.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"craze.client.{_HOMES[name]}"), name)
