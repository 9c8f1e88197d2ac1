"""Receipts: what makes a commandId run once (codecs 5.9, protocol tables 11.3).

A command is reserved under its client and id before it runs and answered exactly once; its answer
is kept, and a resend is given it again. What is refused as `unavailable`, `not_accepting`,
`in_progress` or `stale_model` did not run: its reservation goes, and the id may be sent again.
"""

import re
from collections import OrderedDict, deque
from typing import Any

from craze.engine.port import Command, Reply
from craze.engine.refusals import refusal
from craze.engine.stage import Stage
from craze.wire.codes import Refusal, retryable
from craze.wire.limits import CLIENT_IDS, RETRY_AGE_MS, RETRY_COMMANDS

_CLIENT = re.compile("c-[1-9][0-9]{0,18}")
_AGE = RETRY_AGE_MS * 1_000_000  # nanoseconds


class Receipt:
    """One command: running until it has an answer. `cause` is what its events carry."""

    __slots__ = ("answer", "blocking", "cause", "client", "done_at", "hash", "id", "tokens")

    def __init__(self, command: Command, blocking: bool) -> None:
        self.client = command.client
        self.id = int(command.command)
        self.hash = command.hash
        self.cause = f"{command.client}/{command.command}"
        self.tokens = [command.token]  # whom the answer is owed to, the first sender first
        self.answer: Any = None
        self.done_at = 0
        self.blocking = blocking  # whether a resend while it runs waits for its answer

    def __repr__(self) -> str:
        return f"<Receipt {self.cause} {'running' if self.answer is None else 'done'}>"


class _Client:
    __slots__ = ("connected", "mark", "receipts")

    def __init__(self) -> None:
        self.connected = True
        self.mark = 0  # the highest id whose receipt is gone
        self.receipts: dict[int, Receipt] = {}


class Receipts:
    """The command-id table of one engine: the last 1024 answers, none older than ten minutes."""

    __slots__ = ("_clients", "_done", "_minted", "_running", "_stage")

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._minted = 0
        self._clients: OrderedDict[str, _Client] = OrderedDict()  # the oldest first
        self._running: set[Receipt] = set()
        self._done: deque[Receipt] = deque()  # answered and kept, the oldest answer first

    def __len__(self) -> int:
        """How many commands run."""
        return len(self._running)

    def running(self, token: Any) -> Receipt | None:
        """The command that was first sent under `token`, while it runs."""
        for receipt in self._running:
            if receipt.tokens[0] is token:
                return receipt
        return None

    def mint(self) -> str:
        """A fresh client id, connected. Past 4096, the oldest that is idle is retired early."""
        self._minted += 1
        client = f"c-{self._minted}"
        self._clients[client] = _Client()
        if len(self._clients) > CLIENT_IDS:
            self._retire_oldest()
        return client

    def release(self, client: str) -> None:
        """The client's connection is gone: it is idle once none of its commands runs."""
        if client in self._clients:
            self._clients[client].connected = False

    def resume(self, client: str) -> bool:
        """The client is back; False when it was retired meanwhile and needs a new id."""
        held = self._clients.get(client)
        if held is not None:
            held.connected = True
        return held is not None

    def retirable(self, client: str, now: int) -> bool:
        """Whether no receipt of the client's is held, running or answered, at `now`."""
        self._drop_old(now)
        held = self._clients.get(client)
        return held is None or not held.receipts

    def admit(self, command: Command, blocking: bool) -> Receipt | None:
        """Reserve the command, to be run and then completed; None when nothing is to run, as it was
        sent before: then its answer is given, owed, or refused."""
        self._drop_old(self._stage.now)
        client = self._clients.get(command.client)
        if client is None:
            if self._was_minted(command.client):
                self._reply(command, refusal("unknown_command"))
            else:
                self._reply(command, refusal("bad_request", f"no such client: {command.client}"))
            return None
        known = client.receipts.get(int(command.command))
        if known is None:
            if int(command.command) <= client.mark:
                self._reply(command, refusal("unknown_command"))
                return None
            receipt = client.receipts[int(command.command)] = Receipt(command, blocking)
            self._running.add(receipt)
            return receipt
        if known.hash != command.hash:
            self._reply(command, refusal(
                "bad_request", f"command {known.cause} was already sent with a different payload"
            ))  # fmt: skip
        elif known.answer is not None:
            self._reply(command, known.answer)
        elif known.blocking:
            known.tokens.append(command.token)
        else:
            self._reply(command, refusal("in_progress"))
        return None

    def complete(self, receipt: Receipt, answer: dict[str, Any] | Refusal) -> None:
        """Answer everyone who sent the command, once; a second answer is dropped."""
        if receipt.answer is not None:
            return
        receipt.answer = answer
        self._running.discard(receipt)
        for token in receipt.tokens:
            self._stage.do(Reply(token, answer))
        if isinstance(answer, Refusal) and retryable(answer.code):
            del self._clients[receipt.client].receipts[receipt.id]
            return
        receipt.done_at = self._stage.now
        self._done.append(receipt)
        if len(self._done) > RETRY_COMMANDS:
            self._drop_first()

    def _reply(self, command: Command, answer: Any) -> None:
        self._stage.do(Reply(command.token, answer))

    def _was_minted(self, client: str) -> bool:
        return _CLIENT.fullmatch(client) is not None and int(client[2:]) <= self._minted

    def _drop_old(self, now: int) -> None:
        while self._done and now - self._done[0].done_at >= _AGE:
            self._drop_first()

    def _drop_first(self) -> None:
        gone = self._done.popleft()
        client = self._clients.get(gone.client)
        if client is not None:
            del client.receipts[gone.id]
            client.mark = max(client.mark, gone.id)

    def _retire_oldest(self) -> None:
        for name, client in self._clients.items():
            if not client.connected and all(r.answer is not None for r in client.receipts.values()):
                del self._clients[name]
                return
