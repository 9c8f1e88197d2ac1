"""A prompt as its author typed it: without the blocks that a client put in front."""

import re
from typing import Any

from craze.transcript.text import without_shell_context
from craze.wire import json

_ATTACHMENTS = re.compile(r"<craze_attachments>(.*?)</craze_attachments>(?:\n|\Z)", re.DOTALL)
_NUMBERS = ("n", "ow", "oh")
_STRINGS = ("path", "mime")


def typed(prompt: str) -> str:
    """The prompt without its attachments and then without its shell context."""
    found = _ATTACHMENTS.match(prompt)
    if found is not None and _is_attachments(found[1]):
        prompt = prompt[found.end() :]
    return without_shell_context(prompt)


def _is_attachments(text: str) -> bool:
    """Whether the text is the object that craze writes there; anything else is the author's."""
    try:
        value = json.parse(text.encode("utf-8", "replace"))
    except json.NotJSON:
        return False
    if not isinstance(value, dict):
        return False
    members = {name.lower(): member for name, member in value.items()}
    images = members.get("images")
    if not _is(members.get("v"), int) or not (images is None or isinstance(images, list)):
        return False
    return all(image is None or _is_image(image) for image in images or ())


def _is_image(image: Any) -> bool:
    if not isinstance(image, dict):
        return False
    members = {name.lower(): member for name, member in image.items()}
    return all(_is(members.get(name), int) for name in _NUMBERS) and all(
        _is(members.get(name), str) for name in _STRINGS
    )


def _is(value: Any, kind: type) -> bool:
    return value is None or (isinstance(value, kind) and not isinstance(value, bool))
