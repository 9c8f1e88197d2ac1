"""How refusals spell what they are about."""

_ESCAPES = {
    "\\": "\\\\", '"': '\\"', "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r",
    "\t": "\\t", "\v": "\\v",
}  # fmt: skip
_QUOTED_CHARS = 1024  # a refusal names what came; it need not send megabytes of it back


def quote(text: str) -> str:
    """`text` in double quotes, what cannot be printed escaped, and cut with `…` past 1024
    characters."""
    if len(text) > _QUOTED_CHARS:
        text = text[: _QUOTED_CHARS - 1] + "…"
    return '"' + "".join(map(_spelt, text)) + '"'


def _spelt(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
