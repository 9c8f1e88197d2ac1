"""The line, really read and run by the shells that people log in with."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ladder
from ladder.line import ON_PATH, RUNGS

# What a shell is called, and the package that brings it.
LOGIN_SHELLS = {"dash": "dash", "bash": "bash", "zsh": "zsh", "fish": "fish", "tcsh": "tcsh"}
# What may be behind /bin/sh.
POSIX = {"dash": ["dash"], "bash": ["bash", "--posix"], "zsh": ["zsh", "--emulate", "sh"]}
BASIC = "/usr/bin:/bin"
PATIENCE = 30.0

CRAZE = """\
#!/bin/sh
echo "at $0"
for given; do printf '<%s>\\n' "$given"; done
echo "PATH=$PATH"
/usr/bin/env | /bin/grep '^craze_'
exit 7
"""


def installed(shell: str) -> str:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is missing; the package {LOGIN_SHELLS[shell]} brings it")
    return path


@pytest.fixture(params=LOGIN_SHELLS)
def login_shell(request: pytest.FixtureRequest) -> str:
    return installed(request.param)


@pytest.fixture(params=POSIX)
def sh(request: pytest.FixtureRequest) -> list[str]:
    name, *options = POSIX[request.param]
    return [installed(name), *options]


def put(path: Path) -> Path:
    """A craze at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CRAZE)
    path.chmod(0o755)
    return path


def ran(
    command: Sequence[str], env: Mapping[str, str], cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=PATIENCE, start_new_session=True,
    )  # fmt: skip


def quiet(home: Path) -> dict[str, str]:
    """An environment in which no shell writes anywhere but below `home`."""
    return {"HOME": str(home), "PATH": BASIC, "TERM": "dumb", "LC_ALL": "C.UTF-8"}


def arguments(done: "subprocess.CompletedProcess[str]") -> list[str]:
    found = [line for line in done.stdout.split("\n") if line.startswith("<")]
    return [line[1:-1] for line in found]


def path_given(done: "subprocess.CompletedProcess[str]") -> list[str]:
    line = next(line for line in done.stdout.splitlines() if line.startswith("PATH="))
    return line.removeprefix("PATH=").split(":")


def moved(script: str, root: Path) -> str:
    """The line with its fixed places below `root`, so that a test can put something there."""
    for rung in RUNGS:
        if rung.folder.startswith("/"):
            script = script.replace(f" {rung.folder}/", f" {root}{rung.folder}/")
            script = script.replace(f'"{rung.folder}/', f'"{root}{rung.folder}/')
    return script


# ---- what a shell reads ----


def test_b35_every_login_shell_reads_the_same(login_shell: str, tmp_path: Path) -> None:
    craze = put(tmp_path / ".local/bin/craze")
    done = ran([login_shell, "-c", ladder.remote(ladder.line(ladder.BRIDGE))], quiet(tmp_path))
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout.splitlines()[:3] == [f"at {craze}", "<bridge>", "<--hub>"]


AWKWARD = [
    "it's", "''", "'", '"', '""', "\\", "\\\\", "\\'", "a\\nb", "!", "!!", "!-1", "it's!\\!'",
    "$HOME", "${x:-y}", "$(id)", "`id`", "a b  c", " ", "", "*", "?", "[a]", "{a,b}", "~", "#x",
    ";", "&", "|", "<x", ">x", "(x)", "^x^y", "%1", "@x", "=ls", "-n", "--", "é", "日本", "\t",
    "x\\", "!'", "'!",
]  # fmt: skip


def test_b35_every_argument_arrives_as_it_is(login_shell: str, tmp_path: Path) -> None:
    put(tmp_path / ".local/bin/craze")
    done = ran([login_shell, "-c", ladder.remote(ladder.line(AWKWARD))], quiet(tmp_path))
    assert (done.returncode, done.stderr) == (7, "")
    assert arguments(done) == AWKWARD


@given(st.lists(st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=12), max_size=8))
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_b35_any_arguments_arrive(login_shell: str, tmp_path: Path, given: list[str]) -> None:
    put(tmp_path / ".local/bin/craze")
    done = ran([login_shell, "-c", ladder.remote(ladder.line(given))], quiet(tmp_path))
    assert (done.returncode, done.stderr) == (7, "")
    assert arguments(done) == given


@pytest.mark.parametrize("arguments", [ladder.BRIDGE, AWKWARD, ladder.attach("0123456789ab")])
@pytest.mark.parametrize("jailed", [False, True])
def test_b35_it_is_one_line_with_nothing_awkward_in_single_quotes(
    arguments: Sequence[str], jailed: bool
) -> None:
    script = ladder.line(arguments, jailed=jailed)
    for text in (script, ladder.remote(script)):
        assert not set(text) & set("\0\n\r")
        inside = False
        skip = False
        for char in text:
            if skip:
                skip = False
            elif char == "'":
                inside = not inside
            elif char == "\\":
                assert not inside
                skip = True
            elif char == "!":
                assert not inside
        assert not inside


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b"])
def test_what_is_not_one_line_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected one line"):
        ladder.line([text])
    with pytest.raises(ValueError, match="expected one line"):
        ladder.remote(f"echo {text}")


NOISY = {
    "dash": (".profile", ["-lc"]),
    "bash": (".profile", ["-lc"]),
    "zsh": (".zshenv", ["-c"]),
    "fish": (".config/fish/config.fish", ["-c"]),
    "tcsh": (".tcshrc", ["-c"]),
}


@pytest.mark.parametrize("shell", NOISY)
def test_b34_a_noisy_profile_prints_before_craze_and_changes_nothing(
    shell: str, tmp_path: Path
) -> None:
    profile, options = NOISY[shell]
    (tmp_path / profile).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / profile).write_text('echo "Welcome."\necho "{}"\n')
    craze = put(tmp_path / ".local/bin/craze")
    line = ladder.remote(ladder.line(ladder.PROBE))
    done = ran([installed(shell), *options, line], quiet(tmp_path))
    assert done.stdout.splitlines()[:4] == ["Welcome.", "{}", f"at {craze}", "<providers>"]
    assert done.returncode == 7


# ---- the search ----


def test_b39_the_places_are_tried_in_order(sh: list[str], tmp_path: Path) -> None:
    on_path = tmp_path / "somewhere"
    places = []
    for rung in RUNGS:
        if rung is ON_PATH:
            places.append(on_path)
        elif rung.folder.startswith("/"):
            places.append(Path(f"{tmp_path}{rung.folder}".replace("$USER", "me")))
        else:
            places.append(Path(rung.folder.replace("$craze_home", str(tmp_path))))
    env = quiet(tmp_path) | {"PATH": f"{on_path}:{BASIC}", "USER": "me"}
    line = moved(ladder.line(["x"]), tmp_path)
    assert len({put(place / "craze") for place in places}) == 9
    for place in places:
        done = ran([*sh, "-c", line], env)
        assert done.stdout.splitlines()[0] == f"at {place}/craze"
        (place / "craze").unlink()
    done = ran([*sh, "-c", line], env)
    assert (done.returncode, done.stdout, done.stderr) == (127, "", "craze: command not found\n")


def broken_link(path: Path) -> None:
    path.symlink_to(path.parent / "gone")


def directory(path: Path) -> None:
    path.mkdir()


def not_executable(path: Path) -> None:
    path.write_text(CRAZE)
    path.chmod(0o644)


def a_fifo(path: Path) -> None:
    os.mkfifo(path, 0o755)


@pytest.mark.parametrize("thing", [broken_link, directory, not_executable, a_fifo])
def test_b39_what_cannot_be_run_is_passed_over(thing, sh: list[str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".local/bin").mkdir(parents=True)
    thing(home / ".local/bin/craze")
    craze = put(tmp_path / "bin/craze")
    env = {"HOME": str(home), "PATH": f"{tmp_path}/bin:{BASIC}"}
    done = ran([*sh, "-c", ladder.line([], jailed=True)], env)
    assert done.stdout.splitlines()[0] == f"at {craze}"


def test_b39_a_link_to_craze_is_followed(sh: list[str], tmp_path: Path) -> None:
    put(tmp_path / "real/craze")
    (tmp_path / ".local/bin").mkdir(parents=True)
    (tmp_path / ".local/bin/craze").symlink_to(tmp_path / "real/craze")
    done = ran([*sh, "-c", ladder.line([])], quiet(tmp_path))
    assert done.stdout.splitlines()[0] == f"at {tmp_path}/.local/bin/craze"


def test_b39_a_home_with_spaces_and_more(sh: list[str], tmp_path: Path) -> None:
    home = tmp_path / "a  home's *"
    craze = put(home / ".local/bin/craze")
    done = ran([*sh, "-c", ladder.line([])], quiet(home))
    assert done.stdout.splitlines()[0] == f"at {craze}"
    assert path_given(done)[0] == str(craze.parent)


@pytest.mark.parametrize("home", [None, "", "home", "./home"])
def test_b39_a_home_that_is_not_absolute_is_none(
    home: str | None, sh: list[str], tmp_path: Path
) -> None:
    put(tmp_path / "home/.local/bin/craze")
    put(tmp_path / "home/.nix-profile/bin/craze")
    craze = put(tmp_path / "bin/craze")
    env = {"PATH": f"{tmp_path}/bin:{BASIC}"} | ({} if home is None else {"HOME": home})
    done = ran([*sh, "-c", ladder.line([])], env, tmp_path)
    assert done.stdout.splitlines()[0] == f"at {craze}"
    assert not [folder for folder in path_given(done) if "local/bin" in folder and "home" in folder]
    done = ran([*sh, "-c", moved(ladder.line([]), tmp_path)], env | {"PATH": BASIC}, tmp_path)
    assert (done.returncode, done.stdout) == (127, "")


@pytest.mark.parametrize("path", ["bin", "./bin", ".", ""])
def test_b39_a_relative_answer_of_the_path_does_not_count(
    path: str, sh: list[str], tmp_path: Path
) -> None:
    put(tmp_path / "bin/craze")
    put(tmp_path / "craze")
    env = {"HOME": str(tmp_path), "PATH": path}
    done = ran([*sh, "-c", ladder.line([], jailed=True)], env, tmp_path)
    if "bash" in sh[0]:  # it answers in full
        assert done.stdout.startswith(f"at {tmp_path}/")
    else:
        assert (done.returncode, done.stdout) == (127, "")


def test_b39_nothing_in_the_environment_at_all(sh: list[str], tmp_path: Path) -> None:
    line = moved(ladder.line(["x"]), tmp_path)
    assert ran([*sh, "-c", line], {}).returncode == 127
    craze = put(tmp_path / "usr/bin/craze")
    done = ran([*sh, "-c", line], {})
    assert done.stdout.splitlines()[:2] == [f"at {craze}", "<x>"]


def test_a_function_of_that_name_is_no_craze(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": BASIC, "BASH_FUNC_craze%%": "() { echo no; }"}
    done = ran([installed("bash"), "-c", ladder.line([], jailed=True)], env)
    assert (done.returncode, done.stdout) == (127, "")


def test_the_shell_is_replaced_by_craze(sh: list[str], tmp_path: Path) -> None:
    craze = put(tmp_path / ".local/bin/craze")
    craze.write_text("#!/bin/sh\necho $PPID\n")
    done = ran([*sh, "-c", ladder.line([])], quiet(tmp_path))
    assert done.stdout == f"{os.getpid()}\n"


# ---- the PATH that craze runs with ----

FIXED = "/opt/homebrew/bin:/usr/local/bin:/home/linuxbrew/.linuxbrew/bin:/usr/bin"
LAST = "/run/current-system/sw/bin"


def test_b39_craze_runs_with_the_places_before_the_path(sh: list[str], tmp_path: Path) -> None:
    put(tmp_path / ".local/bin/craze")
    given = "/nowhere:relative::/bin"
    env = quiet(tmp_path) | {"USER": "me", "PATH": given}
    done = ran([*sh, "-c", ladder.line([])], env)
    assert ":".join(path_given(done)) == (
        f"{tmp_path}/.local/bin:{FIXED}:{tmp_path}/.nix-profile/bin"
        f":/etc/profiles/per-user/me/bin:{LAST}:{given}"
    )


@pytest.mark.parametrize("user", [{}, {"USER": ""}])
@pytest.mark.parametrize("home", [{}, {"HOME": "relative"}])
def test_no_element_of_it_is_empty(
    user: dict[str, str], home: dict[str, str], sh: list[str], tmp_path: Path
) -> None:
    line = moved(ladder.line([]), tmp_path)
    put(tmp_path / "usr/bin/craze")
    done = ran([*sh, "-c", line], {"PATH": "", **user, **home})
    assert ":".join(path_given(done)) == f"{FIXED}:{LAST}"


def test_the_variables_are_not_craze_s(sh: list[str], tmp_path: Path) -> None:
    put(tmp_path / ".local/bin/craze")
    names = ("craze_home", "craze_path", "craze_bin")
    done = ran([*sh, "-c", ladder.line([])], quiet(tmp_path) | dict.fromkeys(names, "/exported"))
    assert "craze_" not in done.stdout
    assert "/exported" not in done.stdout


def test_a_jailed_line_leaves_the_path_alone(sh: list[str], tmp_path: Path) -> None:
    put(tmp_path / ".local/bin/craze")
    done = ran([*sh, "-c", ladder.line([], jailed=True)], quiet(tmp_path))
    assert path_given(done) == BASIC.split(":")
    for rung in RUNGS[2:]:
        assert rung.folder not in ladder.line([], jailed=True)


# ---- the forms ----


def test_the_forms() -> None:
    assert ladder.BRIDGE == ("bridge", "--hub")
    assert ladder.BRIDGE_NO_START == ("bridge", "--hub", "--no-start")
    assert ladder.PROBE == ("providers", "--hub", "--json")
    assert ladder.argv("true") == ["/bin/sh", "-c", "true"]
    assert "attach --session '0123456789ab';" in ladder.line(ladder.attach("0123456789ab"))
    assert "'" not in ladder.line(ladder.BRIDGE_NO_START)


@pytest.mark.parametrize(
    "id", ["", "0123456789a", "0123456789abc", "0123456789AB", "0123456789ag", "0123456789ab\n"]
)
def test_what_is_no_host_id(id: str) -> None:
    with pytest.raises(ValueError) as refused:
        ladder.attach(id)
    assert str(refused.value) == f'not a craze host id (twelve lowercase hex digits): "{id}"'


def test_the_local_form_needs_no_path(tmp_path: Path) -> None:
    put(tmp_path / ".local/bin/craze")
    done = ran(ladder.argv(ladder.line(["x"])), {"HOME": str(tmp_path), "PATH": ""})
    assert arguments(done) == ["x"]


# ---- where ----


def test_where_says_each_place_and_what_is_there(sh: list[str], tmp_path: Path) -> None:
    craze = put(tmp_path / ".local/bin/craze")
    env = {"HOME": str(tmp_path), "PATH": BASIC, "USER": "me"}
    done = ran([*sh, "-c", moved(ladder.where(), tmp_path)], env)
    assert done.stdout.splitlines() == [
        f"craze     {craze}",
        "no craze  on PATH",
        *(
            f"no craze  {tmp_path}{folder}/craze"
            for folder in (*FIXED.split(":"), "/.nix-profile/bin", "/etc/profiles/per-user/me/bin")
        ),
        f"no craze  {tmp_path}{LAST}/craze",
    ]
    done = ran([*sh, "-c", ladder.where(jailed=True)], env)
    assert done.stdout.splitlines() == [f"craze     {craze}", "no craze  on PATH"]
