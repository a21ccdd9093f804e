-- Statements of producers, on their own connection and in their own transaction. All of it needs INSERT alone.

-- name: stage
-- one call; times given as a distance are added to the time of Postgres, not to the caller's
INSERT INTO redisjobs.outbox (id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
                              run_at, expires_at, tenant_id, traceparent, enqueued_by, headers)
VALUES (%(id)s::uuid, %(job)s::text, %(queue)s::text, %(input)s::json, %(payload)s::bytea, %(codec)s::text,
        %(idempotency_key)s::text, make_interval(secs => %(key_window)s::float8),
        %(priority)s::smallint, %(max_attempts)s::integer,
        coalesce(%(run_at)s::timestamptz, clock_timestamp() + make_interval(secs => %(delay)s::float8)),
        coalesce(%(expires_at)s::timestamptz, clock_timestamp() + make_interval(secs => %(expires_in)s::float8)),
        %(tenant_id)s::text, %(traceparent)s::text, %(enqueued_by)s::text, %(headers)s::json);

-- name: stage_many
-- many calls in one statement, staged in the order in which they were given
INSERT INTO redisjobs.outbox (id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
                              run_at, expires_at, tenant_id, traceparent, enqueued_by, headers)
SELECT c.id, c.job, c.queue, c.input::json, c.payload, c.codec,
       c.idempotency_key, make_interval(secs => c.key_window), c.priority, c.max_attempts,
       coalesce(c.run_at, clock_timestamp() + make_interval(secs => c.delay)),
       coalesce(c.expires_at, clock_timestamp() + make_interval(secs => c.expires_in)),
       c.tenant_id, c.traceparent, c.enqueued_by, c.headers::json
FROM unnest(%(id)s::uuid[], %(job)s::text[], %(queue)s::text[], %(input)s::text[], %(payload)s::bytea[], %(codec)s::text[],
            %(idempotency_key)s::text[], %(key_window)s::float8[], %(priority)s::smallint[], %(max_attempts)s::integer[],
            %(run_at)s::timestamptz[], %(delay)s::float8[], %(expires_at)s::timestamptz[], %(expires_in)s::float8[],
            %(tenant_id)s::text[], %(traceparent)s::text[], %(enqueued_by)s::text[], %(headers)s::text[])
     WITH ORDINALITY AS c(id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
                          run_at, delay, expires_at, expires_in, tenant_id, traceparent, enqueued_by, headers, place)
ORDER BY c.place;

-- name: cancel
-- flags the row; the relay that holds its queue ends the job (needs EXECUTE of the function, which operators have)
SELECT redisjobs.cancel(%(id)s::uuid);
