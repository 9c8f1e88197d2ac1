"""The dashboard's side: sessions on many machines, each opened as a lane and driven over it.

A source lists a machine's sessions, creates and reopens them; a lane is one session. `OpenLane`
holds a lane open for a reader and folds it into a `LaneView`. Everything blocks on gevent
greenlets, and nothing here patches the standard library.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from craze_shed.contract.errors import ClientError, LaneError
    from craze_shed.contract.interfaces import AgentLane, AgentSource
    from craze_shed.contract.publisher import Subscription
    from craze_shed.craze.dial import Dialer
    from craze_shed.craze.source import CrazeSource
    from craze_shed.keeper import OpenLane
    from craze_shed.tabs import fold_plan
    from craze_shed.view import LaneView, SourceView

_HOMES = {
    "AgentLane": "contract.interfaces",
    "AgentSource": "contract.interfaces",
    "ClientError": "contract.errors",
    "CrazeSource": "craze.source",
    "Dialer": "craze.dial",
    "LaneError": "contract.errors",
    "LaneView": "view",
    "OpenLane": "keeper",
    "SourceView": "view",
    "Subscription": "contract.publisher",
    "fold_plan": "tabs",
}

__all__ = [
    "AgentLane",
    "AgentSource",
    "ClientError",
    "CrazeSource",
    "Dialer",
    "LaneError",
    "LaneView",
    "OpenLane",
    "SourceView",
    "Subscription",
    "fold_plan",
]


def __getattr__(name: str) -> Any:
    # Looked up when asked for: the pure parts are of use without a loop.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"craze_shed.{_HOMES[name]}"), name)
