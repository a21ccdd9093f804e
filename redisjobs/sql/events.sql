-- Statements of those who send events, on their own connection and in their own transaction. INSERT is all they need.

-- name: send
-- one event; it is kept for so many seconds of Postgres' time
INSERT INTO redisjobs.events (name, key, input, payload, codec, expires_at)
VALUES (%(name)s::text, %(key)s::text, %(input)s::json, %(payload)s::bytea, %(codec)s::text,
        clock_timestamp() + make_interval(secs => %(expires_in)s::float8));

-- name: send_many
-- many events in one statement, in the order in which they were given
INSERT INTO redisjobs.events (name, key, input, payload, codec, expires_at)
SELECT e.name, e.key, e.input::json, e.payload, e.codec, clock_timestamp() + make_interval(secs => e.expires_in)
FROM unnest(%(name)s::text[], %(key)s::text[], %(input)s::text[], %(payload)s::bytea[], %(codec)s::text[], %(expires_in)s::float8[])
     WITH ORDINALITY AS e(name, key, input, payload, codec, expires_in, place)
ORDER BY e.place;
