-- Statements of schedulers. Time is that of Postgres.

-- name: due
-- schedules whose time has come, and some that no scheduler has looked at since they changed
SELECT s.name, s.revision, s.cron, date_part('epoch', s.every), s.zone, s.starts_at, s.ends_at, date_part('epoch', s.jitter),
       s.catch_up, s.max_catch_up, date_part('epoch', s.misfire_grace), s.overlap, s.headers::text,
       s.watermark, CASE WHEN NOT s.stale THEN s.next_run END, s.last_job,
       s.overlap <> 'allow' AND EXISTS (SELECT FROM redisjobs.outbox o WHERE o.id = s.last_job) AS running,
       clock_timestamp() AS now
FROM ((SELECT * FROM redisjobs.schedules WHERE enabled AND NOT stale AND next_run <= clock_timestamp()
       ORDER BY next_run LIMIT %(limit)s)
      UNION ALL
      (SELECT * FROM redisjobs.schedules WHERE enabled AND stale ORDER BY name LIMIT %(limit)s)) AS s
LIMIT %(limit)s;

-- name: dispatch
-- moves watermarks, each from the value that was read and no other, and stages what is due; answers the names that were moved
WITH mine AS (
    SELECT g.* FROM unnest(%(name)s::text[], %(revision)s::bigint[], %(old)s::timestamptz[], %(watermark)s::timestamptz[],
                           %(next_run)s::timestamptz[], %(trouble)s::text[], %(passed_over)s::text[], %(number)s::integer[],
                           %(last_at)s::timestamptz[], %(last_id)s::uuid[])
         AS g(name, revision, old, watermark, next_run, trouble, passed_over, number, last_at, last_id)
    JOIN redisjobs.schedules s ON s.name = g.name
    WHERE s.revision = g.revision AND s.watermark = g.old AND s.enabled
      -- none early; one that stays may be ahead, after the clock was put back
      AND (g.watermark <= clock_timestamp() OR g.watermark = g.old)
    FOR UPDATE OF s SKIP LOCKED),
called AS (
    SELECT * FROM unnest(%(of)s::text[], %(id)s::uuid[], %(key)s::text[], %(occurrence)s::timestamptz[], %(delay)s::float8[],
                         %(headers)s::text[])
         WITH ORDINALITY AS c(name, id, key, occurrence, delay, headers, place)),
moved AS (
    UPDATE redisjobs.schedules s
    SET watermark = m.watermark, next_run = m.next_run, stale = false, reader = %(reader)s, trouble = m.trouble,
        passed_over = coalesce(m.passed_over::jsonb, s.passed_over), dispatches = s.dispatches + m.number,
        last_dispatch = CASE WHEN m.number > 0 THEN clock_timestamp() ELSE s.last_dispatch END,
        last_occurrence = coalesce(m.last_at, s.last_occurrence), last_job = coalesce(m.last_id, s.last_job)
    FROM mine m
    WHERE s.name = m.name AND s.revision = m.revision AND s.watermark = m.old
    RETURNING s.name, s.job, s.queue, s.input, s.payload, s.codec, s.priority, s.max_attempts, s.expires_in, s.tenant_id,
              s.lane, s.share_key, s.idempotency_key, s.key_policy, s.key_window, s.key_wait, s.key_longest),
staged AS (
    INSERT INTO redisjobs.outbox (id, job, queue, input, payload, codec, idempotency_key, priority, max_attempts, run_at,
                                  expires_at, tenant_id, enqueued_by, headers, lane, share_key, key_policy, key_window, key_wait,
                                  key_longest)
    SELECT c.id, m.job, m.queue, m.input, m.payload, m.codec, coalesce(m.idempotency_key, c.key), m.priority, m.max_attempts,
           clock_timestamp() + make_interval(secs => nullif(c.delay, 0)),
           clock_timestamp() + make_interval(secs => c.delay) + m.expires_in, m.tenant_id, left('schedule ' || m.name, 200),
           c.headers::json, m.lane, m.share_key, m.key_policy, m.key_window, m.key_wait, m.key_longest
    FROM called c JOIN moved m ON m.name = c.name
    ORDER BY c.occurrence, c.place)
SELECT name FROM moved;

-- name: cancel
-- the end of jobs that a newer dispatch of their schedule takes the place of
SELECT redisjobs.cancel(i.id) FROM unnest(%(ids)s::uuid[]) AS i(id);

-- name: wait
-- seconds until a schedule is due by what is known, and whether some must be looked at first
SELECT date_part('epoch', (SELECT min(next_run) FROM redisjobs.schedules WHERE enabled AND NOT stale) - clock_timestamp()),
       EXISTS (SELECT FROM redisjobs.schedules WHERE enabled AND stale);

-- name: declared
-- what a program of this name has declared before
SELECT name, job FROM redisjobs.schedules WHERE declared_by = %(app)s ORDER BY name;

-- name: reread
-- another version of the rules of time zones, or of what reads expressions, may see other moments
UPDATE redisjobs.schedules SET stale = true WHERE reader <> %(reader)s AND NOT stale;
