-- Statements of webhooks: what a delivery asks, and what the command line does with endpoints.

-- name: find
-- an endpoint as a delivery needs it, with its secrets
SELECT url, secrets, headers, failures, failing_since, last_error, last_delivered_at, disabled_at, disabled_why
FROM redisjobs.webhook_target(%(name)s);

-- name: failed
-- an attempt that was not accepted
SELECT failures, disabled_why
FROM redisjobs.webhook_failed(%(name)s, %(error)s, %(final)s, %(gone)s, %(disable_after)s, %(declared)s);

-- name: delivered
-- an attempt that was accepted
SELECT redisjobs.webhook_delivered(%(name)s, %(declared)s);

-- name: may_look
-- whether this role may see endpoints at all: one that was granted its rights before they came may not yet
SELECT coalesce(has_table_privilege(to_regclass('redisjobs.webhook_endpoints'), 'SELECT'), false);

-- name: endpoints
-- every endpoint and how it behaves, without secrets
SELECT name, url, created_at, failures, failing_since, last_error, last_delivered_at, disabled_at, disabled_why
FROM redisjobs.webhook_endpoints ORDER BY name LIMIT %(limit)s;

-- name: endpoint
-- one of them
SELECT name, url, created_at, failures, failing_since, last_error, last_delivered_at, disabled_at, disabled_why
FROM redisjobs.webhook_endpoints WHERE name = %(name)s;

-- name: keys
-- what it has of secrets and headers, without their values
SELECT header, created_at, expires_at FROM redisjobs.webhook_keys(%(name)s);

-- name: add
-- stores one
SELECT redisjobs.webhook_add(%(name)s, %(url)s, %(secret)s, %(headers)s);

-- name: rotate
-- a new secret beside the old ones
SELECT redisjobs.webhook_rotate(%(name)s, %(secret)s, make_interval(secs => %(grace_s)s));

-- name: switch
-- disables one, or enables it
SELECT redisjobs.webhook_switch(%(name)s, %(why)s);

-- name: delete
-- forgets one
SELECT redisjobs.webhook_delete(%(name)s);

-- name: dead_of
-- the oldest dead deliveries to an endpoint that died in a span of time, behind the last one seen
SELECT id, died_at FROM redisjobs.dead
WHERE queue = %(queue)s AND job = %(job)s AND input ->> 'endpoint' = %(name)s
  AND died_at >= coalesce(%(since)s::timestamptz, '-infinity') AND died_at < %(until)s
  AND (died_at, id) > (%(died_at)s, %(id)s)
ORDER BY died_at, id LIMIT %(limit)s;

-- name: now
-- the time by which dead letters are judged
SELECT clock_timestamp();

-- name: test
-- asks for a delivery that an endpoint gets even while it is disabled
SELECT redisjobs.enqueue(%(job)s, %(input)s, queue => %(queue)s, max_attempts => 1, enqueued_by => 'redisjobs webhooks',
                         headers => %(headers)s);
