-- Statements of producers, on their own connection and in their own transaction. All of it needs INSERT alone.

-- name: stage
-- one call; times given as a distance are added to the time of Postgres, not to the caller's
INSERT INTO redisjobs.outbox (id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
                              run_at, expires_at, tenant_id, traceparent, enqueued_by, headers, version, lane, share_key,
                              key_policy, key_wait, key_longest, result_ttl)
VALUES (%(id)s::uuid, %(job)s::text, %(queue)s::text, %(input)s::json, %(payload)s::bytea, %(codec)s::text,
        %(idempotency_key)s::text, make_interval(secs => %(key_window)s::float8),
        %(priority)s::smallint, %(max_attempts)s::integer,
        coalesce(%(run_at)s::timestamptz, clock_timestamp() + make_interval(secs => %(delay)s::float8)),
        coalesce(%(expires_at)s::timestamptz, clock_timestamp() + make_interval(secs => %(expires_in)s::float8)),
        %(tenant_id)s::text, %(traceparent)s::text, %(enqueued_by)s::text, %(headers)s::json, %(version)s::text,
        %(lane)s::text, %(share_key)s::text, %(key_policy)s::text, make_interval(secs => %(key_wait)s::float8),
        make_interval(secs => %(key_longest)s::float8), make_interval(secs => %(result_ttl)s::float8));

-- name: stage_many
-- many calls in one statement, staged in the order in which they were given
INSERT INTO redisjobs.outbox (id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
                              run_at, expires_at, tenant_id, traceparent, enqueued_by, headers, version, lane, share_key,
                              key_policy, key_wait, key_longest, result_ttl)
SELECT c.id, c.job, c.queue, c.input::json, c.payload, c.codec,
       c.idempotency_key, make_interval(secs => c.key_window), c.priority, c.max_attempts,
       coalesce(c.run_at, clock_timestamp() + make_interval(secs => c.delay)),
       coalesce(c.expires_at, clock_timestamp() + make_interval(secs => c.expires_in)),
       c.tenant_id, c.traceparent, c.enqueued_by, c.headers::json, c.version, c.lane, c.share_key, c.key_policy,
       make_interval(secs => c.key_wait), make_interval(secs => c.key_longest),
       make_interval(secs => c.result_ttl)
FROM unnest(%(id)s::uuid[], %(job)s::text[], %(queue)s::text[], %(input)s::text[], %(payload)s::bytea[], %(codec)s::text[],
            %(idempotency_key)s::text[], %(key_window)s::float8[], %(priority)s::smallint[], %(max_attempts)s::integer[],
            %(run_at)s::timestamptz[], %(delay)s::float8[], %(expires_at)s::timestamptz[], %(expires_in)s::float8[],
            %(tenant_id)s::text[], %(traceparent)s::text[], %(enqueued_by)s::text[], %(headers)s::text[],
            %(version)s::text[], %(lane)s::text[], %(share_key)s::text[], %(key_policy)s::text[], %(key_wait)s::float8[],
            %(key_longest)s::float8[], %(result_ttl)s::float8[])
     WITH ORDINALITY AS c(id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
                          run_at, delay, expires_at, expires_in, tenant_id, traceparent, enqueued_by, headers, version, lane,
                          share_key, key_policy, key_wait, key_longest, result_ttl, place)
ORDER BY c.place;

-- name: cancel
-- flags the row; the relay that holds its queue ends the job (needs EXECUTE of the function, which operators have)
SELECT redisjobs.cancel(%(id)s::uuid);

-- name: reprioritize
-- another priority for a job that waits; where Redis has it, the relay moves it there (needs EXECUTE of the function)
SELECT redisjobs.reprioritize(%(id)s::uuid, %(priority)s::integer);

-- name: reschedule
-- another time for a job that waits: a moment, or a distance from the time of Postgres (likewise)
SELECT redisjobs.reschedule(%(id)s::uuid, %(run_at)s::timestamptz, make_interval(secs => %(delay)s::float8));
