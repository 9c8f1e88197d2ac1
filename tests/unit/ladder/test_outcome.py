"""What comes back before a hello, and what it is taken for."""

import pytest

import ladder
from ladder import Kind, Noise, Outcome

OLD = b"Error: unknown flag: --hub\n"
OLD_BRIDGE = b"craze bridge: unknown or malformed flag; see craze bridge --help\n"
NO_HUB = b"craze bridge: no hub is running\n"
TOO_OLD_TEXT = (
    'craze on this machine is too old for shed (it says "Error: unknown flag: --hub"); update craze'
)
NOT_THERE = "craze is not installed on this machine (craze: command not found)"


@pytest.mark.parametrize(
    ("exit", "stderr", "no_start", "outcome"),
    [
        (127, b"craze: command not found\n", False, Outcome(Kind.NOT_INSTALLED, NOT_THERE)),
        (
            127,
            OLD,
            True,
            Outcome(
                Kind.NOT_INSTALLED,
                "craze is not installed on this machine (Error: unknown flag: --hub)",
            ),
        ),
        (127, b"", True, (Kind.NOT_INSTALLED, "craze is not installed on this machine (exit 127)")),
        (1, OLD, False, (Kind.TOO_OLD, TOO_OLD_TEXT)),
        (None, OLD, True, (Kind.TOO_OLD, TOO_OLD_TEXT)),
        (3, NO_HUB, True, (Kind.NO_HUB, "craze bridge: no hub is running")),
        (3, b"motd\n" + NO_HUB, True, (Kind.NO_HUB, "motd craze bridge: no hub is running")),
        (1, OLD_BRIDGE, True, (Kind.OLD_BRIDGE, OLD_BRIDGE.decode().strip())),
        # Not the answers that they are to a --no-start.
        (3, NO_HUB, False, (Kind.UNREACHABLE, "it ended; craze said: " + NO_HUB.decode().strip())),
        (1, NO_HUB, True, (Kind.UNREACHABLE, "it ended; craze said: " + NO_HUB.decode().strip())),
        (
            1,
            OLD_BRIDGE,
            False,
            (Kind.UNREACHABLE, "it ended; craze said: " + OLD_BRIDGE.decode().strip()),
        ),
        (3, b"", True, (Kind.UNREACHABLE, "it ended")),
        (255, b"", False, (Kind.UNREACHABLE, "it ended")),
        (0, b"", False, (Kind.UNREACHABLE, "it ended")),
        (None, b"", True, (Kind.UNREACHABLE, "it ended")),
    ],
)
def test_a_dial(exit: int | None, stderr: bytes, no_start: bool, outcome: Outcome) -> None:
    found = ladder.dialled("it ended", exit=exit, stderr=stderr, no_start=no_start)
    assert found == outcome


def test_b34_the_login_shell_is_told_of() -> None:
    noise = [b"Welcome.", b"This account is\x1b[31m not available.\r", b"", b"  "]
    found = ladder.dialled("it ended", exit=1, stderr=b"a\nb\n", noise=noise)
    assert found.text == (
        "it ended; craze said: a b; before it, the login shell printed:"
        " This account is not available."
    )


@pytest.mark.parametrize(
    ("exit", "stdout", "stderr", "outcome"),
    [
        (127, b"{}\n", b"craze: command not found", (Kind.NOT_INSTALLED, NOT_THERE)),
        (1, b"", OLD, (Kind.TOO_OLD, TOO_OLD_TEXT)),
        (
            1,
            b"",
            b"craze providers: no hub is running",
            (Kind.NO_HUB, "craze providers: no hub is running"),
        ),
        (0, b'{"providers":[]}\n', b"", (Kind.HUB, "")),
        (0, b'Welcome.\n{"providers":[]}\n\n  \r\n', b"a warning", (Kind.HUB, "")),
        (0, b'{"providers":[]}\nbye\n', b"", (Kind.UNREACHABLE, "craze providers --hub exited 0")),
        (0, b"[1]\n", b"odd", (Kind.UNREACHABLE, "craze providers --hub exited 0: odd")),
        (0, b"", b"", (Kind.UNREACHABLE, "craze providers --hub exited 0")),
        (0, b'{"cut', b"", (Kind.UNREACHABLE, "craze providers --hub exited 0")),
        (0, b"[" * 100_000, b"", (Kind.UNREACHABLE, "craze providers --hub exited 0")),
        (1, b"{}", b"why\nnot", (Kind.UNREACHABLE, "craze providers --hub exited 1: why not")),
        (None, b"{}", b"", (Kind.UNREACHABLE, "craze providers --hub gave no exit code")),
    ],
)
def test_a_probe(exit: int | None, stdout: bytes, stderr: bytes, outcome: Outcome) -> None:
    assert ladder.probed(exit=exit, stdout=stdout, stderr=stderr) == outcome


def test_b34_noise_has_bounds() -> None:
    noise = Noise()
    assert all(noise.keep(b"x") for _ in range(16))
    assert not noise.keep(b"")
    assert noise.lines == [b"x"] * 16

    noise = Noise()
    assert noise.keep(b"x" * 4000) and noise.keep(b"") and noise.keep(b"y" * 96)
    assert not noise.keep(b"z")
    assert noise.keep(b"")
    assert not Noise().keep(b"x" * 4097)


def test_b71_nothing_said_acts_on_a_terminal() -> None:
    said = b"\x1b]0;title\x07a\x1b[2Jb\x9b\x00c\xe2\x80\xaed\xff\n\te"
    found = ladder.dialled("why", exit=1, stderr=said)
    assert found.text == "why; craze said: ab� c d� e"
    assert found.text.isprintable()


def test_nothing_is_dialled_where_that_would_start_a_hub() -> None:
    assert ladder.no_hub_on("build box") == (
        "no craze hub is running on build box; shed starts one there only when you ask it to"
    )
