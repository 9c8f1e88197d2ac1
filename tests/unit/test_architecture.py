"""The shape of the packages: what is pure, which way the arrows point, who may import what.

Read from the source, so that an import inside a function counts like any other.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CRAZE = ROOT / "craze"

# Package -> the others it may import. `clock`, `greenlets` and `craze` itself are anybody's.
ARROWS = {
    "terminal": {"wire"},
    "wire": set(),
    "events": {"wire"},
    "transcript": {"wire", "events"},
    "eventlog": {"wire", "events", "transcript"},
    "engine": {"wire", "events", "transcript", "eventlog"},
    "agents": {"wire", "events", "transcript", "eventlog", "engine", "machine"},
    "machine": {"wire"},
    "host": {"wire", "events", "transcript", "eventlog", "engine", "agents", "machine"},
    "client": {"wire", "machine"},
    "hub": {"wire", "machine", "client"},
    # The failures of the two commands without a command-line library; of the client only what finds
    # a hub.
    "bridge": {"wire", "machine", "client", "cli", "terminal"},
    "cli": {"wire", "machine", "host", "hub", "client", "bridge", "terminal"},
    "fakes": {"wire", "events", "engine", "agents", "host", "machine"},
    "__main__": {"bridge", "cli", "machine"},
    "greenlets": set(),
    "clock": set(),
    "": set(),
}
ANYBODYS = {"", "clock", "greenlets"}

PURE = ("wire", "events", "transcript", "eventlog", "engine")
# The journal's shell: one writer on a thread, one reader of files.
SHELL = {"craze.eventlog.journal", "craze.eventlog.writer", "craze.eventlog.reader"}
# Reads its own package's files, and only for tests and whoever checks a peer.
READS_ITSELF = {"craze.wire.schema"}
IMPURE = {
    "asyncio", "fcntl", "gevent", "io", "multiprocessing", "os", "pathlib", "random", "secrets",
    "select", "selectors", "shutil", "signal", "socket", "subprocess", "sys", "tempfile",
    "threading", "time", "uuid",
}  # fmt: skip


def modules(folder: Path) -> dict[str, Path]:
    """Every module of the package in that folder by its dotted name."""
    found = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules(CRAZE)
SHED = modules(ROOT / "craze_shed")
LADDER = modules(ROOT / "ladder")
EVERY = {**MODULES, **SHED, **LADDER}


def imports(name: str) -> set[str]:
    """The modules that a module imports, dotted and absolute, wherever in it."""
    path = EVERY[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:  # a name may be a module of its own
                whole = f"{base}.{alias.name}"
                found.add(whole if whole in EVERY else base)
    return found


def package_of(name: str) -> str:
    """`wire` for craze.wire.json; "" for craze itself."""
    return [*name.split("."), ""][1]


def importers(*wanted: str) -> set[str]:
    """The modules that import one of these top-level packages or modules."""
    return {
        name
        for name in EVERY
        if any(one == w or one.startswith(w + ".") for one in imports(name) for w in wanted)
    }


@pytest.mark.parametrize("name", MODULES)
def test_arrows_point_one_way(name: str) -> None:
    own = package_of(name)
    allowed = ARROWS[own] | ANYBODYS | {own}
    ours = {one for one in imports(name) if one.partition(".")[0] == "craze"}
    assert {one for one in ours if package_of(one) not in allowed} == set()


@pytest.mark.parametrize("name", [name for name in MODULES if package_of(name) in PURE])
def test_the_core_is_pure(name: str) -> None:
    if name in SHELL:
        return
    found = {one.partition(".")[0] for one in imports(name)} & IMPURE
    assert found == set()


def test_importing_the_core_brings_no_loop() -> None:
    core = sorted(
        name for name in MODULES if package_of(name) in PURE and name not in SHELL | READS_ITSELF
    )
    program = f"import sys, {', '.join(core)}; sys.exit('gevent' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60).returncode == 0


def test_one_module_imports_ujson() -> None:
    assert importers("ujson") == {"craze.wire.json"}


def test_the_schema_is_on_no_serving_path() -> None:
    assert importers("jsonschema", "referencing") == {"craze.wire.schema"}
    assert importers("craze.wire.schema") == set()


def test_nothing_is_patched_and_every_greenlet_is_owned() -> None:
    for name, path in MODULES.items():
        text = path.read_text()
        assert "patch_all" not in text and "monkey.patch_" not in text, name
        if name != "craze.greenlets":
            assert "gevent.spawn" not in text and "gevent.Greenlet(" not in text, name


def test_every_package_has_its_arrows() -> None:
    assert {package_of(name) for name in MODULES} == set(ARROWS)


# ---- the dashboard's side, and the ladder ----

# What the dashboard's side may import of craze: what reads and writes its wire.
SHED_ARROWS = {"", "clock", "greenlets", "wire", "events", "transcript", "client", "terminal"}
# Of the dashboard's side: what waits, dials or runs something. All else decides and does nothing.
SHED_SHELL = {
    "craze_shed", "craze_shed.__main__", "craze_shed.config", "craze_shed.keeper",
    "craze_shed.machine", "craze_shed.contract.interfaces", "craze_shed.contract.publisher",
    *(f"craze_shed.craze.{name}" for name in (
        "connection", "departures", "dial", "joining", "lane", "roster", "source", "spare",
        "wakes", "watcher",
    )),
}  # fmt: skip
# A request id has to be nobody else's.
MINTS = {"craze_shed.contract.creating": {"uuid"}}


def shed_core() -> list[str]:
    """The pure modules of the dashboard's side."""
    return [
        name
        for name in SHED
        if name not in SHED_SHELL
        and not name.startswith(("craze_shed.cli", "craze_shed.reach", "craze_shed.opencode"))
    ]


@pytest.mark.parametrize("name", SHED)
def test_the_dashboards_side_knows_nothing_of_engines_hosts_and_hubs(name: str) -> None:
    crazes = {package_of(one) for one in imports(name) if one.partition(".")[0] == "craze"}
    assert crazes - SHED_ARROWS == set()


@pytest.mark.parametrize("name", [name for name in SHED if name.startswith("craze_shed.contract")])
def test_the_contract_knows_no_agent(name: str) -> None:
    ours = {one for one in imports(name) if one.partition(".")[0] == "craze_shed"}
    assert {one for one in ours if not one.startswith("craze_shed.contract")} == set()


@pytest.mark.parametrize("name", shed_core())
def test_the_dashboards_core_is_pure(name: str) -> None:
    found = {one.partition(".")[0] for one in imports(name)} & IMPURE
    assert found - MINTS.get(name, set()) == set()


def test_importing_the_dashboards_core_brings_no_loop() -> None:
    program = f"import sys, {', '.join(sorted(shed_core()))}; sys.exit('gevent' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60).returncode == 0


# Its program patches where a library wants it; whoever imports its packages is left alone.
@pytest.mark.parametrize("name", [name for name in SHED if name != "craze_shed.__main__"])
def test_the_dashboards_side_patches_nothing_and_owns_its_greenlets(name: str) -> None:
    for node in ast.walk(ast.parse(SHED[name].read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert not node.func.attr.startswith(("patch_", "spawn_raw")), name
            called = ast.unparse(node.func)
            assert called not in ("gevent.spawn", "gevent.spawn_later", "gevent.Greenlet"), name


@pytest.mark.parametrize("name", LADDER)
def test_the_ladder_uses_nothing_but_the_standard_library(name: str) -> None:
    outside = {one.partition(".")[0] for one in imports(name)} - {"ladder", ""}
    assert outside <= sys.stdlib_module_names
