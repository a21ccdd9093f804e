-- name: settle
-- one outcome a job: what ended leaves the outbox, to finished or to dead; what comes back notes when and why.
-- Outcomes of a former life (another count of redrives), or of a publication that has settled, find no row and change
-- nothing. An id that was used once more has one dead letter, that of its last death.
-- A run with undos that is to end otherwise than done, and whose undos have not run, is published once more for them; one
-- that dies on the way ends. Answers the runs and children among what ended, and those that are published for their undos.
WITH told AS (
    SELECT * FROM unnest(%(ids)s::uuid[], %(lives)s::integer[], %(words)s::text[], %(numbers)s::integer[], %(attempts)s::integer[],
                         %(delays)s::float8[], %(errors)s::text[], %(failures)s::jsonb[], %(keeps)s::float8[],
                         %(results)s::bytea[], %(codecs)s::text[], %(undones)s::boolean[], %(owners)s::uuid[])
        AS t(id, life, word, number, attempts, delay, error, failures, keep, result, result_codec, undone, owner)),
gone AS (
    DELETE FROM redisjobs.outbox o USING told t
    WHERE o.id = t.id AND o.redrives = t.life AND o.settled < t.number AND t.word IN ('done', 'dead', 'cancelled', 'expired', 'deduplicated')
      AND (t.word = 'done' OR t.undone OR NOT o.undo OR t.word = 'dead' AND o.ending IS NOT NULL)
    RETURNING o.*, t.word, greatest(t.attempts, (o.ending ->> 'attempts')::integer) AS now_attempts, t.number,
              coalesce(t.error, o.ending ->> 'reason') AS error, coalesce(t.failures, o.ending -> 'failures') AS new_failures,
              t.keep, t.result, t.result_codec, t.owner),
died AS (
    INSERT INTO redisjobs.dead (id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
                                run_at, expires_at, tenant_id, traceparent, enqueued_by, headers, staged_at,
                                publications, redrives, attempts, reason, failures, fence, version, ending, lane, share_key,
                                key_policy, key_wait, key_longest, key_since)
    SELECT id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
           run_at, expires_at, tenant_id, traceparent, enqueued_by, headers, staged_at,
           greatest(publications, number), redrives, greatest(attempts, now_attempts), coalesce(error, 'unknown'),
           CASE WHEN new_failures IS NULL THEN failures
                ELSE jsonb_path_query_array(coalesce(failures, '[]') || new_failures, '$[last - 29 to last]') END, fence, version, ending,
           lane, share_key, key_policy, key_wait, key_longest, key_since
    FROM gone WHERE word = 'dead'
    ON CONFLICT (id) DO UPDATE SET
        (job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts, run_at, expires_at, tenant_id,
         traceparent, enqueued_by, headers, staged_at, publications, redrives, attempts, reason, failures, fence, version, ending,
         lane, share_key, key_policy, key_wait, key_longest, key_since, died_at)
        = ROW (excluded.job, excluded.queue, excluded.input, excluded.payload, excluded.codec, excluded.idempotency_key,
               excluded.key_window, excluded.priority, excluded.max_attempts, excluded.run_at, excluded.expires_at,
               excluded.tenant_id, excluded.traceparent, excluded.enqueued_by, excluded.headers, excluded.staged_at,
               excluded.publications, excluded.redrives, excluded.attempts, excluded.reason, excluded.failures,
               excluded.fence, excluded.version, excluded.ending, excluded.lane, excluded.share_key, excluded.key_policy,
               excluded.key_wait, excluded.key_longest, excluded.key_since, excluded.died_at)),
kept AS (
    INSERT INTO redisjobs.finished (id, job, queue, state, attempts, redrives, tenant_id, staged_at, keep_until,
                                    idempotency_key, key_until, last_error, result, result_codec, duplicate_of)
    SELECT id, job, queue, word, greatest(attempts, now_attempts), redrives, tenant_id, staged_at,
           clock_timestamp() + greatest(make_interval(secs => greatest(%(retention)s, keep)), key_window),
           idempotency_key, CASE WHEN key_policy = 'throttle' THEN key_since ELSE clock_timestamp() END + key_window,
           coalesce(error, last_error), result, result_codec, owner
    FROM gone WHERE word <> 'dead' AND (%(retention)s > 0 OR keep > 0 OR key_window IS NOT NULL)),
-- a failure that is told again is kept once
back AS (
    UPDATE redisjobs.outbox o
    SET state = CASE t.word WHEN 'retry' THEN 'retrying' WHEN 'snooze' THEN 'snoozed' ELSE t.word END,
        attempts = greatest(o.attempts, t.attempts),
        publications = greatest(o.publications, t.number),
        run_at = clock_timestamp() + make_interval(secs => t.delay),
        last_error = coalesce(t.error, o.last_error),
        failures = CASE WHEN t.failures IS NULL THEN o.failures ELSE jsonb_path_query_array(
            coalesce(o.failures, '[]') || (
                SELECT coalesce(jsonb_agg(f ORDER BY n), '[]') FROM jsonb_array_elements(t.failures) WITH ORDINALITY AS e(f, n)
                WHERE o.failures IS NULL OR NOT o.failures @> jsonb_build_array(f)), '$[last - 29 to last]') END
    FROM told t
    WHERE o.id = t.id AND o.redrives = t.life AND o.settled < t.number AND t.word IN ('retry', 'snooze', 'parked')),
undoing AS (
    UPDATE redisjobs.outbox o
    SET xact = pg_current_xact_id(), seq = DEFAULT, state = 'staged', run_at = NULL, expires_at = NULL, wake_at = NULL,
        moving = false, move_to = NULL, cancel_requested = false,
        attempts = greatest(o.attempts, t.attempts), publications = greatest(o.publications, t.number), settled = t.number,
        ending = coalesce(o.ending, jsonb_build_object('word', t.word, 'reason', coalesce(t.error, ''), 'failures', '[]'::jsonb)),
        last_error = coalesce(t.error, o.last_error),
        failures = CASE WHEN t.failures IS NULL THEN o.failures
                        ELSE jsonb_path_query_array(coalesce(o.failures, '[]') || t.failures, '$[last - 29 to last]') END
    FROM told t
    WHERE o.id = t.id AND o.redrives = t.life AND o.settled < t.number AND t.word IN ('dead', 'cancelled', 'expired', 'deduplicated')
      AND o.undo AND NOT t.undone AND (t.word <> 'dead' OR o.ending IS NULL)
    RETURNING o.id, t.word),
-- what a burst ends goes on counting from its first call
burst AS (
    UPDATE redisjobs.outbox o SET key_since = least(o.key_since, b.since)
    FROM (SELECT owner, min(key_since) AS since FROM gone WHERE word = 'deduplicated' AND key_policy = 'debounce' GROUP BY owner) b
    WHERE o.id = b.owner AND b.since IS NOT NULL
      AND o.id IN (SELECT l.id FROM redisjobs.outbox l WHERE l.id IN (SELECT owner FROM gone) FOR UPDATE SKIP LOCKED)
      AND o.id NOT IN (SELECT id FROM gone))
SELECT uuid_send(id), word, fence IS NOT NULL, parent IS NOT NULL, true,
       CASE WHEN word = 'deduplicated' THEN coalesce((date_part('epoch', result_ttl) * 1000)::bigint, 0) ELSE 0 END
FROM gone WHERE fence IS NOT NULL OR parent IS NOT NULL OR word = 'deduplicated' AND result_ttl IS NOT NULL
UNION ALL
SELECT uuid_send(id), word, true, false, false, 0 FROM undoing;

-- name: suspend
-- runs that have let go of their worker: what waits for more than a time is out of the line until it is woken, what only
-- sleeps joins it with its time, or waits out of it until that is within the horizon. One that was told meanwhile joins at
-- once. Of a suspension that settles again nothing changes.
WITH told AS (
    SELECT * FROM unnest(%(ids)s::uuid[], %(lives)s::integer[], %(numbers)s::integer[], %(attempts)s::integer[],
                         %(delays)s::float8[], %(waits)s::boolean[], %(errors)s::text[], %(failures)s::jsonb[])
        AS t(id, life, number, attempts, delay, waits, error, failures))
UPDATE redisjobs.outbox o
SET (state, run_at) = (
        SELECT CASE WHEN b.at <= n.now THEN 'staged'
                    WHEN t.waits THEN 'suspended'
                    WHEN b.at > n.now + make_interval(secs => %(horizon)s) THEN 'deferred'
                    ELSE 'staged' END,
               CASE WHEN b.at > n.now THEN b.at END
        FROM (SELECT clock_timestamp() AS now) n
        CROSS JOIN LATERAL (
            SELECT least(o.wake_at, CASE WHEN o.ending IS NULL THEN o.expires_at END,
                         CASE WHEN t.delay IS NOT NULL THEN n.now + make_interval(secs => t.delay) WHEN NOT t.waits THEN n.now END)
                   AS at) b),
    xact = pg_current_xact_id(), seq = DEFAULT, wake_at = NULL, moving = false, move_to = NULL,
    attempts = greatest(o.attempts, t.attempts), publications = greatest(o.publications, t.number), settled = t.number,
    last_error = coalesce(t.error, o.last_error),
    failures = CASE WHEN t.failures IS NULL THEN o.failures
                    ELSE jsonb_path_query_array(coalesce(o.failures, '[]') || t.failures, '$[last - 29 to last]') END
FROM told t
WHERE o.id = t.id AND o.redrives = t.life AND o.settled < t.number;

-- name: look_again
-- free events that these runs wait for are handed out once more: they may have been looked at before the wait was there
UPDATE redisjobs.events SET looked_at = NULL
WHERE taken_at IS NULL AND id IN (
    SELECT f.id FROM redisjobs.steps s
    CROSS JOIN LATERAL (SELECT e.id FROM redisjobs.events e
                        WHERE e.name = s.event AND e.key = s.key AND e.taken_at IS NULL AND e.expires_at > clock_timestamp()
                        ORDER BY e.id LIMIT 1000) f
    WHERE s.run = ANY (%(ids)s::uuid[]) AND s.kind = 'event' AND s.state = 'waiting');

-- name: settle_done
-- the short way for what simply succeeded
WITH told AS (
    SELECT * FROM unnest(%(ids)s::uuid[], %(lives)s::integer[], %(numbers)s::integer[], %(attempts)s::integer[])
        AS t(id, life, number, attempts)),
gone AS (
    DELETE FROM redisjobs.outbox o USING told t WHERE o.id = t.id AND o.redrives = t.life AND o.settled < t.number
    RETURNING o.id, o.job, o.queue, o.redrives, o.tenant_id, o.staged_at, o.idempotency_key, o.key_window, o.key_policy,
              o.key_since, o.last_error, o.fence, o.parent, greatest(o.attempts, t.attempts) AS attempts),
kept AS (
    INSERT INTO redisjobs.finished (id, job, queue, state, attempts, redrives, tenant_id, staged_at, keep_until,
                                    idempotency_key, key_until, last_error)
    SELECT id, job, queue, 'done', attempts, redrives, tenant_id, staged_at,
           clock_timestamp() + greatest(make_interval(secs => %(retention)s), key_window),
           idempotency_key, CASE WHEN key_policy = 'throttle' THEN key_since ELSE clock_timestamp() END + key_window, last_error
    FROM gone WHERE %(retention)s > 0 OR key_window IS NOT NULL)
SELECT uuid_send(id), 'done', fence IS NOT NULL, parent IS NOT NULL, true FROM gone WHERE fence IS NOT NULL OR parent IS NOT NULL;

-- name: bury_direct
-- a dead letter of a job that never had a row; one that was redriven meanwhile has one, and a later end
INSERT INTO redisjobs.dead (id, job, queue, payload, codec, idempotency_key, key_window, priority, max_attempts, tenant_id,
                            traceparent, enqueued_by, headers, version, lane, share_key, key_policy, key_wait, key_longest, attempts,
                            reason, failures)
SELECT %(id)s::uuid, %(job)s::text, %(queue)s::text, %(payload)s::bytea, %(codec)s::text, %(idempotency_key)s::text,
       make_interval(secs => %(key_window)s::float8), %(priority)s::smallint, %(max_attempts)s::integer, %(tenant_id)s::text,
       %(traceparent)s::text, %(enqueued_by)s::text, %(headers)s::json, %(version)s::text,
       %(lane)s::text, %(share_key)s::text, %(key_policy)s::text, make_interval(secs => %(key_wait)s::float8),
       make_interval(secs => %(key_longest)s::float8), %(attempts)s::integer, %(reason)s::text, %(failures)s::jsonb
WHERE NOT EXISTS (SELECT FROM redisjobs.outbox o WHERE o.id = %(id)s::uuid)
  AND NOT EXISTS (SELECT FROM redisjobs.finished f WHERE f.id = %(id)s::uuid)
ON CONFLICT (id) DO NOTHING;

-- name: make_room
-- the partition of finished that rows kept so many seconds from now go to
SELECT redisjobs.make_room(clock_timestamp() + make_interval(secs => %(ahead)s));

-- name: drop_finished
-- partitions whose retention is over
SELECT redisjobs.drop_finished();
