"""The contract between an agent's adapter and whoever shows its sessions, naming no agent.

Values are frozen dataclasses whose attributes are the wire's keys. What comes in is read with
tolerance, what goes out is held to its form; `codec` is where both are done.
"""
