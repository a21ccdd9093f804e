-- name: batch
-- the oldest staged rows of a queue, in the order of staging, and with the first of them the snapshot in which all were seen:
-- which transactions had not ended. Where there are none, a row of that alone. A run of which only the undos are left
-- neither expires nor is cancelled. `moves` of the mover reads the same columns.
SELECT CASE WHEN row_number() OVER () = 1 THEN pg_current_snapshot()::text END, uuid_send(id), seq, job, input::text, payload, codec, idempotency_key,
       date_part('epoch', key_window), priority, max_attempts,
       (date_part('epoch', run_at) * 1000000)::bigint,
       CASE WHEN ending IS NULL THEN (date_part('epoch', expires_at) * 1000000)::bigint END,
       (date_part('epoch', run_at - clock_timestamp()) * 1000)::bigint,
       CASE WHEN ending IS NULL THEN (date_part('epoch', expires_at - clock_timestamp()) * 1000)::bigint END,
       tenant_id, traceparent, enqueued_by, headers::text, (date_part('epoch', staged_at) * 1000000)::bigint,
       attempts, publications, redrives, cancel_requested AND ending IS NULL,
       version, parent IS NOT NULL, ending IS NOT NULL, settled,
       lane, share_key, key_policy, date_part('epoch', key_wait), date_part('epoch', key_longest),
       (date_part('epoch', clock_timestamp() - key_since) * 1000)::bigint
FROM (SELECT) AS always LEFT JOIN redisjobs.staged(%(queue)s, %(floor)s, %(limit)s) ON true;

-- name: mark
-- published rows leave the line; only under the token and in the life of Redis that they were published with, and only
-- those of this very publication: one that came back meanwhile is in line for the next
WITH held AS MATERIALIZED (
    SELECT 1 FROM redisjobs.queues
    WHERE queue = %(queue)s AND token = %(token)s AND epoch = %(epoch)s AND lease_until > clock_timestamp()
    FOR SHARE)
UPDATE redisjobs.outbox o
SET state = 'published', published_at = clock_timestamp(), publications = o.publications + 1,
    key_since = CASE WHEN o.key_policy IS NOT NULL THEN coalesce(
        o.key_since, CASE o.key_policy WHEN 'throttle' THEN greatest(clock_timestamp(), o.run_at) ELSE clock_timestamp() END) END
FROM unnest(%(ids)s::uuid[], %(lives)s::integer[], %(numbers)s::integer[]) AS m(id, life, number)
WHERE o.id = m.id AND o.redrives = m.life AND o.publications = m.number - 1 AND o.state = 'staged'
  AND EXISTS (SELECT FROM held);

-- name: is_held
-- whether the relay's lease, token and epoch still stand
SELECT EXISTS (SELECT FROM redisjobs.queues
               WHERE queue = %(queue)s AND token = %(token)s AND epoch = %(epoch)s AND lease_until > clock_timestamp());

-- name: defer
-- rows due behind the horizon wait here, out of the line
WITH held AS MATERIALIZED (
    SELECT 1 FROM redisjobs.queues
    WHERE queue = %(queue)s AND token = %(token)s AND epoch = %(epoch)s AND lease_until > clock_timestamp()
    FOR SHARE)
UPDATE redisjobs.outbox SET state = 'deferred'
WHERE id = ANY (%(ids)s::uuid[]) AND state = 'staged' AND EXISTS (SELECT FROM held);

-- name: come_due
-- deferred rows within the horizon, and suspended runs whose time has come, join the end of the line; answers how many. Those that
-- somebody holds join it later: no place in the line is theirs yet
WITH due AS (
    UPDATE redisjobs.outbox SET state = 'staged', xact = pg_current_xact_id(), seq = DEFAULT
    WHERE id IN (SELECT id FROM redisjobs.outbox
                 WHERE queue = %(queue)s AND state = 'deferred'
                   AND run_at < clock_timestamp() + make_interval(secs => %(horizon)s)
                 ORDER BY run_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
    RETURNING 1)
SELECT (SELECT count(*) FROM due) + redisjobs.stage_runs(ARRAY(
    SELECT id FROM redisjobs.outbox
    WHERE queue = %(queue)s AND state = 'suspended' AND run_at <= clock_timestamp()
    ORDER BY run_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED));

-- name: deduplicate
-- a row ends as a duplicate only while the job that holds its key is live, or ended within its window; `sure`
-- names owners of which Redis alone knows that
WITH held AS MATERIALIZED (
    SELECT 1 FROM redisjobs.queues
    WHERE queue = %(queue)s AND token = %(token)s AND epoch = %(epoch)s AND lease_until > clock_timestamp()
    FOR SHARE),
told AS (
    SELECT m.id, m.life, m.owner FROM unnest(%(ids)s::uuid[], %(lives)s::integer[], %(owners)s::uuid[]) AS m(id, life, owner)
    WHERE m.owner = ANY (%(sure)s::uuid[]) OR EXISTS (SELECT FROM redisjobs.outbox o WHERE o.id = m.owner)
       OR EXISTS (SELECT FROM redisjobs.finished f WHERE f.id = m.owner AND f.key_until > clock_timestamp())
       OR EXISTS (SELECT FROM redisjobs.dead d WHERE d.id = m.owner
                  AND CASE d.key_policy WHEN 'throttle' THEN d.key_since ELSE d.died_at END + d.key_window > clock_timestamp())),
gone AS (
    DELETE FROM redisjobs.outbox o USING told
    WHERE o.id = told.id AND o.redrives = told.life AND EXISTS (SELECT FROM held)
    RETURNING o.*, told.owner),
kept AS (
    INSERT INTO redisjobs.finished (id, job, queue, state, attempts, redrives, tenant_id, staged_at, keep_until,
                                    idempotency_key, duplicate_of)
    SELECT id, job, queue, 'deduplicated', attempts, redrives, tenant_id, staged_at,
           clock_timestamp() + make_interval(secs => %(retention)s), idempotency_key, owner
    FROM gone WHERE %(retention)s > 0)
SELECT uuid_send(id), 'deduplicated', fence IS NOT NULL, parent IS NOT NULL, true,
       coalesce((date_part('epoch', result_ttl) * 1000)::bigint, 0) FROM gone;

-- name: replaced
-- the end of jobs that a new one of their key takes the place of
WITH held AS MATERIALIZED (
    SELECT 1 FROM redisjobs.queues
    WHERE queue = %(queue)s AND token = %(token)s AND epoch = %(epoch)s AND lease_until > clock_timestamp()
    FOR SHARE)
UPDATE redisjobs.outbox SET cancel_requested = true
WHERE id = ANY (%(ids)s::uuid[]) AND NOT cancel_requested AND EXISTS (SELECT FROM held);

-- name: cancels
-- rows whose end was asked for, unless they are on their way to one
SELECT uuid_send(id), redrives, settled, publications + 1 FROM redisjobs.outbox
WHERE queue = %(queue)s AND cancel_requested AND ending IS NULL ORDER BY id LIMIT %(limit)s;

-- name: end_cancelled
-- rows that Redis does not know end here, under token and epoch; a run with undos is published for them. Told is what follows
-- from it, the key that a run still holds in Redis, with the ms of its window, and its lane.
WITH held AS MATERIALIZED (
    SELECT 1 FROM redisjobs.queues
    WHERE queue = %(queue)s AND token = %(token)s AND epoch = %(epoch)s AND lease_until > clock_timestamp()
    FOR SHARE),
gone AS (
    DELETE FROM redisjobs.outbox o USING unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS m(id, life)
    WHERE o.id = m.id AND o.redrives = m.life AND o.cancel_requested AND o.ending IS NULL AND NOT o.undo
      AND EXISTS (SELECT FROM held)
    RETURNING o.*, CASE WHEN o.settled > 0 AND o.key_policy IS DISTINCT FROM 'throttle' THEN o.key_window END AS held_window,
              CASE WHEN o.key_policy = 'throttle' THEN o.key_since + o.key_window END AS throttled_until),
kept AS (
    INSERT INTO redisjobs.finished (id, job, queue, state, attempts, redrives, tenant_id, staged_at, keep_until, idempotency_key,
                                    key_until)
    SELECT id, job, queue, 'cancelled', attempts, redrives, tenant_id, staged_at,
           greatest(clock_timestamp() + greatest(make_interval(secs => %(retention)s), held_window), throttled_until),
           idempotency_key, coalesce(throttled_until, clock_timestamp() + held_window)
    FROM gone WHERE %(retention)s > 0 OR held_window IS NOT NULL OR throttled_until IS NOT NULL),
undoing AS (
    UPDATE redisjobs.outbox o
    SET xact = pg_current_xact_id(), seq = DEFAULT, state = 'staged', run_at = NULL, expires_at = NULL, wake_at = NULL,
        moving = false, move_to = NULL, cancel_requested = false, ending = '{"word": "cancelled", "reason": "it was cancelled", "failures": []}'
    FROM unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS m(id, life)
    WHERE o.id = m.id AND o.redrives = m.life AND o.cancel_requested AND o.ending IS NULL AND o.undo
      AND EXISTS (SELECT FROM held)
    RETURNING o.id)
SELECT uuid_send(id), 'cancelled', fence IS NOT NULL, parent IS NOT NULL, true,
       CASE WHEN settled > 0 AND key_policy IS DISTINCT FROM 'throttle' THEN idempotency_key END, coalesce((date_part('epoch', held_window) * 1000)::bigint, 0),
       CASE WHEN settled > 0 THEN lane END FROM gone
UNION ALL
SELECT uuid_send(id), 'cancelled', true, false, false, NULL, 0, NULL FROM undoing;

-- name: failing
-- names the row that stops its queue, for `redisjobs outbox`; null when the queue moves again
UPDATE redisjobs.queues SET failing = %(failing)s::jsonb WHERE queue = %(queue)s AND token = %(token)s;
