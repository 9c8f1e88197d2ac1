"""Which host keys are believed."""

import base64
import subprocess
from pathlib import Path

import pytest

from craze_shed.reach import known_hosts
from craze_shed.reach.known_hosts import CHANGED, KNOWN, REVOKED, UNKNOWN, PublicKey, judge, lines
from tests.e2e.sshd import program

ONE, OTHER = PublicKey("ssh-ed25519", b"one"), PublicKey("ssh-ed25519", b"other")
RSA = PublicKey("ssh-rsa", b"rsa")


def written(key: PublicKey) -> str:
    return f"{key.type} {base64.b64encode(key.blob).decode()}"


def said(text: str, key: PublicKey = ONE, host: str = "box", port: int = 22) -> str:
    return judge(lines(text, "file"), host, port, key).says


@pytest.mark.parametrize(
    ("hosts", "host", "port", "verdict"),
    [
        ("box", "box", 22, KNOWN),
        ("BOX", "box", 22, KNOWN),
        ("box", "Box", 22, KNOWN),
        ("other,box", "box", 22, KNOWN),
        ("box.example.org", "box", 22, UNKNOWN),
        ("[box]:2222", "box", 2222, KNOWN),
        ("[box]:2222", "box", 22, UNKNOWN),
        ("[box]:2222", "box", 2223, UNKNOWN),
        ("box", "box", 2222, KNOWN),  # as ssh does
        ("*", "box", 22, KNOWN),
        ("*", "box", 2222, KNOWN),
        ("[*]:2222", "box", 2222, KNOWN),
        ("b?x", "box", 22, KNOWN),
        ("b?x", "bx", 22, UNKNOWN),
        ("*,!box", "box", 22, UNKNOWN),
        ("!box,*", "box", 22, UNKNOWN),
        ("[ab]ox", "box", 22, UNKNOWN),  # a bracket is no set of letters
        ("10.0.0.1", "10.0.0.1", 22, KNOWN),
        ("[::1]:2222", "::1", 2222, KNOWN),
    ],
)
def test_b47_whose_line_it_is(hosts: str, host: str, port: int, verdict: str) -> None:
    assert said(f"{hosts} {written(ONE)} comment\n", host=host, port=port) == verdict


def test_b47_hashed_names_are_those_that_ssh_keygen_writes(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    keygen = program("ssh-keygen", "openssh-client")
    subprocess.run(
        [keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True
    )
    public = (tmp_path / "key.pub").read_text().split()
    key = PublicKey.read(public)
    assert key is not None
    file.write_text(f"[box]:2222 {public[0]} {public[1]}\nplain {public[0]} {public[1]}\n")
    subprocess.run([keygen, "-H", "-f", str(file)], check=True, capture_output=True)
    text = file.read_text()
    assert "box" not in text
    assert said(text, key, "box", 2222) == KNOWN
    assert said(text, key, "plain") == KNOWN
    assert said(text, key, "box", 2223) == UNKNOWN
    shown = subprocess.run(
        [keygen, "-l", "-f", str(tmp_path / "key.pub")], check=True, capture_output=True, text=True
    )
    assert shown.stdout.split()[1] == key.fingerprint


def test_b47_another_key_of_the_type_is_a_change_and_of_another_type_is_unknown() -> None:
    text = f"# a comment\n\nbox {written(OTHER)}\nbox {written(RSA)}\n"
    verdict = judge(lines(text, "file"), "box", 22, ONE)
    assert (verdict.says, verdict.place) == (CHANGED, "file:3")
    assert said(text + f"box {written(ONE)}\n") == KNOWN
    assert said(f"box {written(RSA)}\n") == UNKNOWN
    assert said(f"[box]:2222 {written(OTHER)}\nbox {written(ONE)}\n", port=2222) == CHANGED


def test_b47_a_revoked_key_is_never_believed() -> None:
    text = f"box {written(ONE)}\n@revoked * {written(ONE)}\n"
    assert judge(lines(text, "file"), "box", 22, ONE) == (REVOKED, "file:2")
    assert said(text, port=2222) == REVOKED
    assert said(f"[box]:2222 {written(ONE)}\n@revoked box {written(ONE)}\n", port=2222) == REVOKED
    assert said(f"box {written(ONE)}\n@revoked other {written(ONE)}\n") == KNOWN
    assert said(f"box {written(ONE)}\n@revoked * {written(OTHER)}\n") == KNOWN


def test_b47_an_authority_is_no_host() -> None:
    text = f"@cert-authority * {written(ONE)}\n"
    assert said(text) == UNKNOWN
    assert known_hosts.types(lines(text, "file"), "box", 22) == []


def test_lines_that_cannot_be_read_say_nothing() -> None:
    text = "box\nbox ssh-ed25519\nbox ssh-ed25519 !!!\n@revoked\n|1|x|y z\n|1|a\n\0\n"
    text += f"|2|a|b {written(ONE)}\n|1|a {written(ONE)}\n|1|!|! {written(ONE)}\n"
    assert said(text) == UNKNOWN
    assert said(text + f"box {written(ONE)}") == KNOWN


def test_the_types_that_are_known() -> None:
    text = f"box {written(RSA)}\n[box]:2222 {written(ONE)}\nelse {written(ONE)}\n"
    assert known_hosts.types(lines(text, "file"), "box", 22) == ["ssh-rsa"]
    assert known_hosts.types(lines(text, "file"), "box", 2222) == ["ssh-rsa", "ssh-ed25519"]


def test_files_that_are_not_there_are_none(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_bytes(f"box {written(ONE)} \xff\n".encode("latin-1"))
    read = known_hosts.read([str(tmp_path / "not"), str(there), str(tmp_path)])
    assert [line.place for line in read] == [f"{there}:1"]
