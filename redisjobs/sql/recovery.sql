-- name: take_back
-- a chunk of the rows that a lost life of Redis held joins the line again, in its old order; the lease is renewed
WITH held AS (
    UPDATE redisjobs.queues SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
    WHERE queue = %(queue)s AND token = %(token)s AND lease_until > clock_timestamp()
    RETURNING queue),
chunk AS MATERIALIZED (
    SELECT id FROM redisjobs.outbox
    WHERE queue = %(queue)s AND id > %(after)s AND state IN ('published', 'retrying', 'snoozed', 'parked')
    ORDER BY id LIMIT %(limit)s),
back AS (
    UPDATE redisjobs.outbox o SET state = 'staged' FROM held, chunk WHERE o.id = chunk.id RETURNING o.id)
SELECT (SELECT count(*) FROM held), count(*), (SELECT id FROM chunk ORDER BY id DESC LIMIT 1) FROM back;

-- name: name_life
-- the new life of Redis, stored together with the rows that were still published; in a first life there are none
WITH named AS (
    UPDATE redisjobs.queues SET epoch = %(epoch)s, lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
    WHERE queue = %(queue)s AND token = %(token)s AND lease_until > clock_timestamp()
    RETURNING queue),
back AS (
    UPDATE redisjobs.outbox o SET state = 'staged' FROM named
    WHERE NOT %(first)s AND o.queue = named.queue
      AND o.state IN ('published', 'retrying', 'snoozed', 'parked')
    RETURNING o.id)
SELECT (SELECT count(*) FROM named), (SELECT count(*) FROM back);

-- name: open_windows
-- idempotency keys that are held without a job in Redis: key, job, ms left of the window; of runs that were suspended, and
-- hold theirs until they end, -1. And the lanes of those runs, with -2
SELECT idempotency_key, uuid_send(id), (date_part('epoch', key_until - clock_timestamp()) * 1000)::bigint
FROM redisjobs.finished WHERE queue = %(queue)s AND key_until > clock_timestamp()
UNION ALL
SELECT idempotency_key, uuid_send(id), (date_part('epoch', since + key_window - clock_timestamp()) * 1000)::bigint
FROM (SELECT id, idempotency_key, key_window, CASE WHEN key_policy = 'throttle' THEN key_since ELSE died_at END AS since
      FROM redisjobs.dead WHERE queue = %(queue)s AND key_window IS NOT NULL) d
WHERE since + key_window > clock_timestamp()
UNION ALL
SELECT idempotency_key, uuid_send(id), CASE WHEN key_policy = 'throttle'
           THEN (date_part('epoch', key_since + key_window - clock_timestamp()) * 1000)::bigint ELSE -1 END
FROM redisjobs.outbox
WHERE queue = %(queue)s AND settled > 0 AND idempotency_key IS NOT NULL
  AND CASE key_policy WHEN 'throttle' THEN key_since + key_window > clock_timestamp() WHEN 'debounce' THEN false ELSE true END
UNION ALL
SELECT lane, uuid_send(id), -2 FROM redisjobs.outbox WHERE queue = %(queue)s AND settled > 0 AND lane IS NOT NULL;
