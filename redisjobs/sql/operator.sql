-- Statements behind the command line. None of them shows a job's arguments but `arguments`.

-- name: server
-- which Postgres this is
SELECT current_setting('server_version'), pg_is_in_recovery();

-- name: queues
-- a line a queue: its holder, and its jobs by state, each with the age of the oldest in seconds; what has ended is counted
-- only while reading all of it costs little
WITH live AS (
    SELECT queue, state, count(*) AS n, min(staged_at) AS oldest FROM redisjobs.outbox GROUP BY queue, state),
dead AS (SELECT queue, count(*) AS n, min(died_at) AS oldest FROM redisjobs.dead GROUP BY queue),
small AS MATERIALIZED (
    SELECT coalesce(sum(pg_relation_size(inhrelid)), 0) <= %(most_bytes)s AS it FROM pg_inherits
    WHERE inhparent = 'redisjobs.finished'::regclass),
finished AS (SELECT queue, count(*) AS n FROM redisjobs.finished WHERE (SELECT it FROM small) GROUP BY queue),
named AS (
    SELECT queue FROM redisjobs.queues UNION SELECT queue FROM live UNION SELECT queue FROM dead
    UNION SELECT queue FROM finished)
SELECT n.queue, q.holder, q.token, coalesce(q.paused, false) AS paused, q.failing, q.epoch, q.share_by,
       coalesce(q.shares, '{}')::text AS shares,
       CASE WHEN q.holder IS NOT NULL AND isfinite(q.lease_until)
            THEN date_part('epoch', q.lease_until - now()) END AS lease_left_s,
       coalesce((SELECT jsonb_object_agg(l.state, l.n) FROM live l WHERE l.queue = n.queue), '{}') AS states,
       (SELECT date_part('epoch', now() - min(l.oldest)) FROM live l WHERE l.queue = n.queue) AS oldest_s,
       (SELECT date_part('epoch', now() - l.oldest) FROM live l
        WHERE l.queue = n.queue AND l.state = 'staged') AS oldest_staged_s,
       (SELECT date_part('epoch', now() - l.oldest) FROM live l
        WHERE l.queue = n.queue AND l.state = 'parked') AS oldest_parked_s,
       date_part('epoch', now() - d.oldest) AS oldest_dead_s,
       coalesce(d.n, 0) AS dead, CASE WHEN (SELECT it FROM small) THEN coalesce(f.n, 0) END AS finished
FROM named n
LEFT JOIN redisjobs.queues q ON q.queue = n.queue
LEFT JOIN dead d ON d.queue = n.queue
LEFT JOIN finished f ON f.queue = n.queue
ORDER BY n.queue;

-- name: job
-- all that Postgres knows of one job but its arguments; a job stands in one place, its last end first
SELECT id, job, queue, state, priority, attempts, max_attempts, publications, redrives, tenant_id, idempotency_key,
       enqueued_by, traceparent, cancel_requested, staged_at, published_at, run_at, expires_at,
       NULL::timestamptz AS ended_at, NULL::uuid AS duplicate_of, last_error AS error, NULL::text AS earlier_error, failures
FROM redisjobs.outbox WHERE id = %(id)s
UNION ALL
SELECT id, job, queue, 'dead', priority, attempts, max_attempts, publications, redrives, tenant_id, idempotency_key,
       enqueued_by, traceparent, false, staged_at, NULL, run_at, expires_at, died_at, NULL, reason, NULL, failures
FROM redisjobs.dead WHERE id = %(id)s
UNION ALL
SELECT id, job, queue, state, NULL, attempts, NULL, NULL, redrives, tenant_id, idempotency_key,
       NULL, NULL, false, staged_at, NULL, NULL, NULL, finished_at, duplicate_of,
       CASE WHEN state <> 'done' THEN last_error END, CASE WHEN state = 'done' THEN last_error END, NULL
FROM redisjobs.finished WHERE id = %(id)s
ORDER BY ended_at DESC NULLS FIRST
LIMIT 1;

-- name: cancel
-- flags rows for their end; a word each
SELECT i.id, redisjobs.cancel(i.id) FROM unnest(%(ids)s::uuid[]) AS i(id);

-- name: reprioritize
-- another priority for jobs that wait; a word each
SELECT i.id, redisjobs.reprioritize(i.id, %(priority)s::integer) FROM unnest(%(ids)s::uuid[]) AS i(id);

-- name: reschedule
-- another time for jobs that wait: a moment, or a distance from now; a word each
SELECT i.id, redisjobs.reschedule(i.id, %(run_at)s::timestamptz, make_interval(secs => %(delay)s::float8))
FROM unnest(%(ids)s::uuid[]) AS i(id);

-- name: dead_among
-- which of these are dead letters
SELECT id FROM redisjobs.dead WHERE id = ANY (%(ids)s::uuid[]);

-- name: turn
-- operators who change many dead letters take turns: each locks rows in an order of its own
SELECT pg_advisory_xact_lock(hashtextextended('redisjobs.dead', 0));

-- name: redrive
-- a new life for dead letters: the same ids and arguments, fresh attempts; not for those that have died again meanwhile
SELECT redisjobs.redrive(ARRAY(
    SELECT id FROM redisjobs.dead WHERE id = ANY (%(ids)s::uuid[]) AND died_at < coalesce(%(until)s::timestamptz, 'infinity')));

-- name: purge
-- dead letters leave for good, and the records of runs with them, unless the id lives on as another job
WITH gone AS (
    DELETE FROM redisjobs.dead WHERE id = ANY (%(ids)s::uuid[]) AND died_at < coalesce(%(until)s::timestamptz, 'infinity')
    RETURNING id, fence),
cleared AS (
    DELETE FROM redisjobs.steps s USING gone g
    WHERE g.fence IS NOT NULL AND s.run = g.id AND NOT EXISTS (SELECT FROM redisjobs.outbox o WHERE o.id = g.id))
SELECT count(*) FROM gone;

-- name: arguments
-- what a dead letter was called with
SELECT input::text, payload, codec FROM redisjobs.dead WHERE id = %(id)s;

-- name: set_aside_rows
-- rows that an operator took out of the line
SELECT id, job, queue, staged_at, date_part('epoch', clock_timestamp() - staged_at) AS age_s
FROM redisjobs.outbox WHERE state = 'set_aside' ORDER BY staged_at LIMIT %(limit)s;

-- name: move
-- rows out of the line, or back to its end
SELECT redisjobs.set_aside(%(ids)s::uuid[], %(aside)s);

-- name: states
-- where rows of the outbox stand
SELECT id, state FROM redisjobs.outbox WHERE id = ANY (%(ids)s::uuid[]);

-- name: pause
-- stops or goes on with the starting of a queue's jobs
SELECT redisjobs.pause(%(queue)s, %(paused)s);

-- name: share_by
-- by what jobs of a queue without a share key are taken in turn
SELECT redisjobs.share_by(%(queue)s, %(key)s::text);

-- name: set_share
-- the weight or the pause of a share
SELECT redisjobs.set_share(%(queue)s, %(share)s, %(weight)s::numeric, %(paused)s::boolean);

-- name: send_event
-- an event with data that are JSON text already; its id
INSERT INTO redisjobs.events (name, key, input, expires_at)
VALUES (%(name)s, %(key)s, %(input)s::json, clock_timestamp() + make_interval(secs => %(expires_in)s::float8))
RETURNING id;

-- name: events
-- the youngest events, without what is in them
SELECT id, name, key, sent_at, date_part('epoch', clock_timestamp() - sent_at) AS age_s,
       date_part('epoch', expires_at - clock_timestamp()) AS expires_in_s, taken_at, run, step
FROM redisjobs.events
WHERE (%(name)s::text IS NULL OR name = %(name)s) AND (%(key)s::text IS NULL OR key = %(key)s)
  AND NOT (%(free)s AND (taken_at IS NOT NULL OR expires_at <= clock_timestamp()))
ORDER BY id DESC LIMIT %(limit)s;
