import pytest

from craze.machine import environment


def test_what_belonged_to_one_launch_or_terminal_goes() -> None:
    gone = dict.fromkeys(
        ("CRAZE_READY_FD", "CRAZE_HOST_CHILD", "CRAZE_HUB_CHILD", "CRAZE_PROVIDER",
         "CRAZE_DETACH", "CRAZE_CONTROL_SOCKET", "CRAZE_AGENT_BIN", "TMUX", "TMUX_PANE", "STY",
         "HERDR_X", "HERDR_", "ROOST_SOCKET", "CRAZE_AGENT_MARK"),
        "x",
    )  # fmt: skip
    kept = {
        "HOME": "/h", "PATH": "/bin", "XDG_RUNTIME_DIR": "/x", "API_KEY": "k", "EMPTY": "",
        "SSH_AUTH_SOCK": "/s", "CRAZE_RUNTIME_DIR": "rel", "CRAZE_JOURNAL": "0",
        "CRAZE_FAKE_SCRIPT": "echo", "TMUXES": "1", "XHERDR_": "1",
    }  # fmt: skip
    mixed = {}
    for pair in zip(kept.items(), gone.items(), strict=False):
        mixed.update(pair)
    mixed |= kept | gone
    handed = environment.handed_on(mixed, "/cwd")
    assert handed == kept
    assert list(handed) == list(kept)


@pytest.mark.parametrize("name", ["CRAZE_HOME", "CRAZE_CONFIG"])
@pytest.mark.parametrize(
    ("home", "value", "handed"),
    [
        ("/h", "/c/", "/c"),
        ("/h", " sub/../c ", "/cwd/c"),
        ("/h", "~/c", "/h/c"),
        ("/h", "~", "/h"),
        ("rel", "~/c", "~/c"),
        ("/h", "", ""),
        ("/h", "  ", "  "),
    ],
)
def test_directories_are_made_absolute(name: str, home: str, value: str, handed: str) -> None:
    assert environment.handed_on({name: value, "HOME": home}, "/cwd") == {
        name: handed,
        "HOME": home,
    }


def test_a_child_that_reports_ready_is_told_where() -> None:
    given = {"CRAZE_READY_FD": "9", "A": "b", "CRAZE_HOST_CHILD": "0"}
    assert environment.handed_on(given, "/", child=environment.HUB_CHILD) == {
        "A": "b",
        "CRAZE_READY_FD": "3",
        "CRAZE_HUB_CHILD": "1",
    }
    assert environment.handed_on(given, "/", child=environment.HOST_CHILD, ready=17) == {
        "A": "b",
        "CRAZE_READY_FD": "17",
        "CRAZE_HOST_CHILD": "1",
    }
    assert environment.handed_on(given, "/", ready=17) == {"A": "b"}
