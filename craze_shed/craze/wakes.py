"""What cuts short the waits of a machine's background work: the person has just asked for something
there, and it may have changed what is to be found."""

from gevent.event import Event


class Wakes:
    """One machine's. `listed` counts the sessions that explicit actions have brought about."""

    __slots__ = ("_woken", "listed")

    def __init__(self) -> None:
        self._woken = Event()
        self.listed = 0

    def wake(self) -> None:
        """End the wait, or the next one where none is pending."""
        self._woken.set()

    def wait(self, seconds: float) -> None:
        """Wait, unless woken."""
        self._woken.wait(seconds)
        self._woken.clear()
