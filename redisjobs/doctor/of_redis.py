"""The checks of Redis: each a pure look at the facts. What its user may not ask is said, and is no error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from redisjobs.broker.checkup import Checkup, RedisFacts
from redisjobs.broker.coverage import ALL as ALL_SLOTS
from redisjobs.doctor import limits
from redisjobs.doctor.finding import Verdict, fail, ok, unknown, warn
from redisjobs.doctor.of_postgres import clocks
from redisjobs.doctor.of_settings import is_far
from redisjobs.settings import RelaySettings


def version(facts: RedisFacts) -> Verdict:
    """What this version of redisjobs is tested on."""
    valkey = facts.info.get("valkey_version")
    found = str(valkey or facts.info.get("redis_version", "of an unknown version"))
    parts = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    if parts and parts < limits.OLDEST_REDIS:
        return fail(f"Redis {found}", "scripts need what Redis 6.2 brought", "upgrade to Redis 6.2 or newer, or Valkey")
    return ok(f"{'Valkey' if valkey else 'Redis'} {found}")


def primary(facts: RedisFacts) -> Verdict:
    """A replica takes no writes."""
    if facts.info.get("role") not in (None, "master"):
        found = f"a replica of {facts.info.get('master_host')}:{facts.info.get('master_port')}"
        return fail(found, "it takes no writes: nothing can be published or run",
                    "name the primary in REDISJOBS_REDIS_URL, or redis-cli REPLICAOF NO ONE")  # fmt: skip
    return ok("a primary")


def cluster(checkup: Checkup) -> Verdict:
    """Every key is on a server that can be reached, and that another can stand in for."""
    whole = checkup.coverage
    if whole is None:
        if any(facts.number("cluster_enabled") for facts in checkup.nodes):
            return fail("a node of a cluster, named as one server", "queues whose keys are on other nodes are refused",
                        "write redis+cluster:// for redis:// in REDISJOBS_REDIS_URL")  # fmt: skip
        return ok("one server")
    if checkup.silent:
        return fail(f"no answer from {', '.join(checkup.silent)}", "its queues stand still until a replica is promoted",
                    "start it, or redis-cli CLUSTER FAILOVER FORCE on a replica of it")  # fmt: skip
    if whole.served < ALL_SLOTS:
        return fail(f"{ALL_SLOTS - whole.served} of {ALL_SLOTS} slots are served by no node",
                    "queues in them stand still; with cluster-require-full-coverage all do",
                    "redis-cli --cluster check HOST:PORT, then --cluster fix")  # fmt: skip
    if whole.alone:
        return warn(f"no replica of {', '.join(whole.alone)}", "its queues stand still with it, until it is back",
                    "redis-cli --cluster add-node NEW:PORT HOST:PORT --cluster-slave")  # fmt: skip
    return ok(f"a cluster of {whole.primaries}, every slot is served, every primary has a replica")


def eviction(facts: RedisFacts) -> Verdict:
    """A job is never thrown away."""
    policy = str(facts.info.get("maxmemory_policy", ""))
    if policy in ("", "noeviction"):
        return ok(policy or "not told")
    remedy = "redis-cli CONFIG SET maxmemory-policy noeviction"
    if policy.startswith("allkeys") and facts.number("maxmemory"):
        return fail(f"maxmemory-policy is {policy}", "when memory is full Redis throws jobs away", remedy)
    return warn(f"maxmemory-policy is {policy}", "when memory is full Redis throws away what it may", remedy)


def memory(facts: RedisFacts) -> Verdict:
    """There is a limit, and room below it."""
    most, used = facts.number("maxmemory"), facts.number("used_memory")
    found = f"{used / 2**20:.1f} MiB used of {most / 2**20:.0f}" if most else f"{used / 2**20:.1f} MiB used, no limit"
    budget = RelaySettings().memory_budget
    remedy = f"redis-cli CONFIG SET maxmemory {max(2 * most, 512 << 20) >> 20}mb, or more workers"
    if not most:
        if not facts.host:
            return ok(f"{found}, on a socket of this machine")
        return warn(found, "a relay cannot tell when to stop publishing: the machine runs out of memory instead",
                    "redis-cli CONFIG SET maxmemory 512mb")  # fmt: skip
    if used > most * budget:
        return fail(found, f"relays publish nothing while more than {budget:.0%} are used", remedy)
    if used > most * limits.CLOSE_SHARE:
        return warn(found, f"at {budget:.0%} relays stop publishing", remedy)
    if most < limits.SMALL_MEMORY:
        return warn(found, "a waiting job takes some 430 bytes: few fit", remedy)
    return ok(found)


def persistence(facts: RedisFacts) -> Verdict:
    """A restart keeps what is there."""
    if (
        facts.info.get("rdb_last_bgsave_status", "ok") != "ok"
        and facts.config.get("stop-writes-on-bgsave-error") != "no"
    ):
        return fail("its last snapshot failed", "it refuses writes until one succeeds",
                    "mend what its log says, such as a full disk; then redis-cli BGSAVE")  # fmt: skip
    if facts.info.get("aof_last_write_status", "ok") != "ok":
        return fail("its append-only file cannot be written", "it refuses writes until it can be",
                    "mend what its log says, such as a full disk")  # fmt: skip
    if facts.number("aof_enabled"):
        return ok("an append-only file")
    return warn("no append-only file",
                "a restart loses all: rows are published again, running jobs run twice, direct jobs are lost",
                "redis-cli CONFIG SET appendonly yes")  # fmt: skip


def rights(facts: RedisFacts) -> Verdict:
    """This user may do what relays and workers do."""
    if facts.other_keys:
        return fail(f"this user may not use keys of {facts.prefix}:*: {facts.other_keys}", "nothing works without them",
                    f"redis-cli ACL SETUSER NAME '~{facts.prefix}:*'")  # fmt: skip
    if facts.lacks:
        return fail(f"this user may not use {', '.join(facts.lacks)}", "what needs them is refused",
                    f"redis-cli ACL SETUSER NAME {' '.join(f'+{name}' for name in facts.lacks)}")  # fmt: skip
    untried = f"; not tried: {', '.join(facts.untried)}" if facts.untried else ""
    return ok(f"this user may use every command that is needed{untried}")


def looking(facts: RedisFacts) -> Verdict:
    """What this user may look at."""
    if not facts.forbidden:
        return ok("INFO and CONFIG GET are allowed")
    return unknown(f"{', '.join(facts.forbidden)} may not be asked: what depends on it was not looked at",
                   "redis-cli ACL SETUSER NAME +info '+config|get', where that is possible")  # fmt: skip


def idle_timeout(facts: RedisFacts) -> Verdict:
    """Readers that wait keep their connections."""
    if "timeout" not in facts.config:
        return unknown("CONFIG GET does not tell it")
    found = facts.config["timeout"]
    if found != "0":
        return warn(f"timeout is {found} s", "connections that wait are cut off, and made again",
                    "redis-cli CONFIG SET timeout 0")  # fmt: skip
    return ok("no timeout")


def clients(facts: RedisFacts) -> Verdict:
    """There is room for workers."""
    most = facts.number("maxclients") or int(facts.config.get("maxclients", "0"))
    found = f"connections taken: {facts.number('connected_clients')} of {most}"
    if most and facts.number("connected_clients") > most * limits.FULL_SHARE:
        return fail(found, "a worker that finds no place cannot read or renew",
                    f"redis-cli CONFIG SET maxclients {2 * most}")  # fmt: skip
    return ok(found)


def latency(facts: RedisFacts) -> Verdict:
    """It is near."""
    found = f"answers a PING in {facts.ping_s * 1000:.1f} ms"
    if facts.ping_s > limits.SLOW_S:
        verdict = fail if facts.ping_s > limits.TOO_SLOW_S else warn
        return verdict(found, "every batch of jobs takes round trips, and late renewals lose leases",
                       "run workers near Redis; look with redis-cli --latency, and redis-cli SLOWLOG GET")  # fmt: skip
    return ok(found)


def clock(facts: RedisFacts) -> Verdict:
    """Its clock and this machine's agree."""
    return clocks(facts.now_s - facts.host_now_s, "Redis")


def encryption(facts: RedisFacts) -> Verdict:
    """Nobody between can read along."""
    if is_far(facts.host) and not facts.url.startswith("rediss"):
        return warn(f"not encrypted, to {facts.host}", "passwords and jobs cross a public network in the clear",
                    "use rediss:// in REDISJOBS_REDIS_URL")  # fmt: skip
    return ok("encrypted" if facts.url.startswith("rediss") else "not encrypted, on a private way")


Check: TypeAlias = Callable[[RedisFacts], Verdict]

CHECKS: dict[str, Check] = {
    "redis.looking": looking,
    "redis.version": version,
    "redis.primary": primary,
    "redis.eviction": eviction,
    "redis.memory": memory,
    "redis.persistence": persistence,
    "redis.rights": rights,
    "redis.idle_timeout": idle_timeout,
    "redis.clients": clients,
    "redis.latency": latency,
    "redis.clock": clock,
    "redis.encryption": encryption,
}
NEED_INFO = ("redis.version", "redis.primary", "redis.eviction", "redis.memory", "redis.persistence",
             "redis.clients")  # fmt: skip
