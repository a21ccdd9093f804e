-- name: batch
-- the oldest staged rows of a queue, in the order of staging, and the snapshot in which they were seen
SELECT uuid_send(id), seq, job, input::text, payload, codec, idempotency_key,
       date_part('epoch', key_window), priority, max_attempts,
       (date_part('epoch', run_at) * 1000000)::bigint, (date_part('epoch', expires_at) * 1000000)::bigint,
       (date_part('epoch', run_at - clock_timestamp()) * 1000)::bigint,
       (date_part('epoch', expires_at - clock_timestamp()) * 1000)::bigint,
       tenant_id, traceparent, enqueued_by, headers::text, (date_part('epoch', staged_at) * 1000000)::bigint,
       attempts, publications, redrives, cancel_requested
FROM redisjobs.outbox
WHERE queue = %(queue)s AND state = 'staged' AND seq > %(floor)s
ORDER BY seq
LIMIT %(limit)s;

-- name: snapshot
-- which transactions had not ended in the snapshot that the batch was read in (the same transaction, repeatable read)
SELECT pg_current_snapshot()::text;

-- name: mark
-- published rows leave the line; only under the token and in the life of Redis that they were published with
WITH held AS MATERIALIZED (
    SELECT 1 FROM redisjobs.queues
    WHERE queue = %(queue)s AND token = %(token)s AND epoch = %(epoch)s AND lease_until > clock_timestamp()
    FOR SHARE)
UPDATE redisjobs.outbox o
SET state = 'published', published_at = clock_timestamp(), publications = o.publications + 1
FROM unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS m(id, life)
WHERE o.id = m.id AND o.redrives = m.life AND o.state = 'staged' AND EXISTS (SELECT FROM held);

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
-- deferred rows within the horizon join the end of the line
UPDATE redisjobs.outbox SET state = 'staged', xact = pg_current_xact_id(), seq = DEFAULT
WHERE id IN (SELECT id FROM redisjobs.outbox
             WHERE queue = %(queue)s AND state = 'deferred'
               AND run_at < clock_timestamp() + make_interval(secs => %(horizon)s)
             ORDER BY run_at LIMIT %(limit)s);

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
       OR EXISTS (SELECT FROM redisjobs.dead d WHERE d.id = m.owner AND d.died_at + d.key_window > clock_timestamp())),
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
SELECT uuid_send(id) FROM gone;

-- name: cancels
-- rows whose end was asked for
SELECT uuid_send(id), redrives FROM redisjobs.outbox WHERE queue = %(queue)s AND cancel_requested ORDER BY id LIMIT %(limit)s;

-- name: end_cancelled
-- rows that Redis does not know end here, under token and epoch
WITH held AS MATERIALIZED (
    SELECT 1 FROM redisjobs.queues
    WHERE queue = %(queue)s AND token = %(token)s AND epoch = %(epoch)s AND lease_until > clock_timestamp()
    FOR SHARE),
gone AS (
    DELETE FROM redisjobs.outbox o USING unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS m(id, life)
    WHERE o.id = m.id AND o.redrives = m.life AND o.cancel_requested AND EXISTS (SELECT FROM held)
    RETURNING o.*),
kept AS (
    INSERT INTO redisjobs.finished (id, job, queue, state, attempts, redrives, tenant_id, staged_at, keep_until, idempotency_key)
    SELECT id, job, queue, 'cancelled', attempts, redrives, tenant_id, staged_at,
           clock_timestamp() + make_interval(secs => %(retention)s), idempotency_key
    FROM gone WHERE %(retention)s > 0)
SELECT count(*) FROM gone;

-- name: failing
-- names the row that stops its queue, for `redisjobs outbox`; null when the queue moves again
UPDATE redisjobs.queues SET failing = %(failing)s::jsonb WHERE queue = %(queue)s AND token = %(token)s;
