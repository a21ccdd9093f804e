-- name: take_back
-- a chunk of the rows that a lost life of Redis held joins the line again, in its old order
WITH held AS MATERIALIZED (
    SELECT 1 FROM redisjobs.queues
    WHERE queue = %(queue)s AND token = %(token)s AND lease_until > clock_timestamp() FOR SHARE),
chunk AS (
    SELECT id FROM redisjobs.outbox
    WHERE queue = %(queue)s AND id > %(after)s AND state IN ('published', 'retrying', 'snoozed', 'suspended', 'parked')
    ORDER BY id LIMIT %(limit)s),
back AS (
    UPDATE redisjobs.outbox o SET state = 'staged' FROM chunk
    WHERE o.id = chunk.id AND EXISTS (SELECT FROM held) RETURNING o.id)
SELECT (SELECT count(*) FROM held), count(*), (SELECT id FROM back ORDER BY id DESC LIMIT 1) FROM back;

-- name: name_life
-- the new life of Redis, stored together with the rows that were still published
WITH named AS (
    UPDATE redisjobs.queues SET epoch = %(epoch)s, lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
    WHERE queue = %(queue)s AND token = %(token)s AND lease_until > clock_timestamp()
    RETURNING queue),
back AS (
    UPDATE redisjobs.outbox o SET state = 'staged' FROM named
    WHERE o.queue = named.queue AND o.state IN ('published', 'retrying', 'snoozed', 'suspended', 'parked'))
SELECT count(*) FROM named;

-- name: open_windows
-- idempotency keys whose window has not ended: key, job, ms left
SELECT idempotency_key, uuid_send(id), (date_part('epoch', key_until - clock_timestamp()) * 1000)::bigint
FROM redisjobs.finished WHERE queue = %(queue)s AND key_until > clock_timestamp()
UNION ALL
SELECT idempotency_key, uuid_send(id), (date_part('epoch', died_at + key_window - clock_timestamp()) * 1000)::bigint
FROM redisjobs.dead WHERE queue = %(queue)s AND died_at + key_window > clock_timestamp();

-- name: published
-- a slice of the rows that Redis should hold, for the audit
SELECT uuid_send(id), redrives FROM redisjobs.outbox
WHERE queue = %(queue)s AND id > %(after)s AND state IN ('published', 'retrying', 'snoozed', 'suspended', 'parked')
  AND (published_at IS NULL OR published_at < clock_timestamp() - make_interval(secs => %(age)s))
ORDER BY id LIMIT %(limit)s;

-- name: publish_again
-- rows that Redis turned out not to hold join the line again
WITH held AS MATERIALIZED (
    SELECT 1 FROM redisjobs.queues
    WHERE queue = %(queue)s AND token = %(token)s AND epoch = %(epoch)s AND lease_until > clock_timestamp() FOR SHARE)
UPDATE redisjobs.outbox o SET state = 'staged'
FROM unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS m(id, life)
WHERE o.id = m.id AND o.redrives = m.life AND o.state IN ('published', 'retrying', 'snoozed', 'suspended', 'parked')
  AND EXISTS (SELECT FROM held);

-- name: rowless
-- which of these ids have no row
SELECT uuid_send(m.id) FROM unnest(%(ids)s::uuid[]) AS m(id) WHERE NOT EXISTS (SELECT FROM redisjobs.outbox o WHERE o.id = m.id);
