"""The hash of a create's params, by which a repeat of it is known (protocol tables 10.1).

The hash is in the registry entry of the host that a create started, where a hub of another version
may look for it: the same create has to hash the same in every craze, byte for byte, whatever it is
written in. So the params are written as Go's encoder does by default.
"""

from typing import Any

from craze.machine.digest import sha256_hex
from craze.wire import json

# In the order they are hashed; each is "" when it is absent.
_BEFORE = ("cwd", "prompt", "provider", "model", "effort")

# What Go escapes besides what JSON on the wire does; none of it stands outside of a string.
_ESCAPED = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))


def request_hash(args: dict[str, Any]) -> str:
    """The hash of a create's arguments, as `params.decode` gives them."""
    hashed = {name: args.get(name, "") for name in _BEFORE}
    hashed["fast"] = args.get("fast")
    hashed["permissionMode"] = args.get("permissionMode", "bypass")
    if args.get("title"):  # creates were hashed before they could have one
        hashed["title"] = args["title"]
    text = json.dumps(hashed)
    for char, escape in _ESCAPED:
        text = text.replace(char, escape)
    return "sha256:" + sha256_hex(text)
