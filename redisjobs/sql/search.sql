-- Statements that find jobs among millions. Each walks a bounded stretch of one index, from `before` (or `after`) to an
-- edge that was found first: so none of them reads a whole table, whatever the filters and the statistics are.
-- Ids that redisjobs makes begin with their time (UUID version 7), so that their order is that of staging.

-- name: now
-- the moment that ages are counted from, for a whole command
SELECT clock_timestamp();

-- name: plans
-- tables that were never analyzed must not turn a stretch into a scan
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off;

-- name: edge_live
-- the last id of a stretch of live jobs; none: it reaches the end
SELECT id FROM redisjobs.outbox WHERE id < %(before)s::uuid ORDER BY id DESC OFFSET %(stretch)s::bigint - 1 LIMIT 1;

-- name: live
-- live jobs of a stretch that fit, the youngest first
SELECT id FROM redisjobs.outbox
WHERE id < %(before)s::uuid AND id >= %(edge)s::uuid
  AND (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(job)s::text IS NULL OR job = %(job)s)
  AND (%(tenant)s::text IS NULL OR tenant_id = %(tenant)s) AND (%(key)s::text IS NULL OR idempotency_key = %(key)s)
  AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s))
  AND (%(older)s::timestamptz IS NULL OR staged_at < %(older)s) AND (%(newer)s::timestamptz IS NULL OR staged_at >= %(newer)s)
  AND (%(error)s::text IS NULL OR strpos(lower(last_error), lower(%(error)s)) > 0)
  AND (%(flagged)s OR NOT cancel_requested)
ORDER BY id DESC
LIMIT %(limit)s;

-- name: edge_finished
-- the last id of a stretch of finished jobs; none: it reaches the end
SELECT id FROM redisjobs.finished WHERE id < %(before)s::uuid ORDER BY id DESC OFFSET %(stretch)s::bigint - 1 LIMIT 1;

-- name: finished
-- finished jobs of a stretch that fit, the youngest first
SELECT id FROM redisjobs.finished
WHERE id < %(before)s::uuid AND id >= %(edge)s::uuid
  AND (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(job)s::text IS NULL OR job = %(job)s)
  AND (%(tenant)s::text IS NULL OR tenant_id = %(tenant)s) AND (%(key)s::text IS NULL OR idempotency_key = %(key)s)
  AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s))
  AND (%(older)s::timestamptz IS NULL OR staged_at < %(older)s) AND (%(newer)s::timestamptz IS NULL OR staged_at >= %(newer)s)
  AND (%(error)s::text IS NULL OR (state <> 'done' AND strpos(lower(last_error), lower(%(error)s)) > 0))
ORDER BY id DESC
LIMIT %(limit)s;

-- name: edge_dead
-- the last id of a stretch of dead letters; none: it reaches the end
SELECT id FROM redisjobs.dead WHERE id < %(before)s::uuid ORDER BY id DESC OFFSET %(stretch)s::bigint - 1 LIMIT 1;

-- name: dead
-- dead letters of a stretch that fit, by their ids, for lists in which they stand beside other jobs
SELECT id FROM redisjobs.dead
WHERE id < %(before)s::uuid AND id >= %(edge)s::uuid
  AND (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(job)s::text IS NULL OR job = %(job)s)
  AND (%(tenant)s::text IS NULL OR tenant_id = %(tenant)s) AND (%(key)s::text IS NULL OR idempotency_key = %(key)s)
  AND (%(older)s::timestamptz IS NULL OR coalesce(staged_at, died_at) < %(older)s)
  AND (%(newer)s::timestamptz IS NULL OR coalesce(staged_at, died_at) >= %(newer)s)
  AND (%(error)s::text IS NULL OR strpos(lower(concat_ws(' ', reason, concat_ws(': ', failures -> -1 ->> 'type',
       failures -> -1 ->> 'message'))), lower(%(error)s)) > 0)
ORDER BY id DESC
LIMIT %(limit)s;

-- name: lines
-- what a list shows of these jobs, wherever they stand; what an attempt before the successful one raised is no error
SELECT id, job, queue, state, attempts, tenant_id, staged_at, NULL::timestamptz AS ended_at, last_error AS error,
       NULL::text AS earlier_error
FROM redisjobs.outbox WHERE id = ANY (%(ids)s::uuid[])
UNION ALL
SELECT id, job, queue, 'dead', attempts, tenant_id, staged_at, died_at, reason, NULL
FROM redisjobs.dead WHERE id = ANY (%(ids)s::uuid[])
UNION ALL
SELECT id, job, queue, state, attempts, tenant_id, staged_at, finished_at, CASE WHEN state <> 'done' THEN last_error END,
       CASE WHEN state = 'done' THEN last_error END
FROM redisjobs.finished WHERE id = ANY (%(ids)s::uuid[]);

-- name: fitting
-- which of these live jobs fit; Redis has named them
SELECT id FROM redisjobs.outbox
WHERE id = ANY (%(ids)s::uuid[])
  AND (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(job)s::text IS NULL OR job = %(job)s)
  AND (%(tenant)s::text IS NULL OR tenant_id = %(tenant)s) AND (%(key)s::text IS NULL OR idempotency_key = %(key)s)
  AND (%(older)s::timestamptz IS NULL OR staged_at < %(older)s) AND (%(newer)s::timestamptz IS NULL OR staged_at >= %(newer)s)
  AND (%(error)s::text IS NULL OR strpos(lower(last_error), lower(%(error)s)) > 0)
  AND (%(flagged)s OR NOT cancel_requested);

-- name: edge_deaths
-- the last death of a stretch; none: it reaches the end
SELECT died_at, id FROM redisjobs.dead
WHERE (died_at, id) > (%(after)s::timestamptz, %(after_id)s::uuid) AND died_at < %(until)s::timestamptz
ORDER BY died_at, id
OFFSET %(stretch)s::bigint - 1 LIMIT 1;

-- name: deaths
-- dead letters of a stretch that fit, in the order in which they died
SELECT died_at, id FROM redisjobs.dead
WHERE (died_at, id) > (%(after)s::timestamptz, %(after_id)s::uuid)
  AND (died_at, id) <= (%(edge)s::timestamptz, %(edge_id)s::uuid) AND died_at < %(until)s::timestamptz
  AND (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(job)s::text IS NULL OR job = %(job)s)
  AND (%(tenant)s::text IS NULL OR tenant_id = %(tenant)s) AND (%(key)s::text IS NULL OR idempotency_key = %(key)s)
  AND (%(older)s::timestamptz IS NULL OR died_at < %(older)s) AND (%(newer)s::timestamptz IS NULL OR died_at >= %(newer)s)
  AND (%(error)s::text IS NULL OR strpos(lower(concat_ws(' ', reason, concat_ws(': ', failures -> -1 ->> 'type',
       failures -> -1 ->> 'message'))), lower(%(error)s)) > 0)
ORDER BY died_at, id
LIMIT %(limit)s;

-- name: edge_youngest_deaths
-- as `edge_deaths`, from the youngest on
SELECT died_at, id FROM redisjobs.dead
WHERE (died_at, id) < (%(before)s::timestamptz, %(before_id)s::uuid)
ORDER BY died_at DESC, id DESC
OFFSET %(stretch)s::bigint - 1 LIMIT 1;

-- name: youngest_deaths
-- dead letters of a stretch that fit, the youngest first; `failure` is the last attempt's
SELECT id, job, queue, attempts, redrives, tenant_id, staged_at, died_at, reason, failures -> -1 AS failure
FROM redisjobs.dead
WHERE (died_at, id) < (%(before)s::timestamptz, %(before_id)s::uuid)
  AND (died_at, id) >= (%(edge)s::timestamptz, %(edge_id)s::uuid)
  AND (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(job)s::text IS NULL OR job = %(job)s)
  AND (%(tenant)s::text IS NULL OR tenant_id = %(tenant)s) AND (%(key)s::text IS NULL OR idempotency_key = %(key)s)
  AND (%(older)s::timestamptz IS NULL OR died_at < %(older)s) AND (%(newer)s::timestamptz IS NULL OR died_at >= %(newer)s)
  AND (%(error)s::text IS NULL OR strpos(lower(concat_ws(' ', reason, concat_ws(': ', failures -> -1 ->> 'type',
       failures -> -1 ->> 'message'))), lower(%(error)s)) > 0)
ORDER BY died_at DESC, id DESC
LIMIT %(limit)s;

-- name: death
-- when a dead letter died, to go on behind it
SELECT died_at FROM redisjobs.dead WHERE id = %(id)s::uuid;

-- name: fates
-- what became of jobs that were redriven: dead again, failing (an attempt failed, and it is tried again), or under way;
-- what is not told has ended otherwise
SELECT id, 'dead' FROM redisjobs.dead WHERE id = ANY (%(ids)s::uuid[])
UNION ALL
SELECT id, CASE WHEN state = 'retrying' OR attempts > 0 THEN 'failing' ELSE 'under way' END
FROM redisjobs.outbox WHERE id = ANY (%(ids)s::uuid[]);
