"""Whatever clients, agent and clock do, in whatever order, the rules of a session hold.

A run is a list of moves; each move picks what it needs of what there is. The rules are checked on
what comes out (events, effects, replies) by a reader that knows nothing of the engine's insides.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from craze.engine import gate, port
from craze.wire.codes import Refusal

KINDS = ("rpc", "foreign_turn", "prompt_in_flight", "prompt_cancelled", "closed")
METHODS = {
    port.SendInterject: port.InterjectReturned,
    port.SendSubagentCancel: port.SubagentCancelReturned,
    port.WriteTitle: port.TitleWritten,
}


class Run:
    """A driver, what its agent owes, and the commands sent."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.owed: list[Any] = []  # effects that the agent or the index has not answered
        self.timers: list[str] = []
        self.asked: list[Any] = []  # keys of asks raised
        self.withdrawn: list[Any] = []
        self.sent: list[tuple[Any, str, str, dict[str, Any]]] = []  # token, id, method, args
        self.holds: set[int] = set()  # cancels on their way
        self.foreign = self.replaying = self.started = self.fenced = False
        self.reader = Reader(self)

    def feed(self, given_: Any) -> None:
        mark = len(self.driver.events)
        effects = self.driver.feed(given_)
        for effect in effects:
            if isinstance(effect, port.Timer):
                self.timers.append(effect.name)
            elif isinstance(effect, port.SendCancel):
                self.holds.add(effect.token)
                self.owed.append(effect)
            elif isinstance(effect, port.SendSetting):
                assert not any(isinstance(e, port.SendSetting) for e in self.owed), "one at a time"
                self.owed.append(effect)
            elif type(effect) in METHODS or isinstance(effect, port.SendPrompt):
                self.owed.append(effect)
        self.reader.read(self.driver.events[mark:], effects, given_)

    def command(self, method: str, args: dict[str, Any], id: str = "") -> None:
        state, column = self.driver.engine.state, gate.column(method, args)
        token = self._send(method, args, id)
        if not id and gate.TABLE[state][column] == gate.NOT_ACCEPTING:
            assert token.answer.code == "not_accepting"

    def _send(self, method: str, args: dict[str, Any], id: str) -> Any:
        driver, mark = self.driver, len(self.driver.events)
        feed, driver.feed = driver.feed, self.feed_back
        try:
            token = driver.command(method, id=id, **args)
        finally:
            driver.feed = feed
        self.sent.append((token, id or str(driver.number), method, args))
        if token.answers and isinstance(token.answers[0], Refusal):
            assert len(driver.events) == mark, "a refused command changes nothing"
        return token

    def feed_back(self, given_: Any) -> list[Any]:
        del self.driver.feed
        self.feed(given_)
        return []

    def take(self, kinds: Any, pick: int) -> Any:
        owed = [effect for effect in self.owed if isinstance(effect, kinds)]
        if not owed:
            return None
        effect = owed[pick % len(owed)]
        self.owed.remove(effect)
        return effect


class Reader:
    """Reads a session's events and effects, and holds them to the rules."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.turn = ""
        self.turns = 0
        self.next = ""  # the successor that an ending has announced
        self.rows: list[dict[str, Any]] = []
        self.taken: dict[str, Any] | None = None  # the row sent last, until its turn starts
        self.source: dict[str, Any] | None = None  # the row that the turn was made of
        self.open: dict[str, str] = {}
        self.ended: set[str] = set()
        self.prompts: list[tuple[str, str]] = []
        self.over = False

    def read(self, events: list[Any], effects: list[Any], given_: Any) -> None:
        run = self.run
        self.before(given_)
        assert not (events and self.over), "nothing follows the end"
        for event in events:
            bracket = event["type"] == "replay"
            assert event.get("replayed", False) == (run.replaying and not bracket)
            getattr(self, f"_{event['type']}", lambda event: None)(event)
            if "cause" in event:
                client, _, number = event["cause"].partition("/")
                assert client == run.driver.client
                assert 1 <= int(number) <= run.driver.number
        assert not self.next, "an announced successor starts in the same step"
        for effect in effects:
            if isinstance(effect, port.SendPrompt):
                assert self.prompts.pop(0) == (effect.turn, effect.text)
            elif isinstance(effect, port.Ended):
                self.over = True
        assert not self.prompts, "a started turn's prompt is sent"
        self.agree()

    def before(self, given_: Any) -> None:
        """What the input itself says of the session, before its events are read."""
        run = self.run
        if isinstance(given_, port.CancelReturned):
            run.holds.discard(given_.token)
        elif isinstance(given_, port.TimerFired) and given_.name.startswith("send_now "):
            run.holds.discard(int(given_.name.split()[1]))
        elif isinstance(given_, port.Fence):
            run.fenced = given_.up
        elif isinstance(given_, port.AgentReady):
            run.started = True
        elif isinstance(given_, port.Close | port.AgentExited):
            run.replaying = False
            run.holds.clear()

    def agree(self) -> None:
        """The fold and the engine's reads say the same."""
        engine, model = self.run.driver.engine, self.run.driver.model
        assert engine.rows == self.rows == list(model.queue)
        assert engine.turn == self.turn == model.turn.id
        assert [ask.id for ask in engine.asks.open] == list(self.open) == list(model.asks)
        armed = model.settings.get("sendNow")
        assert bool(engine.send_now) == bool(armed)
        if engine.send_now is None and not engine.turn and not engine.busy:
            assert not self.rows

    def _replay(self, event: Any) -> None:
        self.run.replaying = event["replay"]["phase"] == "start"

    def _foreign_turn(self, event: Any) -> None:
        self.run.foreign = bool(event["foreignTurn"].get("running"))

    def _turn(self, event: Any) -> None:
        turn, run = event["turn"], self.run
        if turn["phase"] == "started":
            self.turns += 1
            assert turn["id"] == f"turn-{self.turns}"
            assert self.turn == ""
            assert run.started and not (run.foreign or run.replaying or run.holds or self.over)
            assert not run.fenced
            assert self.next in ("", turn["id"])
            if turn["origin"] == "drain":
                assert "cause" not in event
                assert self.taken is not None
            if self.taken is not None:
                assert self.taken.get("text", "") == turn.get("text", "")
            self.source, self.taken = self.taken, None
            self.turn, self.next = turn["id"], ""
            self.prompts.append((turn["id"], turn.get("text", "")))
        else:
            assert turn["id"] == self.turn
            assert not run.holds, "no ending while a cancel is on its way"
            assert turn.get("pending", 0) == len(self.rows)
            if turn.get("errClass") == "foreign_turn" and self.source is not None:
                assert self.rows[0] == self.source, "a row that was not sent is put back"
            self.turn = ""
            self.next = turn.get("next", "")
            if "err" in turn:
                assert not self.next, "nothing follows a failure"

    def _queue(self, event: Any) -> None:
        change, row, place = event["queueChange"], event["queue"], event.get("queuePos", 0)
        if change == "queued":
            assert row["id"] not in [held["id"] for held in self.rows]
            self.rows.insert(place, row)
        else:
            assert self.rows[place]["id"] == row["id"]
            if change == "edited":
                assert row["version"] == self.rows[place].get("version", 0) + 1
                self.rows[place] = row
            else:
                assert self.rows.pop(place) == row
                if change == "sent":
                    self.taken = row

    def _open(self, event: Any) -> None:
        ask = event[event["type"]]["id"]
        assert ask not in self.open and ask not in self.ended
        self.open[ask] = event["type"]

    _permission = _question = _plan = _open

    def _ask(self, event: Any) -> None:
        ask = event["ask"]
        assert ask["id"] not in self.ended, "one ending"
        if "body" not in ask:
            assert self.open.pop(ask["id"]) == ask["kind"], "the opening comes first"
        self.ended.add(ask["id"])


# ---- moves ----


def prompt(run: Run, pick: int) -> None:
    args = {"text": f"text {pick}", "mode": ("queue", "send_now", "interject")[pick % 3]}
    if args["mode"] != "interject" and pick > 4:
        args["fromRow"] = row(run, pick)
    run.command("session.prompt", args)


def row(run: Run, pick: int) -> str:
    rows = run.driver.engine.rows
    return rows[pick % len(rows)]["id"] if rows and pick < 7 else "q-99"


def queue(run: Run, pick: int) -> None:
    verb, args = (
        ("add", {"text": f"row {pick}"}),
        ("add", {"text": "again"}),
        ("edit", {"rowId": row(run, pick), "text": "edited"}),
        ("edit", {"rowId": row(run, pick), "text": "edited", "expectedVersion": pick % 2}),
        ("remove", {"rowId": row(run, pick)}),
        ("clear", {}),
    )[pick % 6]
    run.command(f"session.queue.{verb}", args)


def cancel(run: Run, pick: int) -> None:
    turn = (None, run.driver.engine.turn or "turn-98", "turn-99")[pick % 3]
    run.command("session.cancel", {"turnId": turn} if turn else {})


def disarm(run: Run, pick: int) -> None:
    run.command("session.disarm", {})


def change(run: Run, pick: int) -> None:
    kind = ("mode", "config", "model")[pick % 3]
    setting = {"kind": kind, "value": f"v{pick}"}
    if kind == "config":
        setting |= {"id": "effort", "forModel": ("grok", "v2", "gone")[pick % 3]}
    run.command("session.set", {"setting": setting})


def title(run: Run, pick: int) -> None:
    run.command("session.setTitle", {"title": f"title {pick}"})


def answer(run: Run, pick: int) -> None:
    asks = run.driver.engine.asks.open
    ask = asks[pick % len(asks)].id if asks and pick < 6 else f"perm-{pick}"
    given_ = ({"optionId": "allow"}, {"cancel": True}, {"accept": True}, {"skip": True})[pick % 4]
    run.command("asks.answer", {"askId": ask, "answer": given_})


def child(run: Run, pick: int) -> None:
    run.command("session.subagent.cancel", {"agentId": f"a{pick}"})


def resend(run: Run, pick: int) -> None:
    if run.sent:
        _, id, method, args = run.sent[-1 - pick % len(run.sent)]
        if pick == 7:
            method, args = "session.queue.add", {"text": "another payload"}
        run.command(method, args, id)


def expire(run: Run, pick: int) -> None:
    waiting = [token for token, *_ in run.sent if not token.answers]
    if waiting:
        token = waiting[pick % len(waiting)]
        run.holds.clear()  # which of them it releases shows in what it starts
        run.holds.update(t for t in run.driver.engine._turns._holds)
        cancel_ = [h for h, hold in run.driver.engine._turns._holds.items()
                   if hold.receipt is not None and hold.receipt.tokens[0] is token]  # fmt: skip
        run.holds.difference_update(cancel_)
        run.feed(port.CommandExpired(token))


def returned(run: Run, pick: int) -> None:
    effect = run.take(tuple(METHODS), pick)
    if effect is None:
        return
    if isinstance(effect, port.WriteTitle):
        run.feed(port.TitleWritten(effect.token, "" if pick % 3 else "disk full"))
    elif pick % 3 == 0:
        run.feed(METHODS[type(effect)](effect.token, error=port.AgentError("no")))
    else:
        run.feed(METHODS[type(effect)](effect.token))


def setting_returned(run: Run, pick: int) -> None:
    effect = run.take(port.SendSetting, pick)
    if effect is not None and pick % 4 == 0:
        run.feed(port.SettingReturned(effect.token, error=port.AgentError("no")))
    elif effect is not None:
        run.feed(port.SettingReturned(effect.token, effect.value, {effect.kind: effect.value}
                 if effect.kind != "config" else {"config": {}}))  # fmt: skip


def cancel_returned(run: Run, pick: int) -> None:
    effect = run.take(port.SendCancel, pick)
    if effect is not None:
        error = None if pick % 3 else port.AgentError("no")
        run.feed(port.CancelReturned(effect.token, error, pick == 6))


def prompt_ended(run: Run, pick: int) -> None:
    effect = run.take(port.SendPrompt, pick)
    if effect is None:
        return
    if pick > 1:
        run.feed(port.PromptEnded(effect.turn, ("end_turn", "cancelled")[pick % 2]))
    else:
        kind = KINDS[(pick + run.driver.number) % len(KINDS)]
        run.feed(port.PromptEnded(effect.turn, error=port.AgentError("no", kind)))


def raise_ask(run: Run, pick: int) -> None:
    run.asked.append(len(run.asked))
    kind = ("permission", "question", "plan")[pick % 3]
    body = {
        "permission": {"tool": "t", "options": [{"optionId": "allow", "kind": "allow_once"}]},
        "question": {"questions": [{"id": "q", "options": [{"id": "a"}]}]},
        "plan": {"plan": "p"},
    }[kind]
    run.feed(port.AskRaised(run.asked[-1], kind, body))


def withdraw(run: Run, pick: int) -> None:
    asks = run.driver.engine.asks.open
    if asks:
        run.withdrawn.append(asks[pick % len(asks)].key)
        run.feed(port.AskWithdrawn(run.withdrawn[-1]))


# What holds a session up for long is begun less often than it is ended.


def foreign(run: Run, pick: int) -> None:
    if not run.foreign and pick > 2:
        return
    bracket = {"id": "wake", "running": True} if not run.foreign else {"id": "wake"}
    run.feed(port.AgentEvent({"type": "foreign_turn", "foreignTurn": bracket}))


def replay(run: Run, pick: int) -> None:
    if not run.replaying and pick:
        return
    phase = "end" if run.replaying else "start"
    run.feed(port.AgentEvent({"type": "replay", "replay": {"phase": phase}}))


def say(run: Run, pick: int) -> None:
    event = (
        {"type": "text", "text": "t"},
        {"type": "meta", "text": "T", "state": {"title": "T"}},
        {"type": "subagent", "subagent": {"id": "a", "status": ("running", "failed")[pick % 2]}},
        {"type": "tool", "tool": {"id": "t", "title": "x"}},
    )[pick % 4]
    run.feed(port.AgentEvent(event))


def timer(run: Run, pick: int) -> None:
    if run.timers:
        run.feed(port.TimerFired(run.timers.pop(pick % len(run.timers))))


def fence(run: Run, pick: int) -> None:
    run.feed(port.Fence(not run.fenced and pick == 0))


def models(run: Run, pick: int) -> None:
    run.feed(port.ModelsRefreshed([{"id": "m", "name": "M"}], pick))


def clock(run: Run, pick: int) -> None:
    run.driver.minutes(pick * 3)


def ready(run: Run, pick: int) -> None:
    if not run.started:
        run.feed(port.AgentReady("p", [], [], {"model": "grok"}))


def end(run: Run, pick: int) -> None:
    if pick == 0:
        run.feed(port.Close() if run.driver.number % 2 else port.AgentExited(port.AgentError("x")))


MOVES: tuple[Callable[[Run, int], None], ...] = (
    prompt, prompt, prompt, queue, queue, cancel, disarm, change, title, answer, child, resend,
    expire, returned, setting_returned, cancel_returned, cancel_returned, prompt_ended,
    prompt_ended, prompt_ended, raise_ask, withdraw, foreign, replay, say, timer, fence, models,
    clock, ready, end,
)  # fmt: skip
_LISTS = st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 7)), min_size=30, max_size=120)


@pytest.mark.parametrize("options", [{}, {"force": True, "interactive": False}])
def test_the_rules_hold(fresh: Any, options: dict[str, Any]) -> None:
    @settings(max_examples=200, deadline=None)
    @given(moves=_LISTS, started=st.integers(0, 5))
    def check(moves: list[Any], started: int) -> None:
        driver = fresh(**options)
        run = Run(driver)
        if started:
            ready(run, 0)
        for move, pick in moves:
            move(run, pick)
        run.feed(port.Close())
        assert run.reader.over
        assert not run.reader.open, "the close ends every ask"
        for token, *_ in run.sent:
            assert len(token.answers) == 1, "one reply"
        told = [effect.key for effect in driver.sent(port.AnswerAsk)]
        assert sorted(told + run.withdrawn) == run.asked, "each ask is told its end once"
        assert len(driver.sent(port.Ended)) == 1

    check()
