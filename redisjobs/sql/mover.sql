-- name: moves
-- jobs that Redis has and that were given another priority or time: the time as far as it was given (µs since 1970, and ms from
-- now), then the row as it would be published. Not those that somebody holds, for they could not be noted as moved
SELECT (date_part('epoch', move_to) * 1000000)::bigint,
       (date_part('epoch', move_to - clock_timestamp()) * 1000)::bigint,
       uuid_send(id), seq, job, input::text, payload, codec, idempotency_key, date_part('epoch', key_window), priority, max_attempts,
       (date_part('epoch', coalesce(move_to, run_at)) * 1000000)::bigint,
       CASE WHEN ending IS NULL THEN (date_part('epoch', expires_at) * 1000000)::bigint END, NULL::bigint, NULL::bigint,
       tenant_id, traceparent, enqueued_by, headers::text, (date_part('epoch', staged_at) * 1000000)::bigint,
       attempts, publications, redrives, cancel_requested AND ending IS NULL,
       version, parent IS NOT NULL, ending IS NOT NULL, settled,
       lane, share_key, key_policy, date_part('epoch', key_wait), date_part('epoch', key_longest), NULL::bigint
FROM redisjobs.outbox
WHERE queue = %(queue)s AND moving AND state IN ('published', 'retrying', 'snoozed', 'parked')
ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED;

-- name: moved
-- Redis has been told, or has refused: of a job that runs the time was no use. What was changed once more since is left for
-- another look. A settlement may have written another time meanwhile; the one that Redis has been told is the one that counts.
WITH held AS MATERIALIZED (
    SELECT 1 FROM redisjobs.queues
    WHERE queue = %(queue)s AND token = %(token)s AND epoch = %(epoch)s AND lease_until > clock_timestamp()
    FOR SHARE)
UPDATE redisjobs.outbox o
SET moving = false, move_to = NULL,
    run_at = CASE WHEN m.taken THEN coalesce(o.move_to, o.run_at) ELSE nullif(o.run_at, o.move_to) END
FROM unnest(%(ids)s::uuid[], %(lives)s::integer[], %(priorities)s::smallint[], %(times)s::bigint[], %(taken)s::boolean[])
    AS m(id, life, priority, time, taken)
WHERE o.id = m.id AND o.redrives = m.life AND o.priority = m.priority
  AND o.moving AND (date_part('epoch', o.move_to) * 1000000)::bigint IS NOT DISTINCT FROM m.time
  AND EXISTS (SELECT FROM held);
