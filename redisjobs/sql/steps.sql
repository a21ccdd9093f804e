-- Statements of durable runs. Those of attempts take lists, so that many runs share a commit; each shows its token, and `place` in an
-- answer says which of them it is for. A run whose row somebody else has locked is never waited for (busy): a transaction of a user
-- that cancels one job and stays open must not hold up all the others. Locks are taken in this order: outbox rows by id, records, events.

-- name: claim
-- runs become these attempts'; all their records
SELECT * FROM redisjobs.claim_runs(%(runs)s::uuid[], %(lives)s::integer[], %(numbers)s::integer[], %(starts)s::integer[], %(holders)s::text[]);

-- name: ended
-- how a job of this life has ended, where it has no row any more
SELECT state FROM redisjobs.finished WHERE id = %(run)s::uuid AND redrives = %(life)s ORDER BY finished_at DESC LIMIT 1;

-- name: put
-- records are written, and what an undo has undone is forgotten; answers those that were not: busy or refused. A function, for its
-- plan is kept: to plan it takes much longer than to run it
SELECT * FROM redisjobs.write_steps(
    %(runs)s::uuid[], %(lives)s::integer[], %(numbers)s::integer[], %(starts)s::integer[], %(holders)s::text[], %(names)s::text[],
    %(kinds)s::text[], %(states)s::text[], %(tries)s::integer[], %(dues)s::timestamptz[], %(dues_in)s::float8[], %(awaited)s::boolean[],
    %(children)s::uuid[], %(undos)s::boolean[], %(codecs)s::text[], %(values)b::bytea[], %(details)s::jsonb[], %(took)s::float8[],
    %(undone)s::text[]);

-- name: call
-- records of children, each with the child's own row. A child is staged where its record took it, so a repeat stages none.
-- Answers as put.
WITH given AS (
    SELECT * FROM unnest(%(runs)s::uuid[], %(lives)s::integer[], %(numbers)s::integer[], %(starts)s::integer[], %(holders)s::text[],
                         %(names)s::text[], %(tries)s::integer[], %(awaited)s::boolean[], %(id)s::uuid[])
        WITH ORDINALITY AS g(run, life, number, start, holder, name, tries, awaited, child, place)),
held AS MATERIALIZED (
    SELECT o.id, o.redrives, o.fence, o.holder FROM redisjobs.outbox o WHERE o.id = ANY (%(runs)s::uuid[])
    ORDER BY o.id FOR SHARE SKIP LOCKED),
ours AS MATERIALIZED (
    SELECT g.* FROM given g JOIN held h ON h.id = g.run
    WHERE h.redrives = g.life AND h.fence = ARRAY[g.number, g.start]::bigint[] AND h.holder = g.holder),
called AS (
    INSERT INTO redisjobs.steps AS s (run, name, kind, state, tries, awaited, child)
    SELECT run, name, 'child', 'waiting', tries, awaited, child FROM ours ORDER BY place
    ON CONFLICT (run, name) DO UPDATE
    SET kind = 'child', state = 'waiting', tries = excluded.tries, due = NULL, awaited = excluded.awaited, event = NULL, key = NULL,
        child = excluded.child, codec = NULL, value = NULL, detail = NULL, ended_at = NULL
    WHERE s.state <> 'done' AND s.child IS DISTINCT FROM excluded.child
    RETURNING s.run, s.child),
staged AS (
    INSERT INTO redisjobs.outbox (id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
                                  run_at, expires_at, tenant_id, traceparent, enqueued_by, headers, version, parent, lane,
                                  share_key, key_policy, key_wait, key_longest)
    SELECT c.id, c.job, c.queue, c.input::json, c.payload, c.codec,
           c.idempotency_key, make_interval(secs => c.key_window), c.priority, c.max_attempts,
           coalesce(c.run_at, clock_timestamp() + make_interval(secs => c.delay)),
           coalesce(c.expires_at, clock_timestamp() + make_interval(secs => c.expires_in)),
           c.tenant_id, c.traceparent, c.enqueued_by, c.headers::json, c.version, p.run, c.lane, c.share_key,
           c.key_policy, make_interval(secs => c.key_wait), make_interval(secs => c.key_longest)
    FROM unnest(%(id)s::uuid[], %(job)s::text[], %(queue)s::text[], %(input)s::text[], %(payload)b::bytea[], %(codec)s::text[],
                %(idempotency_key)s::text[], %(key_window)s::float8[], %(priority)s::smallint[], %(max_attempts)s::integer[],
                %(run_at)s::timestamptz[], %(delay)s::float8[], %(expires_at)s::timestamptz[], %(expires_in)s::float8[],
                %(tenant_id)s::text[], %(traceparent)s::text[], %(enqueued_by)s::text[], %(headers)s::text[],
                %(version)s::text[], %(lane)s::text[], %(share_key)s::text[], %(key_policy)s::text[],
                %(key_wait)s::float8[], %(key_longest)s::float8[])
         WITH ORDINALITY AS c(id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
                              run_at, delay, expires_at, expires_in, tenant_id, traceparent, enqueued_by, headers, version,
                              lane, share_key, key_policy, key_wait, key_longest, place)
         JOIN called p ON p.child = c.id
    ORDER BY c.place)
SELECT g.place::integer, CASE WHEN s.id IS NULL THEN 'refused' ELSE 'busy' END
FROM given g LEFT JOIN redisjobs.outbox s
     ON s.id = g.run AND s.redrives = g.life AND s.fence = ARRAY[g.number, g.start]::bigint[] AND s.holder = g.holder
     AND s.id NOT IN (SELECT id FROM held)
WHERE g.place NOT IN (SELECT place FROM ours);

-- name: wait
-- runs wait for events: each wait is recorded, or looked at again, and takes what is there
SELECT g.place::integer, w.*
FROM (SELECT * FROM unnest(%(runs)s::uuid[], %(lives)s::integer[], %(numbers)s::integer[], %(starts)s::integer[], %(holders)s::text[],
                           %(names)s::text[], %(events)s::text[], %(keys)s::text[], %(dues_in)s::float8[])
          WITH ORDINALITY AS u(run, life, number, start, holder, name, event, key, due_in, place) ORDER BY run) AS g
     CROSS JOIN LATERAL redisjobs.wait_for_event(g.run, g.life, g.number, g.start, g.holder, g.name, g.event, g.key, g.due_in) AS w;

-- name: begin_ending
-- from now on only the undos of a run are run; answers whether the token stands. The same again changes nothing
UPDATE redisjobs.outbox SET ending = coalesce(ending, %(ending)s::jsonb)
WHERE id = %(run)s::uuid AND redrives = %(life)s AND fence = ARRAY[%(number)s, %(start)s]::bigint[] AND holder = %(holder)s
RETURNING true;

-- name: hold
-- before the record of a user's own transaction: its row is waited for here, and a process that stands still from now
-- on loses its session, and with it the lock, so that another attempt can go on
SELECT set_config('lock_timeout', '10s', true), set_config('idle_in_transaction_session_timeout', '5s', true);

-- name: lock
-- the row of a run, however long somebody else has it
SELECT true FROM redisjobs.outbox WHERE id = %(run)s::uuid FOR SHARE;

-- name: end_done
-- a transactional job ends in the transaction of its own effects, as settle would end it; answers its id, and its parent
WITH gone AS (
    DELETE FROM redisjobs.outbox
    WHERE id = %(run)s::uuid AND redrives = %(life)s AND fence = ARRAY[%(number)s, %(start)s]::bigint[] AND holder = %(holder)s
    RETURNING *),
cleared AS (DELETE FROM redisjobs.steps s USING gone g WHERE s.run = g.id),
kept AS (
    INSERT INTO redisjobs.finished (id, job, queue, state, attempts, redrives, tenant_id, staged_at, keep_until,
                                    idempotency_key, key_until, last_error, result, result_codec)
    SELECT id, job, queue, 'done', greatest(attempts, %(attempts)s), redrives, tenant_id, staged_at,
           clock_timestamp() + greatest(make_interval(secs => %(keep)s::float8), key_window),
           idempotency_key, CASE WHEN key_policy = 'throttle' THEN key_since ELSE clock_timestamp() END + key_window, last_error, %(value)b::bytea, %(codec)s::text
    FROM gone)
SELECT id, parent FROM gone;

-- name: tell_parent
-- the parent of a transactional job hears of its end, in the same transaction
SELECT redisjobs.tell_parents(ARRAY[%(child)s::uuid], ARRAY['done'], ARRAY[%(codec)s::text], ARRAY[%(value)b::bytea], ARRAY[NULL::jsonb]);

-- name: get
-- one record
SELECT run, name, seq, kind, state, tries, date_part('epoch', due - clock_timestamp()), awaited, event, key, child, undo,
       codec, value, detail, started_at, ended_at
FROM redisjobs.steps WHERE run = %(run)s::uuid AND name = %(name)s::text;

-- name: list
-- all records of a run, in the order of their beginning
SELECT run, name, seq, kind, state, tries, date_part('epoch', due - clock_timestamp()), awaited, event, key, child, undo,
       codec, value, detail, started_at, ended_at
FROM redisjobs.steps WHERE run = %(run)s::uuid ORDER BY seq;

-- name: delete
-- one record, by an operator's hand
DELETE FROM redisjobs.steps WHERE run = %(run)s::uuid AND name = %(name)s::text RETURNING true;

-- name: clear
-- all records of a run, by an operator's hand
DELETE FROM redisjobs.steps WHERE run = %(run)s::uuid RETURNING true;
