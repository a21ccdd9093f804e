-- Statements about schedules, on whatever connection a program or an operator has.

-- name: create
-- makes a schedule, or changes the one of this name; answers whether that changed anything
SELECT redisjobs.schedule(
    name => %(name)s::text, job => %(job)s::text, cron => %(cron)s::text, input => %(input)s::json,
    every => make_interval(secs => %(every)s::float8), zone => %(zone)s::text, queue => %(queue)s::text,
    catch_up => %(catch_up)s::text, max_catch_up => %(max_catch_up)s::integer,
    misfire_grace => make_interval(secs => %(misfire_grace)s::float8), overlap => %(overlap)s::text,
    jitter => make_interval(secs => %(jitter)s::float8), starts_at => %(starts_at)s::timestamptz,
    ends_at => %(ends_at)s::timestamptz, enabled => %(enabled)s::boolean, priority => %(priority)s::integer,
    max_attempts => %(max_attempts)s::integer, expires_in => make_interval(secs => %(expires_in)s::float8),
    tenant_id => %(tenant_id)s::text, headers => %(headers)s::json, payload => %(payload)s::bytea, codec => %(codec)s::text,
    declared_by => %(declared_by)s::text, lane => %(lane)s::text, share_key => %(share_key)s::text,
    idempotency_key => %(idempotency_key)s::text, key_policy => %(key_policy)s::text,
    key_window => make_interval(secs => %(key_window)s::float8), key_wait => make_interval(secs => %(key_wait)s::float8),
    key_longest => make_interval(secs => %(key_longest)s::float8));

-- name: unschedule
-- takes a schedule away
SELECT redisjobs.unschedule(%(name)s::text);

-- name: pause
-- stops a schedule, or goes on with it
SELECT redisjobs.pause_schedule(%(name)s::text, %(pause)s::boolean);

-- name: trigger
-- asks for its job once, now
SELECT redisjobs.trigger_schedule(%(name)s::text);
