"""craze keeps coding-agent sessions alive on a machine and serves each one to any number of clients."""

__version__ = "0.2.0"
