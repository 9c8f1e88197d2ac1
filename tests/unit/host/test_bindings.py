"""Client ids and their tokens: every outcome of a resume (protocol tables 3.5)."""

import pytest

from craze.host.bindings import Bindings
from craze.wire.codes import Refusal
from craze.wire.limits import RETRY_AGE_MS

AGE = RETRY_AGE_MS * 1_000_000


class Engine:
    """What the bindings ask of an engine."""

    def __init__(self) -> None:
        self.minted = 0
        self.receipts: set[str] = set()
        self.retired: set[str] = set()
        self.released: list[str] = []

    def mint_client(self) -> str:
        self.minted += 1
        return f"c-{self.minted}"

    def release_client(self, client: str) -> None:
        self.released.append(client)

    def resume_client(self, client: str) -> bool:
        return client not in self.retired

    def retirable(self, client: str, now: int) -> bool:
        return client not in self.receipts


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def bindings(engine: Engine) -> Bindings:
    return Bindings(engine)  # type: ignore[arg-type]


def resume(client: str, token: str) -> dict[str, str]:
    return {"clientId": client, "token": token}


def test_each_hello_gets_the_next_id(bindings: Bindings) -> None:
    assert bindings.hello("A", None, "t1", 0)[0].client == "c-1"
    assert bindings.hello("B", None, "t2", 0)[0].client == "c-2"


def test_a_resume_takes_the_id_and_token_back(bindings: Bindings) -> None:
    first, _, _ = bindings.hello("A", None, "t1", 0)
    bindings.release(first, "A", 1)
    again, resumed, before = bindings.hello("B", resume("c-1", "t1"), "t2", 2)
    assert (again.client, again.token, resumed, before) == ("c-1", "t1", True, None)
    assert bindings.hello("C", None, "t3", 3)[0].client == "c-2"


def test_the_second_of_two_resumes_wins(bindings: Bindings) -> None:
    bindings.hello("A", None, "t1", 0)
    assert bindings.hello("B", resume("c-1", "t1"), "t2", 1)[1:] == (True, "A")
    binding, _, before = bindings.hello("C", resume("c-1", "t1"), "t3", 2)
    assert before == "B"
    assert bindings.holds(binding, "C")
    assert not bindings.holds(binding, "B")


def test_a_superseded_connection_releases_nothing(bindings: Bindings) -> None:
    binding, _, _ = bindings.hello("A", None, "t1", 0)
    bindings.hello("B", resume("c-1", "t1"), "t2", 1)
    bindings.release(binding, "A", 2)
    assert bindings.holds(binding, "B")


def test_b42_another_clients_token_is_refused_and_mints_nothing(
    bindings: Bindings, engine: Engine
) -> None:
    bindings.hello("A", None, "t1", 0)
    bindings.hello("B", None, "t2", 0)
    with pytest.raises(Refusal) as refused:
        bindings.hello("C", resume("c-2", "t1"), "t3", 1)
    assert refused.value.reason == "bad_token"
    assert engine.minted == 2


def test_b42_an_unknown_token_starts_afresh(bindings: Bindings) -> None:
    binding, resumed, _ = bindings.hello("A", resume("c-7", "elsewhere"), "t1", 0)
    assert (binding.client, binding.token, resumed) == ("c-1", "t1", False)


def test_a_released_id_without_receipts_is_retired_with_age(bindings: Bindings) -> None:
    first, _, _ = bindings.hello("A", None, "t1", 0)
    bindings.release(first, "A", 10)
    assert bindings.hello("B", resume("c-1", "t1"), "t2", 10 + AGE - 1)[1]
    bindings.release(first, "B", 20 + AGE)
    assert not bindings.hello("C", resume("c-1", "t1"), "t3", 20 + 2 * AGE)[1]


def test_a_held_receipt_keeps_an_id_until_twice_that_age(
    bindings: Bindings, engine: Engine
) -> None:
    engine.receipts.add("c-1")
    first, _, _ = bindings.hello("A", None, "t1", 0)
    bindings.release(first, "A", 0)
    assert bindings.hello("B", resume("c-1", "t1"), "t2", 2 * AGE - 1)[1]
    bindings.release(first, "B", 2 * AGE)
    assert not bindings.hello("C", resume("c-1", "t1"), "t3", 4 * AGE)[1]


def test_an_id_the_engine_retired_early_starts_afresh(bindings: Bindings, engine: Engine) -> None:
    first, _, _ = bindings.hello("A", None, "t1", 0)
    bindings.release(first, "A", 0)
    engine.retired.add("c-1")
    assert not bindings.hello("B", resume("c-1", "t1"), "t2", 1)[1]


def test_an_earlier_incarnations_token_is_remembered_one_generation(bindings: Bindings) -> None:
    bindings.hello("A", None, "t1", 0)
    second = Bindings(Engine(), bindings)  # type: ignore[arg-type]
    assert not second.hello("B", resume("c-1", "t1"), "t2", 1)[1]
    with pytest.raises(Refusal, match="does not match"):
        second.hello("C", resume("c-2", "t1"), "t3", 1)
    third = Bindings(Engine(), second)  # type: ignore[arg-type]
    assert not third.hello("D", resume("c-2", "t1"), "t4", 1)[1]


def test_an_earlier_incarnations_connection_releases_no_id_of_this_one(bindings: Bindings) -> None:
    old, _, _ = bindings.hello("conn-1", None, "t1", 0)
    engine = Engine()
    later = Bindings(engine, bindings)  # type: ignore[arg-type]
    new, _, _ = later.hello("conn-2", None, "t2", 0)
    assert old.client == new.client == "c-1"
    later.release(old, "conn-1", 0)
    assert engine.released == []
    later.release(new, "conn-2", 0)
    assert engine.released == ["c-1"]
