-- name: meet
-- queues that were never seen get their row, so that they can be held
INSERT INTO redisjobs.queues (queue) SELECT unnest(%(queues)s::text[]) ON CONFLICT DO NOTHING;

-- name: take
-- renews what this relay holds and takes what nobody holds any more, of all queues or of some; the token grows at
-- each change of holder
WITH free AS (
    SELECT queue FROM redisjobs.queues
    WHERE (holder = %(relay)s OR lease_until < clock_timestamp())
      AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s::text[]))
    FOR UPDATE SKIP LOCKED)
UPDATE redisjobs.queues q
SET token = token + CASE WHEN q.holder IS DISTINCT FROM %(relay)s THEN 1 ELSE 0 END,
    holder = %(relay)s,
    lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
FROM free
WHERE q.queue = free.queue
RETURNING q.queue, q.token, q.epoch, q.paused, q.asleep, coalesce(q.failing::text, ''), q.share_by, q.shares::text;

-- name: keep
-- a long round renews on its way what this relay holds; it takes nothing
UPDATE redisjobs.queues q
SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
FROM (SELECT queue FROM redisjobs.queues
      WHERE holder = %(relay)s AND lease_until > clock_timestamp()
      FOR UPDATE SKIP LOCKED) AS mine
WHERE q.queue = mine.queue
RETURNING q.queue, q.token;

-- name: fresh_token
-- after a call with an unknown end: what may still be under way is refused from now on
UPDATE redisjobs.queues SET token = greatest(token, %(above)s::bigint) + 1, lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
WHERE queue = %(queue)s AND holder = %(relay)s AND token = %(token)s
RETURNING token;

-- name: let_go
-- a relay that stops leaves its queues to the next one at once
UPDATE redisjobs.queues SET holder = NULL, lease_until = '-infinity', asleep = true WHERE holder = %(relay)s;

-- name: fall_asleep
-- from its commit on, producers notify; answers the transaction behind which no producer can have missed it
UPDATE redisjobs.queues SET asleep = true WHERE queue = %(queue)s AND token = %(token)s
RETURNING pg_current_xact_id()::text::bigint;

-- name: wake_up
-- while the relay polls, producers need not notify
UPDATE redisjobs.queues SET asleep = false WHERE queue = %(queue)s AND token = %(token)s;

-- name: oldest_running
-- the oldest transaction that has not ended
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- name: with_staged
-- the queues with staged rows, by a skip scan of the partial index
WITH RECURSIVE found AS (
    (SELECT queue FROM redisjobs.outbox WHERE state = 'staged' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT o.queue FROM redisjobs.outbox o WHERE o.state = 'staged' AND o.queue > found.queue
            ORDER BY o.queue LIMIT 1)
    FROM found WHERE found.queue IS NOT NULL)
SELECT queue FROM found WHERE queue IS NOT NULL;

-- name: with_side_work
-- the queues with work beside the line, and of which kind it is
SELECT DISTINCT queue, 'cancel' FROM redisjobs.outbox WHERE cancel_requested AND ending IS NULL
UNION ALL
SELECT DISTINCT queue, 'move' FROM redisjobs.outbox
WHERE moving AND state IN ('published', 'retrying', 'snoozed', 'parked')
UNION ALL
SELECT queue, 'due' FROM (SELECT DISTINCT queue FROM redisjobs.queues WHERE NOT paused) q
WHERE EXISTS (SELECT FROM redisjobs.outbox o WHERE o.queue = q.queue AND o.state = 'deferred'
              AND o.run_at < clock_timestamp() + make_interval(secs => %(horizon)s))
   OR EXISTS (SELECT FROM redisjobs.outbox o WHERE o.queue = q.queue AND o.state = 'suspended'
              AND o.run_at <= clock_timestamp());
