"""Which machines there are, and the words for them."""

from pathlib import Path

import pytest

from craze_shed import config
from craze_shed.config import ConfigError, Machine, Misnamed

FILE = """
colour = "blue"
[machines]
build = "ssh:me@build.example.org"
"my box" = "paramiko:box"
here = "local"
local = "ssh:x"
"a:b" = "ssh:x"
number = 7
typo = "shh:x"
flag = "ssh:-oProxyCommand=x"
empty = "ssh:"
[more]
machines = 1
"""


def environ(tmp_path: Path, text: str | None = FILE) -> dict[str, str]:
    where = tmp_path / ".config/craze-shed/machines.toml"
    where.parent.mkdir(parents=True)
    if text is not None:
        where.write_text(text)
    return {"HOME": str(tmp_path)}


@pytest.mark.parametrize("word,machine", [
    ("local", Machine("local")),
    ("ssh:build", Machine("ssh:build", "ssh", "build")),
    ("ssh:me@build", Machine("ssh:me@build", "ssh", "me@build")),
    ("paramiko:::1", Machine("paramiko:::1", "paramiko", "::1")),
    ("build", Machine("build", "ssh", "me@build.example.org")),
    ("my box", Machine("my box", "paramiko", "box")),
    ("here", Machine("here")),
])  # fmt: skip
def test_a_word_names_a_machine(tmp_path, word, machine):
    assert config.named(word, environ(tmp_path)) == machine


def test_how_it_is_reached_is_a_word_that_names_it_too(tmp_path):
    for word in ("local", "ssh:a@b", "paramiko:c"):
        assert config.named(word, {}).word == word
    assert config.named("build", environ(tmp_path)).word == "ssh:me@build.example.org"


@pytest.mark.parametrize("word,problem", [
    ("shh:x", 'expected "local", "ssh:HOST" or "paramiko:HOST", got "shh:x"'),
    ("ssh:", 'expected a host after ssh:, got ""'),
    ("ssh:-oProxyCommand=x", 'expected a host after ssh:, got "-oProxyCommand=x"'),
    ("paramiko:a b", 'expected a host after paramiko:, got "a b"'),
    ("ssh:a\nb", 'expected a host after ssh:, got "a\nb"'),
])  # fmt: skip
def test_a_word_that_cannot_name_one_is_refused_without_the_file(word, problem):
    with pytest.raises(ConfigError) as caught:
        config.named(word, {"CRAZE_SHED_CONFIG": "/nowhere"})
    assert str(caught.value) == problem


@pytest.mark.parametrize("name,problem", [
    ("local", 'expected a name other than "local", and without a colon'),
    ("a:b", 'expected a name other than "local", and without a colon'),
    ("number", 'expected "local", "ssh:HOST" or "paramiko:HOST", got an integer'),
    ("typo", 'expected "local", "ssh:HOST" or "paramiko:HOST", got "shh:x"'),
    ("flag", 'expected a host after ssh:, got "-oProxyCommand=x"'),
    ("empty", 'expected a host after ssh:, got ""'),
])  # fmt: skip
def test_what_is_wrong_is_wrong_for_one_machine(tmp_path, name, problem):
    env = environ(tmp_path)
    said = f"{config.path(env)}: machines.{name}: {problem}"
    listed = config.listed(env)
    assert Misnamed(name, said) in listed
    assert [one.name for one in listed if isinstance(one, Machine)] == [
        "local", "build", "my box", "here",
    ]  # fmt: skip
    if name not in ("local", "a:b"):
        with pytest.raises(ConfigError) as caught:
            config.named(name, env)
        assert str(caught.value) == said


def test_a_name_that_is_not_there_is_told_what_is(tmp_path):
    with pytest.raises(ConfigError) as caught:
        config.named("buidl", environ(tmp_path, '[machines]\nbuild = "ssh:b"\n'))
    assert str(caught.value) == (
        'no machine is called "buidl": there are "local", "ssh:HOST", "paramiko:HOST", "build"'
    )


def test_no_file_is_no_machines_but_this_one(tmp_path):
    env = environ(tmp_path, None)
    assert config.listed(env) == [config.THIS_MACHINE]
    with pytest.raises(ConfigError, match="no machine is called"):
        config.named("build", env)


@pytest.mark.parametrize("text,problem", [
    ("[machines", "not TOML: "),
    ("machines = 7", "machines: expected a table, got an integer"),
    ("[[machines]]\n", "machines: expected a table, got a list"),
    ("", None),
])  # fmt: skip
def test_a_file_that_cannot_be_read_as_a_whole(tmp_path, text, problem):
    env = environ(tmp_path, text)
    if problem is None:
        assert config.listed(env) == [config.THIS_MACHINE]
        return
    with pytest.raises(ConfigError) as caught:
        config.listed(env)
    assert str(caught.value).startswith(f"{config.path(env)}: {problem}")


def test_a_variable_names_another_file_which_must_be_there(tmp_path):
    where = tmp_path / "other.toml"
    env = environ(tmp_path) | {"CRAZE_SHED_CONFIG": str(where)}
    with pytest.raises(ConfigError) as caught:
        config.listed(env)
    assert str(caught.value) == f"{where}: no such file, and CRAZE_SHED_CONFIG names it"
    where.write_bytes(b'[machines]\nx = "ssh:y"\n')
    assert [one.name for one in config.listed(env)] == ["local", "x"]
    where.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not TOML"):
        config.listed(env)
    where.unlink()
    where.mkdir()
    with pytest.raises(ConfigError, match="is a directory"):
        config.listed(env)
