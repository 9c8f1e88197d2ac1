"""The hub: every session of one user on a machine, behind one socket."""
