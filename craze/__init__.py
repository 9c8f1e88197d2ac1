"""craze keeps coding-agent sessions alive on a machine, each for any number of clients."""

__version__ = "0.2.0"
