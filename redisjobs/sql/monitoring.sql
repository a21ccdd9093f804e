-- Statements behind the metrics of a relay. Each is bounded: it counts up to a limit, through an index.

-- name: unpublished
-- rows that are not published, by queue: how many, and how long the oldest has been there
SELECT q.queue, w.state, w.n, w.oldest_s
FROM unnest(%(queues)s::text[], %(floors)s::bigint[]) AS q(queue, floor)
CROSS JOIN LATERAL (
    SELECT 'staged' AS state, count(*) AS n, date_part('epoch', clock_timestamp() - min(s.staged_at)) AS oldest_s
    FROM (SELECT o.staged_at FROM redisjobs.outbox o
          WHERE o.queue = q.queue AND o.state = 'staged' AND o.seq > q.floor
          ORDER BY o.seq LIMIT %(limit)s) s
    UNION ALL
    SELECT 'deferred', count(*), 0.0
    FROM (SELECT FROM redisjobs.outbox o WHERE o.queue = q.queue AND o.state = 'deferred' LIMIT %(limit)s) d) w;

-- name: resting
-- rows that nothing moves by itself, by queue; only while the table is so small that reading all of it costs little
SELECT q.queue, s.state, coalesce(o.n, 0), date_part('epoch', clock_timestamp() - o.oldest)
FROM unnest(%(queues)s::text[]) AS q(queue)
CROSS JOIN (VALUES ('parked'), ('set_aside'), ('suspended')) AS s(state)
LEFT JOIN (
    SELECT queue, state, count(*) AS n, min(staged_at) AS oldest FROM redisjobs.outbox
    WHERE state IN ('parked', 'set_aside', 'suspended') GROUP BY queue, state) o
    ON o.queue = q.queue AND o.state = s.state
WHERE (SELECT pg_relation_size('redisjobs.outbox')) <= %(most_bytes)s;

-- name: dead
-- dead letters by queue: how many, and how long the oldest has been there; a walk from one job's name to the next
WITH RECURSIVE kinds AS (
    (SELECT d.queue, d.job, d.died_at FROM redisjobs.dead d ORDER BY d.queue, d.job, d.died_at LIMIT 1)
    UNION ALL
    SELECT n.queue, n.job, n.died_at
    FROM kinds k
    CROSS JOIN LATERAL (
        SELECT d.queue, d.job, d.died_at FROM redisjobs.dead d WHERE (d.queue, d.job) > (k.queue, k.job)
        ORDER BY d.queue, d.job, d.died_at LIMIT 1) n),
oldest AS (SELECT queue, min(died_at) AS died_at FROM (SELECT * FROM kinds LIMIT %(kinds)s) k GROUP BY queue)
SELECT o.queue,
       (SELECT count(*) FROM (SELECT FROM redisjobs.dead d WHERE d.queue = o.queue LIMIT %(limit)s) d),
       date_part('epoch', clock_timestamp() - o.died_at)
FROM oldest o;

-- name: may_see_endpoints
-- whether this role may see how endpoints of webhooks behave: its rights may be older than they are
SELECT coalesce(has_table_privilege(to_regclass('redisjobs.webhook_endpoints'), 'SELECT'), false);

-- name: endpoints
-- how endpoints of webhooks behave, those first that are worst
SELECT name, disabled_at IS NULL, date_part('epoch', clock_timestamp() - failing_since)
FROM redisjobs.webhook_endpoints ORDER BY disabled_at IS NULL, failing_since NULLS LAST, name LIMIT %(limit)s;

-- name: bound
-- what follows in this transaction ends soon, and looks rows up by index even where the tables were never analyzed
SET LOCAL statement_timeout = '2s'; SET LOCAL lock_timeout = '1s'; SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off;
