"""The registry of live hosts: one entry a host, read by whoever looks for a session."""

from .entries import Entry, decode, encode, read
from .listing import Listing, bind
from .scan import Scan, any_live, scan
from .sweep import Swept, sweep

__all__ = [
    "Entry",
    "Listing",
    "Scan",
    "Swept",
    "any_live",
    "bind",
    "decode",
    "encode",
    "read",
    "scan",
    "sweep",
]
