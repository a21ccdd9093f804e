-- What an operator asks about schedules.

-- name: list
-- all schedules, or the one of this name; none of their arguments
SELECT name, job, queue, cron, date_part('epoch', every) AS every_s, zone, starts_at, ends_at,
       date_part('epoch', jitter) AS jitter_s, catch_up, max_catch_up, date_part('epoch', misfire_grace) AS grace_s, overlap,
       enabled, declared_by, tenant_id, created_at, watermark, next_run, stale, trouble, dispatches, last_dispatch,
       last_occurrence, last_job, passed_over, clock_timestamp() AS now
FROM redisjobs.schedules
WHERE %(name)s::text IS NULL OR name = %(name)s::text
ORDER BY name;
