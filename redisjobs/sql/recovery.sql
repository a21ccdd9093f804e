-- name: take_back
-- a chunk of the rows that a lost life of Redis held joins the line again, in its old order; the lease is renewed
WITH held AS (
    UPDATE redisjobs.queues SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
    WHERE queue = %(queue)s AND token = %(token)s AND lease_until > clock_timestamp()
    RETURNING queue),
chunk AS MATERIALIZED (
    SELECT id FROM redisjobs.outbox
    WHERE queue = %(queue)s AND id > %(after)s AND state IN ('published', 'retrying', 'snoozed', 'suspended', 'parked')
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
      AND o.state IN ('published', 'retrying', 'snoozed', 'suspended', 'parked')
    RETURNING o.id)
SELECT (SELECT count(*) FROM named), (SELECT count(*) FROM back);

-- name: open_windows
-- idempotency keys whose window has not ended: key, job, ms left
SELECT idempotency_key, uuid_send(id), (date_part('epoch', key_until - clock_timestamp()) * 1000)::bigint
FROM redisjobs.finished WHERE queue = %(queue)s AND key_until > clock_timestamp()
UNION ALL
SELECT idempotency_key, uuid_send(id), (date_part('epoch', died_at + key_window - clock_timestamp()) * 1000)::bigint
FROM redisjobs.dead WHERE queue = %(queue)s AND died_at + key_window > clock_timestamp();
