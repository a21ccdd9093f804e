"""What Redis still holds of jobs and limits, beside what may stay for a while after their end."""

from __future__ import annotations

from typing import Any


def left_in_redis(redis: Any, prefix: str = "rj") -> dict[str, object]:
    """By key, how much of it there is; tombstones, settled outcomes and empty keys are left out."""
    left: dict[str, object] = {}
    for key in redis.scan_iter(f"{prefix}:{{*}}:life"):
        at = key[: -len(b"life")]
        counts = {f"ready:{band}": redis.xlen(at + b"ready:%d" % band) for band in range(3)}
        counts |= {"due": redis.zcard(at + b"due"), "runs": redis.hlen(at + b"runs")}
        counts |= {"cancels": redis.scard(at + b"cancels"), "keys": redis.hlen(at + b"keys")}
        counts |= {"lanes": redis.hlen(at + b"lanes"), "behind": redis.zcard(at + b"behind")}
        counts["live"] = sum(not record.startswith(b"!") for record in redis.hvals(at + b"jobs"))
        settled = redis.hget(at + b"life", "settled") or b"0-0"
        counts["outcomes"] = len(redis.xrange(at + b"outcomes", min=b"(" + settled))
        left |= {f"{at.decode()}{name}": count for name, count in counts.items() if count}
    return left


def pending_in_redis(redis: Any, prefix: str = "rj") -> dict[str, object]:
    """By stream, how many entries its consumers hold."""
    left: dict[str, object] = {}
    for key in redis.scan_iter(f"{prefix}:{{*}}:ready:*"):
        held = sum(int(group["pending"]) for group in redis.xinfo_groups(key))
        if held:
            left[f"{key.decode()} pending"] = held
    return left


def limits_in_redis(redis: Any, prefix: str = "rj") -> dict[str, object]:
    """Permits that are held, and who waits for one. Of one that lapsed Redis remembers it for a minute."""
    at = f"{prefix}:{{-}}:"
    lapsed = {job for job, permit in redis.hgetall(at + "held").items() if permit.startswith(b"x ")}
    counts: dict[str, int] = {
        "held": redis.hlen(at + "held") - len(lapsed),
        "expiry": len({*redis.zrange(at + "expiry", 0, -1)} - lapsed),
    }
    counts |= {
        "line": redis.zcard(at + "line"),
        "heads": redis.zcard(at + "heads"),
        "tickets": redis.hlen(at + "tickets"),
    }
    counts["used"] = sum(float(weight) > 0 for weight in redis.hvals(at + "used"))
    return {f"{at}{name}": count for name, count in counts.items() if count}
