"""SHA-256 for a name or two, without what hashlib brings along: OpenSSL, megabytes of it."""

try:
    from _sha2 import sha256  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:  # an interpreter built without it
        from hashlib import sha256


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of `data` as 64 lowercase hex digits."""
    digest: str = sha256(data).hexdigest()
    return digest
