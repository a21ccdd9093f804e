-- name: published
-- a slice of the rows that Redis should hold, of the queues that this relay holds
SELECT uuid_send(id), redrives, settled, queue FROM redisjobs.outbox
WHERE id > %(after)s AND queue = ANY (%(queues)s::text[])
  AND state IN ('published', 'retrying', 'snoozed', 'parked')
  AND (published_at IS NULL OR published_at < clock_timestamp() - make_interval(secs => %(age)s))
ORDER BY id LIMIT %(limit)s;

-- name: publish_again
-- rows that Redis turned out not to hold join the line again
WITH held AS MATERIALIZED (
    SELECT 1 FROM redisjobs.queues
    WHERE queue = %(queue)s AND token = %(token)s AND epoch = %(epoch)s AND lease_until > clock_timestamp() FOR SHARE)
UPDATE redisjobs.outbox o SET state = 'staged'
FROM unnest(%(ids)s::uuid[], %(lives)s::integer[]) AS m(id, life)
WHERE o.id = m.id AND o.redrives = m.life AND o.state IN ('published', 'retrying', 'snoozed', 'parked')
  AND EXISTS (SELECT FROM held);

-- name: rowless
-- which of these ids have no row
SELECT uuid_send(m.id) FROM unnest(%(ids)s::uuid[]) AS m(id) WHERE NOT EXISTS (SELECT FROM redisjobs.outbox o WHERE o.id = m.id);
