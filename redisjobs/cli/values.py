"""Arguments and results as they can be read without the app that encoded them."""

from __future__ import annotations

import json

import msgpack

from redisjobs.base.durations import many


def readable(codec: str | None, payload: bytes | None) -> object:
    """What a payload says; of what only the app can read, how large it is."""
    try:
        if codec == "json" and payload is not None:
            return json.loads(payload)
        if codec == "msgpack" and payload is not None:
            return msgpack.unpackb(payload, strict_map_key=False)
    except ValueError:
        return f"(cannot be read as {codec})"
    return f"({many(len(payload or b''), 'byte')} of codec {codec})"
