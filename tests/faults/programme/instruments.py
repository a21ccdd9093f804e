"""What a trial's database writes down itself: triggers beside redisjobs' own tables, in a schema of their own.

They are part of the transactions that they tell of, so what stands here has committed, and nothing else does.

    staged     every row that came into the outbox
    marked     every row that a relay marked as published, who did it, and who held the queue then
    ended      every row that came into `finished` or `dead`
    effects    what `paying` did in the transactions of its steps
"""

from __future__ import annotations

from typing import Any

import psycopg

TABLES = """
CREATE SCHEMA programme;
CREATE TABLE programme.staged (id uuid, job text, queue text, seq bigint, headers text, key text);
CREATE TABLE programme.marked (
    id uuid, queue text, number int, by text, holder text, token bigint, late interval, at timestamptz);
CREATE TABLE programme.ended (id uuid, state text, life int, owner uuid, result bytea, codec text, at timestamptz);
CREATE TABLE programme.effects (id uuid, what text);

CREATE FUNCTION programme.note_staged() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO programme.staged VALUES (NEW.id, NEW.job, NEW.queue, NEW.seq, NEW.headers::text, NEW.idempotency_key);
    RETURN NULL;
END $$;
CREATE TRIGGER programme AFTER INSERT ON redisjobs.outbox FOR EACH ROW EXECUTE FUNCTION programme.note_staged();

CREATE FUNCTION programme.note_marked() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO programme.marked
    SELECT NEW.id, NEW.queue, NEW.publications, session_user, q.holder, q.token,
           greatest(NEW.published_at - q.lease_until, '0'), clock_timestamp()
    FROM redisjobs.queues q WHERE q.queue = NEW.queue;
    RETURN NULL;
END $$;
CREATE TRIGGER programme_marks AFTER UPDATE ON redisjobs.outbox FOR EACH ROW
WHEN (OLD.state = 'staged' AND NEW.state = 'published') EXECUTE FUNCTION programme.note_marked();

CREATE FUNCTION programme.note_finished() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO programme.ended
    VALUES (NEW.id, NEW.state, NEW.redrives, NEW.duplicate_of, NEW.result, NEW.result_codec, clock_timestamp());
    RETURN NULL;
END $$;
CREATE TRIGGER programme AFTER INSERT ON redisjobs.finished FOR EACH ROW EXECUTE FUNCTION programme.note_finished();

CREATE FUNCTION programme.note_dead() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO programme.ended VALUES (NEW.id, 'dead', NEW.redrives, NULL, NULL, NULL, clock_timestamp());
    RETURN NULL;
END $$;
CREATE TRIGGER programme AFTER INSERT OR UPDATE ON redisjobs.dead FOR EACH ROW EXECUTE FUNCTION programme.note_dead();
"""


def install(conn: psycopg.Connection[Any]) -> None:
    """Put the instruments into a database that has redisjobs' tables."""
    conn.execute(TABLES.encode())
