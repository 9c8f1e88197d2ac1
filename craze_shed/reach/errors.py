"""What reaching a machine fails with: one exception, into which every foreign one is translated."""

from craze.client.errors import printable


class ReachError(Exception):
    """A machine that cannot be reached, or a stream to it that broke; the text is safe to print."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def closed(label: str) -> ReachError:
    """The failure of what goes through a way that was closed."""
    return ReachError(f"{label}: this way to it is closed")


def reason(failure: BaseException) -> str:
    """A failure in words, without its number."""
    return getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
