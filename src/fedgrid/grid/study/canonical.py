"""Canonical JSON and its digest: what is the same plain value has the same text and the same key."""

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """JSON with sorted keys and no white space; the same text for the same plain value, always."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def digest(value: Any) -> str:
    """16 hex digits of the SHA-256 of the canonical JSON of a plain value; texts of code may hold half a character."""
    return hashlib.sha256(canonical(value).encode(errors="surrogatepass")).hexdigest()[:16]
