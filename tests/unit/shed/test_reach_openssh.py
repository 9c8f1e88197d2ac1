"""What ssh's configuration says, as the ssh program tells it."""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from craze_shed.reach import ReachError, limits, openssh
from tests.e2e.sshd import program


@pytest.fixture
def read(tmp_path: Path) -> Any:
    program("ssh", "openssh-client")

    def read(text: str, destination: str = "box", **options: Any) -> openssh.Config:
        config = tmp_path / "config"
        config.write_text(text)
        env: Mapping[str, str] = {"PATH": os.environ["PATH"], "X_ONE": "1"}
        options.setdefault("env", env)
        return openssh.read(destination, config=str(config), **options)

    return read


def test_what_is_configured(read: Any) -> None:
    found = read(
        "Host box\nHostName %h.example.org\nUser me\nPort 2222\nHostKeyAlias the-box\n"
        'IdentityFile "~/a key"\n'
        "IdentityFile %d/%r@%h\nIdentitiesOnly yes\n"
        "IdentityAgent ~/agent\nUserKnownHostsFile ~/one /etc/two\n"
        "GlobalKnownHostsFile none\nProxyCommand nc -x %% %h %p %r %n\n"
        "SendEnv X_*\nSetEnv A=b\nCiphers aes256-ctr\n"
    )
    home = pwd.getpwuid(os.geteuid()).pw_dir
    assert found == openssh.Config(
        "box",
        "box.example.org",
        2222,
        "me",
        key_name="the-box",
        identity_files=(f"{home}/a key", f"{home}/me@box.example.org"),
        identities_only=True,
        agent=f"{home}/agent",
        known_hosts=(f"{home}/one", "/etc/two"),
        proxy_command="nc -x % box.example.org 2222 me box",
        sent={"X_ONE": "1", "A": "b"},
        algorithms=found.algorithms,
    )
    assert found.algorithms["ciphers"] == ("aes256-ctr",)


def test_what_is_not_configured(read: Any) -> None:
    found = read("", "someone@box", port=99)
    assert (found.host, found.port, found.user) == ("box", 99, "someone")
    assert (found.agent, found.proxy_command, found.proxy_jump) == ("", "", ())
    assert not found.identities_only
    assert len(found.identity_files) > 2
    assert read("", port=22).port == 22
    assert read("Port 44\n", port=0).port == 44


def test_which_agent_it_is(read: Any) -> None:
    env = {"HOME": "/h", "PATH": os.environ["PATH"], "SSH_AUTH_SOCK": "/a", "MINE": "/b"}
    assert read("", env=env).agent == "/a"
    assert read("IdentityAgent SSH_AUTH_SOCK\n", env=env).agent == "/a"
    assert read("IdentityAgent $MINE\n", env=env).agent == "/b"
    assert read("IdentityAgent none\n", env=env).agent == ""
    assert read("IdentityAgent /c\n", env=env).agent == "/c"


@pytest.mark.parametrize(
    ("text", "hop"),
    [
        ("a", ("a", 0)),
        ("u@a", ("u@a", 0)),
        ("a:33", ("a", 33)),
        ("u@a:33", ("u@a", 33)),
        ("ssh://u@a:33", ("u@a", 33)),
        ("ssh://a", ("a", 0)),
        ("[::1]:33", ("::1", 33)),
        ("u@[fe80::1]", ("u@fe80::1", 0)),
        ("fe80::1", ("fe80::1", 0)),
        ("u@x@a:33", ("u@x@a", 33)),
    ],
)
def test_a_hop(text: str, hop: tuple[str, int]) -> None:
    assert openssh.hop(text) == hop


def test_b46_jumps_are_told_and_not_made(read: Any) -> None:
    assert read("ProxyJump a,u@b:33\n").proxy_jump == ("a", "u@b:33")
    assert read("ProxyJump none\n").proxy_jump == ()
    assert read("ProxyCommand none\n").proxy_command == ""


def test_b46_what_cannot_be_done_is_refused(read: Any) -> None:
    with pytest.raises(ReachError) as refused:
        read("AddressFamily inet6\n")
    assert str(refused.value) == (
        "box: its ssh configuration says `addressfamily inet6`,"
        " and that cannot be done without the ssh program"
    )
    with pytest.raises(ReachError, match="pubkeyauthentication"):
        read("PubkeyAuthentication no\n")


def test_a_configuration_that_is_wrong(read: Any) -> None:
    with pytest.raises(ReachError, match=r"^box: ssh could not read its configuration: .*line 1"):
        read("Nonsense yes\n")


def test_b44_a_command_in_it_that_hangs_is_given_up(
    read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONFIG", 0.2)
    with pytest.raises(ReachError, match="not done within"):
        read('Match exec "sleep 600"\nPort 1\n')


def test_b71_no_message_acts_on_a_terminal() -> None:
    told = openssh.told("box\x1b[2J", "why", b"\x1b]0;x\x07said\n")
    assert str(told) == "box\\x1b[2J: why: said"
