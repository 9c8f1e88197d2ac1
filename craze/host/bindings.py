"""Which client a connection is: client ids, resume tokens and their end (protocol 3.5).

A binding outlives its connection, so that a client that lost one takes its id back on the next. A
token is stable for its id's life and is never logged.
"""

from typing import Any

from craze.engine.engine import Engine
from craze.wire.codes import Refusal
from craze.wire.limits import RETRY_AGE_MS

_AGE = RETRY_AGE_MS * 1_000_000


class Binding:
    """A client id with its token, and the connection that has it now (None: released)."""

    __slots__ = ("client", "connection", "released", "token")

    def __init__(self, client: str, token: str, connection: Any) -> None:
        self.client = client
        self.token = token
        self.connection = connection
        self.released = 0

    def __repr__(self) -> str:
        return f"<Binding {self.client} {'bound' if self.connection else 'released'}>"


class Bindings:
    """The client ids of one incarnation of a session, whose `engine` mints them and keeps their
    receipts. `earlier` are those of the incarnation it replaces."""

    def __init__(self, engine: Engine, earlier: "Bindings | None" = None) -> None:
        self._engine = engine
        self._by_token: dict[str, Binding] = {}
        # A replaced engine's tokens are remembered one generation: with the right id they start
        # afresh, with a wrong one they are refused as any known token is.
        self._earlier = dict(earlier.clients()) if earlier else {}

    def clients(self) -> list[tuple[str, str]]:
        """Each token with its client id."""
        return [(token, binding.client) for token, binding in self._by_token.items()]

    def hello(
        self, connection: Any, resume: dict[str, str] | None, token: str, now: int
    ) -> tuple[Binding, bool, Any]:
        """Bind `connection`; `token` is the fresh draw, used only where a new id is minted.

        Returns the binding, whether it was resumed, and the connection it was taken from (or
        None). Raises Refusal `bad_token` for a known token with another client's id.
        """
        self._drop_old(now)
        if resume is not None:
            known = self._by_token.get(resume["token"])
            client = known.client if known else self._earlier.get(resume["token"])
            if client is not None and client != resume["clientId"]:
                raise Refusal("bad_token", "the resume token does not match that client id")
            if known is not None and self._engine.resume_client(known.client):
                before, known.connection = known.connection, connection
                return known, True, before
        binding = Binding(self._engine.mint_client(), token, connection)
        self._by_token[token] = binding
        return binding, False, None

    def release(self, binding: Binding, connection: Any, now: int) -> None:
        """`connection` is gone; the id stays resumable until it is retired."""
        if self.holds(binding, connection):
            binding.connection = None
            binding.released = now
            self._engine.release_client(binding.client)

    def holds(self, binding: Binding, connection: Any) -> bool:
        """Whether the id is this incarnation's and `connection` has it: a command read there may
        run."""
        return binding.connection is connection and self._by_token.get(binding.token) is binding

    def _retired(self, binding: Binding, now: int) -> bool:
        return (
            binding.connection is None
            and now - binding.released >= _AGE
            and self._engine.retirable(binding.client, now)
        )

    def _drop_old(self, now: int) -> None:
        gone = [
            token
            for token, binding in self._by_token.items()
            if self._retired(binding, now)
            or (binding.connection is None and now - binding.released >= 2 * _AGE)
        ]
        for token in gone:
            del self._by_token[token]
