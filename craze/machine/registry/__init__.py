"""The registry of live hosts: one entry a host, read by whoever looks for a session."""

from .entries import Entry, decode, encode, read
from .listing import Listing, bind
from .scan import Scan, scan

__all__ = ["Entry", "Listing", "Scan", "bind", "decode", "encode", "read", "scan"]
