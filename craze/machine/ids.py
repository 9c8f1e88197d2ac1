"""Names that stand in file names and on command lines: host ids, tokens, session ids."""

import os
import re

_TOKEN = re.compile(r"[A-Za-z0-9._-]{1,128}")
_HOST_ID = re.compile(r"[0-9a-f]{12}")


def is_token(text: str) -> bool:
    """Whether `text` may stand in a file name as a session's id."""
    return _TOKEN.fullmatch(text) is not None and text not in (".", "..")


def is_host_id(text: str) -> bool:
    """Whether `text` is a host's or hub's id: twelve lowercase hex digits."""
    return _HOST_ID.fullmatch(text) is not None


def host_id() -> str:
    """A fresh host or hub id: 48 random bits, never used again."""
    return os.urandom(6).hex()


def session_id(now: int) -> str:
    """A fresh craze session id: a UUIDv7 whose time is `now`, nanoseconds since 1970."""
    bits = int.from_bytes(os.urandom(10))
    value = (now // 1_000_000 & (1 << 48) - 1) << 80 | bits
    value = value & ~(0xF << 76) | 0x7 << 76  # version
    value = value & ~(0x3 << 62) | 0x2 << 62  # variant
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
