-- Statements behind the command line. None of them shows a job's arguments but `arguments`.

-- name: server
-- which Postgres this is
SELECT current_setting('server_version'), pg_is_in_recovery();

-- name: queues
-- a line a queue: its holder, and its jobs by state, each with the age of the oldest in seconds
WITH live AS (
    SELECT queue, state, count(*) AS n, min(staged_at) AS oldest FROM redisjobs.outbox GROUP BY queue, state),
dead AS (SELECT queue, count(*) AS n FROM redisjobs.dead GROUP BY queue),
finished AS (SELECT queue, count(*) AS n FROM redisjobs.finished GROUP BY queue),
named AS (
    SELECT queue FROM redisjobs.queues UNION SELECT queue FROM live UNION SELECT queue FROM dead
    UNION SELECT queue FROM finished)
SELECT n.queue, q.holder, q.token, coalesce(q.paused, false) AS paused, q.failing, q.epoch,
       CASE WHEN q.holder IS NOT NULL AND isfinite(q.lease_until)
            THEN date_part('epoch', q.lease_until - now()) END AS lease_left_s,
       coalesce((SELECT jsonb_object_agg(l.state, l.n) FROM live l WHERE l.queue = n.queue), '{}') AS states,
       (SELECT date_part('epoch', now() - min(l.oldest)) FROM live l WHERE l.queue = n.queue) AS oldest_s,
       (SELECT date_part('epoch', now() - l.oldest) FROM live l
        WHERE l.queue = n.queue AND l.state = 'staged') AS oldest_staged_s,
       coalesce(d.n, 0) AS dead, coalesce(f.n, 0) AS finished
FROM named n
LEFT JOIN redisjobs.queues q ON q.queue = n.queue
LEFT JOIN dead d ON d.queue = n.queue
LEFT JOIN finished f ON f.queue = n.queue
ORDER BY n.queue;

-- name: job
-- all that Postgres knows of one job but its arguments; a job stands in one place, its last end first
SELECT id, job, queue, state, priority, attempts, max_attempts, publications, redrives, tenant_id, idempotency_key,
       enqueued_by, traceparent, cancel_requested, staged_at, published_at, run_at, expires_at,
       NULL::timestamptz AS ended_at, NULL::uuid AS duplicate_of, last_error AS error, failures
FROM redisjobs.outbox WHERE id = %(id)s
UNION ALL
SELECT id, job, queue, 'dead', priority, attempts, max_attempts, publications, redrives, tenant_id, idempotency_key,
       enqueued_by, traceparent, false, staged_at, NULL, run_at, expires_at, died_at, NULL, reason, failures
FROM redisjobs.dead WHERE id = %(id)s
UNION ALL
SELECT id, job, queue, state, NULL, attempts, NULL, NULL, redrives, tenant_id, idempotency_key,
       NULL, NULL, false, staged_at, NULL, NULL, NULL, finished_at, duplicate_of, last_error, NULL
FROM redisjobs.finished WHERE id = %(id)s
ORDER BY ended_at DESC NULLS FIRST
LIMIT 1;

-- name: cancel
-- flags rows for their end; a word each
SELECT i.id, redisjobs.cancel(i.id) FROM unnest(%(ids)s::uuid[]) AS i(id);

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
-- dead letters leave for good
WITH gone AS (
    DELETE FROM redisjobs.dead WHERE id = ANY (%(ids)s::uuid[]) AND died_at < coalesce(%(until)s::timestamptz, 'infinity')
    RETURNING 1)
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
