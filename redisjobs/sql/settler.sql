-- name: settle
-- one outcome a job: what ended leaves the outbox, to finished or to dead; what comes back notes when and why.
-- Outcomes of a former life (another count of redrives) find no row and change nothing. An id that was used once more
-- has one dead letter, that of its last death.
WITH told AS (
    SELECT * FROM unnest(%(ids)s::uuid[], %(lives)s::integer[], %(words)s::text[], %(numbers)s::integer[], %(attempts)s::integer[],
                         %(delays)s::float8[], %(errors)s::text[], %(failures)s::jsonb[], %(keeps)s::float8[],
                         %(results)s::bytea[], %(codecs)s::text[])
        AS t(id, life, word, number, attempts, delay, error, failures, keep, result, result_codec)),
gone AS (
    DELETE FROM redisjobs.outbox o USING told t
    WHERE o.id = t.id AND o.redrives = t.life AND t.word IN ('done', 'dead', 'cancelled', 'expired')
    RETURNING o.*, t.word, t.attempts AS now_attempts, t.number, t.error, t.failures AS new_failures, t.keep, t.result, t.result_codec),
died AS (
    INSERT INTO redisjobs.dead (id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
                                run_at, expires_at, tenant_id, traceparent, enqueued_by, headers, staged_at,
                                publications, redrives, attempts, reason, failures, fence)
    SELECT id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
           run_at, expires_at, tenant_id, traceparent, enqueued_by, headers, staged_at,
           greatest(publications, number), redrives, greatest(attempts, now_attempts), coalesce(error, 'unknown'),
           CASE WHEN new_failures IS NULL THEN failures
                ELSE jsonb_path_query_array(coalesce(failures, '[]') || new_failures, '$[last - 29 to last]') END, fence
    FROM gone WHERE word = 'dead'
    ON CONFLICT (id) DO UPDATE SET
        (job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts, run_at, expires_at, tenant_id,
         traceparent, enqueued_by, headers, staged_at, publications, redrives, attempts, reason, failures, fence, died_at)
        = ROW (excluded.job, excluded.queue, excluded.input, excluded.payload, excluded.codec, excluded.idempotency_key,
               excluded.key_window, excluded.priority, excluded.max_attempts, excluded.run_at, excluded.expires_at,
               excluded.tenant_id, excluded.traceparent, excluded.enqueued_by, excluded.headers, excluded.staged_at,
               excluded.publications, excluded.redrives, excluded.attempts, excluded.reason, excluded.failures,
               excluded.fence, excluded.died_at)),
kept AS (
    INSERT INTO redisjobs.finished (id, job, queue, state, attempts, redrives, tenant_id, staged_at, keep_until,
                                    idempotency_key, key_until, last_error, result, result_codec)
    SELECT id, job, queue, word, greatest(attempts, now_attempts), redrives, tenant_id, staged_at,
           clock_timestamp() + greatest(make_interval(secs => greatest(%(retention)s, keep)), key_window),
           idempotency_key, clock_timestamp() + key_window, coalesce(error, last_error), result, result_codec
    FROM gone WHERE word <> 'dead' AND (%(retention)s > 0 OR keep > 0 OR key_window IS NOT NULL)),
back AS (
    UPDATE redisjobs.outbox o
    SET state = CASE t.word WHEN 'retry' THEN 'retrying' WHEN 'snooze' THEN 'snoozed' ELSE t.word END,
        attempts = greatest(o.attempts, t.attempts),
        publications = greatest(o.publications, t.number),
        run_at = CASE WHEN t.word = 'suspended' THEN o.run_at ELSE clock_timestamp() + make_interval(secs => t.delay) END,
        last_error = coalesce(t.error, o.last_error),
        failures = CASE WHEN t.failures IS NULL THEN o.failures
                        ELSE jsonb_path_query_array(coalesce(o.failures, '[]') || t.failures, '$[last - 29 to last]') END
    FROM told t
    WHERE o.id = t.id AND o.redrives = t.life AND t.word IN ('retry', 'snooze', 'suspended', 'parked'))
SELECT count(*) FROM gone;

-- name: settle_done
-- the short way for what simply succeeded
WITH told AS (SELECT * FROM unnest(%(ids)s::uuid[], %(lives)s::integer[], %(attempts)s::integer[]) AS t(id, life, attempts)),
gone AS (
    DELETE FROM redisjobs.outbox o USING told t WHERE o.id = t.id AND o.redrives = t.life
    RETURNING o.id, o.job, o.queue, o.redrives, o.tenant_id, o.staged_at, o.idempotency_key, o.key_window, o.last_error,
              greatest(o.attempts, t.attempts) AS attempts)
INSERT INTO redisjobs.finished (id, job, queue, state, attempts, redrives, tenant_id, staged_at, keep_until,
                                idempotency_key, key_until, last_error)
SELECT id, job, queue, 'done', attempts, redrives, tenant_id, staged_at,
       clock_timestamp() + greatest(make_interval(secs => %(retention)s), key_window),
       idempotency_key, clock_timestamp() + key_window, last_error
FROM gone WHERE %(retention)s > 0 OR key_window IS NOT NULL;

-- name: bury_direct
-- a dead letter of a job that never had a row; one that was redriven meanwhile has one, and a later end
INSERT INTO redisjobs.dead (id, job, queue, payload, codec, idempotency_key, key_window, priority, max_attempts, tenant_id,
                            traceparent, enqueued_by, headers, attempts, reason, failures)
SELECT %(id)s::uuid, %(job)s::text, %(queue)s::text, %(payload)s::bytea, %(codec)s::text, %(idempotency_key)s::text,
       make_interval(secs => %(key_window)s::float8), %(priority)s::smallint, %(max_attempts)s::integer, %(tenant_id)s::text,
       %(traceparent)s::text, %(enqueued_by)s::text, %(headers)s::json, %(attempts)s::integer, %(reason)s::text, %(failures)s::jsonb
WHERE NOT EXISTS (SELECT FROM redisjobs.outbox o WHERE o.id = %(id)s::uuid)
  AND NOT EXISTS (SELECT FROM redisjobs.finished f WHERE f.id = %(id)s::uuid)
ON CONFLICT (id) DO NOTHING;

-- name: make_room
-- the partition of finished that rows kept so many seconds from now go to
SELECT redisjobs.make_room(clock_timestamp() + make_interval(secs => %(ahead)s));

-- name: drop_finished
-- partitions whose retention is over
SELECT redisjobs.drop_finished();
