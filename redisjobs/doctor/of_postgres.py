"""The checks of Postgres: each a pure look at the facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from redisjobs.base.durations import age, many
from redisjobs.doctor import limits
from redisjobs.doctor.facts import Holding, PostgresFacts
from redisjobs.doctor.finding import Verdict, fail, ok, unknown, warn
from redisjobs.doctor.of_settings import is_far

WORKS = ("relay", "operator", "producer")
FLUSHES = ("fsync", "full_page_writes")
"""Settings without which a crash of the machine destroys data."""


def version(facts: PostgresFacts) -> Verdict:
    """What this version of redisjobs is tested on."""
    server = facts.server
    if server.number < limits.OLDEST_POSTGRES:
        why = "redisjobs needs what Postgres 14 brought"
        return fail(f"Postgres {server.version}", why, "upgrade Postgres to 14 or newer")
    return ok(f"Postgres {server.version}")


def primary(facts: PostgresFacts) -> Verdict:
    """A standby takes no writes."""
    if facts.server.standby:
        return fail("a standby", "nothing can be enqueued, published or settled here",
                    "name the primary in REDISJOBS_DATABASE_URL")  # fmt: skip
    return ok("a primary")


def schema(facts: PostgresFacts) -> Verdict:
    """The tables are those of this version."""
    if facts.schema_error:
        return fail(facts.schema_error, "this version does not know these tables",
                    "pip install --upgrade redisjobs-pg")  # fmt: skip
    if facts.missing:
        why = "relays and commands refuse to start"
        return fail(f"schema {facts.schema} lacks {', '.join(facts.missing)}", why, "redisjobs migrate")
    return ok(f"schema {facts.schema} is up to date")


def rights(facts: PostgresFacts, meant_for: str | None = None) -> Verdict:
    """The login can do its work: that which it is meant for, else that to which it comes nearest."""
    login, lacks = facts.server.login, facts.lacks
    able = [work for work in WORKS if not lacks.get(work)]
    work = meant_for or min(WORKS, key=lambda each: len(lacks.get(each, ())))
    if not facts.has_tables:
        return unknown("the tables are not there")
    if not lacks.get(work):
        return ok(f"login {login} may do the work of: {', '.join(able)}")
    missing = ", ".join(lacks[work])
    return fail(f"login {login} lacks, as {work}: {missing}", "what needs them is refused",
                f"psql -c \"SELECT {facts.schema}.grant_{work}('{login}')\"")  # fmt: skip


def read_only(facts: PostgresFacts) -> Verdict:
    """Transactions may write."""
    if facts.server.read_only:
        return fail("default_transaction_read_only is on for this login", "no row can be written or marked",
                    _reset(facts, "default_transaction_read_only", "off"))  # fmt: skip
    return ok("transactions may write")


def isolation(facts: PostgresFacts) -> Verdict:
    """Statements see what was committed before them."""
    found = facts.server.isolation
    if found != "read committed":
        return warn(f"default_transaction_isolation is {found}", "relays that meet at a lease fail and repeat",
                    _reset(facts, "default_transaction_isolation", "read committed"))  # fmt: skip
    return ok(found)


def timeouts(facts: PostgresFacts) -> Verdict:
    """Nothing cuts a relay's statements and sessions off."""
    server = facts.server
    for name, limit_ms in (
        ("statement_timeout", server.statement_timeout_ms), ("transaction_timeout", server.transaction_timeout_ms),
    ):  # fmt: skip
        if 0 < limit_ms < limits.SHORTEST_STATEMENT_S * 1000:
            why = "a recovery, or a large batch, takes longer: it is cut off and begins again, without an end"
            verdict = fail if limit_ms < 5000 else warn
            return verdict(f"{name} is {age(limit_ms / 1000)} for this login", why, _reset(facts, name, "0"))
    if server.idle_timeout_ms:
        why = "a session that listens has nothing to say: it is cut off, and commits are found later"
        found = f"idle_session_timeout is {age(server.idle_timeout_ms / 1000)} for this login"
        return warn(found, why, _reset(facts, "idle_session_timeout", "0"))
    return ok("none that cuts a relay off")


def durability(facts: PostgresFacts) -> Verdict:
    """What is committed stays."""
    server = facts.server
    for name in FLUSHES:
        if not getattr(server, name):
            return fail(f"{name} is off", "a crash of the machine can destroy the database, jobs included",
                        f'psql -c "ALTER SYSTEM SET {name} = on" -c "SELECT pg_reload_conf()"')  # fmt: skip
    if facts.table is not None and facts.table.unlogged:
        return fail("the outbox is UNLOGGED", "a crash of Postgres empties it: committed jobs are lost",
                    f'psql -c "ALTER TABLE {facts.schema}.outbox SET LOGGED"')  # fmt: skip
    if server.synchronous_commit == "off":
        return warn("synchronous_commit is off", "a crash loses the jobs of the last moments, with their transactions",
                    _reset(facts, "synchronous_commit", "on"))  # fmt: skip
    return ok("commits are on disk")


def connections(facts: PostgresFacts) -> Verdict:
    """There is room for a relay."""
    server = facts.server
    for what, limit in (
        (f"login {server.login}", server.login_limit),
        (f"database {server.database}", server.database_limit),
    ):
        if 0 <= limit < limits.RELAY_CONNECTIONS:
            kind, name = what.split(" ", 1)
            verb = "ROLE" if kind == "login" else "DATABASE"
            found = f"{what} may have {many(limit, 'connection')}"
            return fail(found, f"a relay takes up to {limits.RELAY_CONNECTIONS}",
                        f'psql -c "ALTER {verb} {name} CONNECTION LIMIT 20"')  # fmt: skip
    free = server.places - server.taken
    found = f"connections taken: {server.taken} of {server.places}"
    if free < limits.RELAY_CONNECTIONS or server.taken > server.places * limits.FULL_SHARE:
        verdict = fail if free < limits.RELAY_CONNECTIONS else warn
        return verdict(found, "a relay that finds no place cannot publish or settle",
                       'psql -c "ALTER SYSTEM SET max_connections = 200", and restart it')  # fmt: skip
    return ok(found)


def listening(facts: PostgresFacts) -> Verdict:
    """NOTIFY reaches a session that listens."""
    if facts.hears is None:
        return unknown("not tried on a standby")
    if not facts.hears:
        return warn(
            "a NOTIFY does not arrive: a pooler in transaction mode stands between",
            "a relay finds commits by polling alone, up to 200 ms (--interval) later",
            "give the relay the address of Postgres itself, or of a pool in session mode, in REDISJOBS_DATABASE_URL",
        )
    return ok("a NOTIFY arrives")


def trigger(facts: PostgresFacts) -> Verdict:
    """Commits wake the relay."""
    if facts.table is None:
        return unknown("the tables are not there")
    if facts.table.mute:
        return warn("the trigger `wake` of the outbox is disabled", "relays find commits by polling alone",
                    f'psql -c "ALTER TABLE {facts.schema}.outbox ENABLE TRIGGER wake"')  # fmt: skip
    return ok("commits wake the relay")


def row_security(facts: PostgresFacts) -> Verdict:
    """No policy hides rows."""
    if facts.table is None:
        return unknown("the tables are not there")
    if facts.table.row_security:
        return fail("row security of the outbox holds for this login", "rows that a policy hides are never published",
                    f'psql -c "ALTER TABLE {facts.schema}.outbox DISABLE ROW LEVEL SECURITY"')  # fmt: skip
    return ok("no row is hidden")


def autovacuum(facts: PostgresFacts) -> Verdict:
    """Dead rows are taken away."""
    if not facts.server.autovacuum:
        return fail("autovacuum, or track_counts, is off", "the hot table grows for ever, and everything gets slower",
                    'psql -c "ALTER SYSTEM SET autovacuum = on" -c "ALTER SYSTEM SET track_counts = on" '
                    '-c "SELECT pg_reload_conf()"')  # fmt: skip
    if facts.table is not None and facts.table.autovacuum_off:
        return fail("autovacuum is off for the outbox", "the hot table grows for ever, and everything gets slower",
                    f'psql -c "ALTER TABLE {facts.schema}.outbox RESET (autovacuum_enabled)"')  # fmt: skip
    return ok("autovacuum is on")


def bloat(facts: PostgresFacts) -> Verdict:
    """The hot table is as small as the work."""
    table = facts.table
    if table is None:
        return unknown("the tables are not there")
    found = f"rows: {table.live_rows} live and {table.dead_rows} dead, {table.bytes / 2**20:.1f} MiB"
    if table.dead_rows > max(limits.DEAD_ROWS, 2 * table.live_rows):
        return warn(found, "vacuum does not keep up: something holds an old snapshot, or vacuum is off",
                    f'psql -c "VACUUM (ANALYZE) {facts.schema}.outbox"')  # fmt: skip
    return ok(found)


def snapshots(facts: PostgresFacts) -> Verdict:
    """Nothing old keeps vacuum from its work."""
    oldest = max((each for each in facts.holding if each.kind == "transaction"), key=_age, default=None)
    if oldest is not None and oldest.age_s > limits.OLD_TRANSACTION_S:
        found = f"session {oldest.name} ({oldest.detail or 'no name'}) has a transaction open for {age(oldest.age_s)}"
        return warn(found, "vacuum takes nothing away that is younger; publishing goes on, slower",
                    f'psql -c "SELECT pg_terminate_backend({oldest.name})"')  # fmt: skip
    hidden = next((each for each in facts.holding if each.kind == "hidden"), None)
    if hidden is not None:
        return unknown(f"sessions that may not be looked into: {hidden.name}",
                       f'psql -c "GRANT pg_read_all_stats TO {facts.server.login}"')  # fmt: skip
    return ok(f"the oldest transaction is open for {age(oldest.age_s)}" if oldest else "no transaction is open")


def prepared(facts: PostgresFacts) -> Verdict:
    """No prepared transaction was forgotten."""
    found = max((each for each in facts.holding if each.kind == "prepared"), key=_age, default=None)
    if found is None or found.age_s <= limits.OLD_TRANSACTION_S:
        return ok("none that is old")
    return warn(f"transaction {found.name!r} was prepared {age(found.age_s)} ago",
                "it keeps vacuum from its work, and its jobs from running, over restarts too",
                f"psql -c \"ROLLBACK PREPARED '{found.name}'\", or COMMIT PREPARED")  # fmt: skip


def slots(facts: PostgresFacts) -> Verdict:
    """No replication slot holds back what nobody reads."""
    found = max((each for each in facts.holding if each.kind == "slot"), key=lambda each: each.bytes, default=None)
    if found is None:
        return ok("none that is unused")
    text = f"slot {found.name} ({found.detail}) has no reader, and holds {found.bytes / 2**20:.0f} MiB of WAL"
    verdict = fail if found.bytes > limits.WAL_BYTES else warn
    return verdict(text, "WAL is kept until the disk is full, and vacuum may be held up",
                   f"psql -c \"SELECT pg_drop_replication_slot('{found.name}')\"")  # fmt: skip


def clock(facts: PostgresFacts) -> Verdict:
    """Its clock and this machine's agree; due times travel as distances, so nothing starts early where they do not."""
    return clocks(facts.server.now_s - facts.host_now_s, "Postgres")


def clocks(distance_s: float, whose: str) -> Verdict:
    """What a distance between two clocks means."""
    found = f"{whose} is {abs(distance_s):.1f} s {'ahead of' if distance_s > 0 else 'behind'} this machine"
    if abs(distance_s) > limits.CLOCK_S:
        return warn(found, "jobs start in time all the same; a run_at that a producer computed by its clock, "
                    "and times in logs, do not fit", "chronyc makestep, on whichever of the two is wrong")  # fmt: skip
    return ok(f"within {limits.CLOCK_S:g} s of this machine")


def latency(facts: PostgresFacts) -> Verdict:
    """It is near."""
    found = f"connected in {facts.connect_s * 1000:.0f} ms"
    if facts.connect_s > 10 * limits.TOO_SLOW_S:
        return warn(found, "publishing and settling take round trips", "run the relay near Postgres")
    return ok(found)


def encryption(facts: PostgresFacts) -> Verdict:
    """Nobody between can read along."""
    if not facts.server.encrypted and is_far(facts.host):
        return warn(f"not encrypted, to {facts.host}", "passwords and jobs cross a public network in the clear",
                    "add sslmode=verify-full to REDISJOBS_DATABASE_URL")  # fmt: skip
    return ok("encrypted" if facts.server.encrypted else "not encrypted, on a private way")


def _age(each: Holding) -> float:
    return each.age_s


def _reset(facts: PostgresFacts, name: str, value: str) -> str:
    return f"psql -c \"ALTER ROLE {facts.server.login} SET {name} = '{value}'\""


Check: TypeAlias = Callable[[PostgresFacts], Verdict]

CHECKS: dict[str, Check] = {
    "postgres.version": version,
    "postgres.primary": primary,
    "postgres.schema": schema,
    "postgres.rights": rights,
    "postgres.read_only": read_only,
    "postgres.isolation": isolation,
    "postgres.timeouts": timeouts,
    "postgres.durability": durability,
    "postgres.connections": connections,
    "postgres.listen": listening,
    "postgres.trigger": trigger,
    "postgres.row_security": row_security,
    "postgres.autovacuum": autovacuum,
    "postgres.bloat": bloat,
    "postgres.snapshots": snapshots,
    "postgres.prepared": prepared,
    "postgres.slots": slots,
    "postgres.clock": clock,
    "postgres.latency": latency,
    "postgres.encryption": encryption,
}
