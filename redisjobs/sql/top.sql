-- Statements behind `redisjobs top`, beside those in monitoring.sql. Each is bounded, for it is asked every few seconds.

-- name: holders
-- the queues that were ever held: by whom now, and what stops them
SELECT queue, CASE WHEN lease_until > clock_timestamp() THEN holder END, paused, failing IS NOT NULL
FROM redisjobs.queues ORDER BY queue LIMIT %(limit)s;

-- name: staged
-- the queues with rows to publish, by a skip scan of the partial index; some of them no relay has met yet
WITH RECURSIVE found AS (
    (SELECT queue FROM redisjobs.outbox WHERE state = 'staged' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT o.queue FROM redisjobs.outbox o WHERE o.state = 'staged' AND o.queue > found.queue
            ORDER BY o.queue LIMIT 1)
    FROM found WHERE found.queue IS NOT NULL)
SELECT queue FROM found WHERE queue IS NOT NULL LIMIT %(limit)s;
