-- What `redisjobs explain` reads of one job, in one snapshot. Distances are seconds by Postgres' clock.

-- name: row
-- the job, wherever it stands; a row of the outbox before an end of the same id, a later end before an earlier one
SELECT place, id, job, queue, state, seq, priority, attempts, max_attempts, publications, redrives, idempotency_key,
       cancel_requested, run_at, ended_at, duplicate_of, error, failure, keeps_result, settled, ending, moving,
       date_part('epoch', clock_timestamp() - staged_at) AS age_s,
       date_part('epoch', clock_timestamp() - published_at) AS published_s,
       date_part('epoch', run_at - clock_timestamp()) AS run_in_s,
       date_part('epoch', expires_at - clock_timestamp()) AS expires_in_s,
       date_part('epoch', keep_until - clock_timestamp()) AS kept_s
FROM (
    SELECT 'outbox' AS place, id, job, queue, state, seq, priority, attempts, max_attempts, publications, redrives,
           idempotency_key, cancel_requested, staged_at, published_at, run_at, expires_at, NULL::timestamptz AS ended_at,
           NULL::timestamptz AS keep_until, NULL::uuid AS duplicate_of, last_error AS error, failures -> -1 AS failure,
           false AS keeps_result, settled, ending ->> 'word' AS ending, moving
    FROM redisjobs.outbox WHERE id = %(id)s
    UNION ALL
    SELECT 'dead', id, job, queue, 'dead', NULL, priority, attempts, max_attempts, publications, redrives,
           idempotency_key, false, staged_at, NULL, NULL, NULL, died_at, NULL, NULL, reason, failures -> -1, false, 0, NULL, false
    FROM redisjobs.dead WHERE id = %(id)s
    UNION ALL
    SELECT 'finished', id, job, queue, state, NULL, NULL, attempts, NULL, NULL, redrives,
           idempotency_key, false, staged_at, NULL, NULL, NULL, finished_at, keep_until, duplicate_of, last_error, NULL,
           result IS NOT NULL, 0, NULL, false
    FROM redisjobs.finished WHERE id = %(id)s) AS found
ORDER BY ended_at DESC NULLS FIRST
LIMIT 1;

-- name: line
-- its queue: who holds it, what stands before the job in the line to Redis (up to a bound), and which relays live
SELECT q.holder, q.token, date_part('epoch', q.lease_until - clock_timestamp()) AS lease_left_s, q.epoch,
       coalesce(q.paused, false) AS paused, q.failing,
       (SELECT count(*) FROM (SELECT FROM redisjobs.outbox o
                              WHERE o.queue = n.queue AND o.state = 'staged' AND o.seq < %(seq)s::bigint
                              LIMIT %(most)s) AS before) AS before,
       (SELECT date_part('epoch', clock_timestamp() - o.staged_at) FROM redisjobs.outbox o
        WHERE o.queue = n.queue AND o.state = 'staged' ORDER BY o.seq LIMIT 1) AS oldest_staged_s,
       ARRAY(SELECT DISTINCT r.holder FROM redisjobs.queues r
             WHERE r.lease_until > clock_timestamp() AND r.holder IS NOT NULL ORDER BY r.holder LIMIT 10) AS relays
FROM (SELECT %(queue)s::text AS queue) AS n LEFT JOIN redisjobs.queues q ON q.queue = n.queue;

-- name: owner
-- what became of the job that another one was a duplicate of
SELECT state FROM (
    SELECT state, 1 AS place FROM redisjobs.outbox WHERE id = %(id)s
    UNION ALL SELECT 'dead', 2 FROM redisjobs.dead WHERE id = %(id)s
    UNION ALL SELECT state, 3 FROM redisjobs.finished WHERE id = %(id)s) AS found
ORDER BY place LIMIT 1;

-- name: waits
-- what a run waits for: the oldest of its open records
SELECT name, kind, event, key, child, date_part('epoch', due - clock_timestamp()) AS due_in_s
FROM redisjobs.steps WHERE run = %(id)s AND state = 'waiting' ORDER BY seq LIMIT %(most)s;

-- name: doubt
-- for an id without a row: transactions of this database that may be about to commit it, by now
SELECT count(*) FILTER (WHERE backend_xid IS NOT NULL) AS writing,
       coalesce(max(date_part('epoch', clock_timestamp() - xact_start)) FILTER (WHERE backend_xid IS NOT NULL), 0)
           AS oldest_s,
       count(*) FILTER (WHERE backend_type IS NULL) AS hidden,
       (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()) AS prepared
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
