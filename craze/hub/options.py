"""What can be created on this machine: the providers and their states, where sessions ran lately.

A state only marks: a create of a provider that is not ready is started all the same, and fails as
any start of it would. Nothing is cached; every call looks at the configuration, the programs and
the index as they are. Everything here blocks on the disk, and some of it on directories that
sessions ran in: never on a loop that serves.
"""

import os
from collections.abc import Callable, Iterable, Mapping

from craze.hub import saved
from craze.machine import config, index, providers
from craze.machine.config import Config
from craze.machine.index import Row
from craze.machine.paths import Paths, clean
from craze.wire import json
from craze.wire.cells import one_line
from craze.wire.codes import Refusal
from craze.wire.documents import Document, build
from craze.wire.limits import CREATE_PROVIDERS, CREATE_RECENT_DIRS
from craze.wire.plain import plain_line
from craze.wire.words import quote

# Known without looking: native is not part of this craze, so that no key of it can be there.
_NATIVE = (
    "needs_setup",
    "no model provider has a key",
    'craze auth login (an API key, or "craze auth login chatgpt" for a ChatGPT plan)',
)
_OUTSIDE_LOGIN = (
    "this craze runs outside the macOS login session (over ssh), where cursor may not reach the"
    " login keychain"
)
_READY = ("ready", "", "")

State = tuple[str, str, str]  # its name, why, and what to do


def create_options(
    paths: Paths,
    environ: Mapping[str, str],
    *,
    pid: int,
    report: Callable[[str], None],
    recent: list[Document] | None = None,
    outside_login: bool = False,
) -> bytes:
    """The result of `sessions.createOptions` (protocol tables 10.3), as raw JSON.

    `environ` is the hub's own, which its hosts inherit, `pid` its process; `report` hears why the
    index could not be read. `recent` are the `recent_dirs`, where they were found already.
    `outside_login` is for a hub that knows it runs outside the login
    session of its Mac: nothing here looks, and nothing is marked where it is not known.
    """
    settings = config.load(paths, environ)
    default = settings.provider if settings.provider in settings.known_providers else ""
    ended = f'kill {pid} (no session ends), then run "craze ps" in a terminal on the Mac'
    login_fix = ended if outside_login else ""
    return json.dumps(
        build(
            "createOptions",
            providers=listed(settings, environ, login_fix=login_fix),
            defaultProvider=default,
            recentDirs=recent_dirs(saved.read(paths, report)) if recent is None else recent,
        )
    )


def listed(
    settings: Config, environ: Mapping[str, str], *, launch: str = "", login_fix: str = ""
) -> list[Document]:
    """The providers with their states, in craze's order and then the user's own.

    `launch` is the provider of a launch from this environment, which alone heeds CRAZE_AGENT_BIN.
    `login_fix` is what to do about a process outside its Mac's login session, where it is that.
    """
    found = []
    for name in settings.known_providers:
        variable = environ.get("CRAZE_AGENT_BIN", "") if name == launch else ""
        state, reason, fix = _state(name, settings, environ.get("PATH", ""), variable)
        if name == "gx" and state != "ready":
            continue  # few machines have it
        if name == "cursor" and state == "ready" and login_fix:
            state, reason, fix = "unavailable", _OUTSIDE_LOGIN, login_fix
        label = settings.providers[name].label if name in settings.providers else name
        found.append(
            build(
                "createProvider",
                id=name,
                label=_line(label) or name,
                state=state,
                reason=_line(reason),
                fix=_line(fix),
            )
        )
    return found[:CREATE_PROVIDERS]


def recent_dirs(
    rows: Iterable[Row], is_directory: Callable[[str], bool] = os.path.isdir
) -> list[Document]:
    """The directories that sessions ran in, newest first, each with when it was last used.

    One is listed only where it is a directory now, as `is_directory` says, and its name could not
    act on a terminal.
    """
    found: list[Document] = []
    looked: set[str] = set()
    for row in sorted(rows, key=index.updated, reverse=True):
        directory, used = clean(row["cwd"]), saved.utc(row["updatedAt"])
        if directory in looked or not used:
            continue
        looked.add(directory)
        if (
            os.path.isabs(directory)
            and plain_line(directory) == directory
            and is_directory(directory)
        ):
            found.append(build("recentDir", dir=directory, usedAt=used))
            if len(found) == CREATE_RECENT_DIRS:
                break
    return found


def provider_for(provider: str, settings: Config) -> str:
    """The provider of a create that names `provider`, or "" for the default one.

    Raises Refusal for one that craze does not know, and where there is no default.
    """
    chosen = provider or settings.provider
    if not chosen and settings.fault:
        raise _bad(
            "params.provider is required: this hub's default provider (config.toml's provider)"
            f" cannot be read: {plain_line(settings.fault)}"
        )
    if not chosen:
        raise _bad(
            "params.provider is required: this hub has no default provider (config.toml's provider)"
        )
    if chosen in settings.known_providers:
        return chosen
    if provider:
        raise _bad(f"params.provider {quote(provider)} is not a provider this craze can start")
    raise _bad(
        f"the default provider {quote(chosen)} (config.toml's provider) is not one this craze can"
        " start"
    )


def _state(name: str, settings: Config, path: str, variable: str) -> State:
    provider = providers.named(settings, name)
    if provider is None:
        return _NATIVE
    program = providers.resolve(
        provider, path=path, config=settings.path, agents=settings.agents, variable=variable
    )
    if isinstance(program, providers.Missing):
        return "unavailable", program.reason, program.fix
    return _READY


def _bad(message: str) -> Refusal:
    return Refusal("bad_request", message)


def _line(text: str) -> str:
    return one_line(plain_line(text))
