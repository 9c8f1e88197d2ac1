"""The event codec, version 1: the 19 event types as plain dicts in wire order.

An event dict becomes bytes once, when the log commits it (`craze.eventlog`).
"""
