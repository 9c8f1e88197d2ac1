import pytest

from craze.terminal.flags import BadFlag, Flag, parse

FLAGS = [Flag("name", "TEXT", short="n"), Flag("fast", short="f"), Flag("deep", short="d")]


@pytest.mark.parametrize(
    ("line", "given", "others"),
    [
        ("", {}, []),
        ("--name=x", {"name": "x"}, []),
        ("--name x", {"name": "x"}, []),
        ("--name=", {"name": ""}, []),
        ("--name=a=b", {"name": "a=b"}, []),
        ("--name --fast", {"name": "--fast"}, []),
        ("-n x", {"name": "x"}, []),
        ("-nx", {"name": "x"}, []),
        ("-n=x", {"name": "x"}, []),
        ("--fast", {"fast": True}, []),
        ("--fast=false", {"fast": False}, []),
        ("--fast=1 -d=0", {"fast": True, "deep": False}, []),
        ("-fd", {"fast": True, "deep": True}, []),
        ("-fdnx", {"fast": True, "deep": True, "name": "x"}, []),
        ("--name=a --name=b", {"name": "b"}, []),
        ("a --fast b", {"fast": True}, ["a", "b"]),
        ("--fast -- --name - x", {"fast": True}, ["--name", "-", "x"]),
        ("- x", {}, ["-", "x"]),
        ("--help", {"help": True}, []),
        ("-hf", {"help": True, "fast": True}, []),
    ],
)
def test_a_line_is_read(line: str, given: dict[str, object], others: list[str]) -> None:
    assert parse(FLAGS, line.split()) == (given, others)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("--nam=x", "nam"),
        ("--name", "name"),
        ("-n", "name"),
        ("-x", "x"),
        ("-fx", "x"),
        ("--fast=maybe", "fast"),
        ("--fast=", "fast"),
        ("-f=2", "fast"),
        ("--=x", ""),
        ("---x", "-x"),
    ],
)
def test_what_is_no_flag(line: str, name: str) -> None:
    with pytest.raises(BadFlag) as bad:
        parse(FLAGS, line.split())
    assert bad.value.name == name


def test_an_empty_value_can_be_an_argument_of_its_own() -> None:
    assert parse(FLAGS, ["--name", "", ""]) == ({"name": ""}, [""])
