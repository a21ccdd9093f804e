-- The tables of redisjobs.
--
-- A job is one row of `outbox` from the commit that asks for it to its end. Producers in any
-- language write that row in their own transaction; committing is enqueuing.
--
--     staged      committed; the relay will publish it, in the order of `seq`
--     deferred    due later than the relay's horizon; waits here and costs Redis nothing
--     set_aside   an operator took it out of the way; nothing happens until it is put back
--     published   Redis has it: waiting in a stream, due soon, or running
--     retrying    Redis has it: an attempt failed, the next one is due at `run_at`
--     snoozed     Redis has it: its body asked to come back at `run_at`
--     suspended   Redis has it: a durable run that sleeps or waits
--     parked      Redis has it: no worker knows a job of this name yet
--
-- When a job ends its row leaves: to `finished` (done, cancelled, expired, deduplicated), which is
-- dropped by partition after its retention, or to `dead`, which is kept until redriven or purged.
-- So the hot table stays as small as the work that is under way.
--
-- `queues` has one row a queue: which relay holds it, under which token, until when, and which
-- life of Redis (`epoch`) its published rows belong to.

CREATE SCHEMA IF NOT EXISTS redisjobs;

CREATE TABLE redisjobs.migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    sha text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- An id whose first 48 bits are the time in ms (UUID version 7), so that the primary key grows at its right end.
CREATE FUNCTION redisjobs.new_id() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT (pg_catalog.lpad(pg_catalog.to_hex((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000)::bigint),
                            12, '0') || '7'
            || pg_catalog.substr(pg_catalog.replace(pg_catalog.gen_random_uuid()::text, '-', ''), 14))::uuid
$$;

CREATE TABLE redisjobs.outbox (
    -- kept by redisjobs; `xact` stands before `seq`, so that a transaction has its number before it takes a place in line
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 1),
    -- written by producers
    id uuid NOT NULL DEFAULT redisjobs.new_id(),
    job text NOT NULL,
    queue text NOT NULL DEFAULT 'default',
    input json,
    payload bytea,
    codec text,
    idempotency_key text,
    key_window interval,
    priority smallint NOT NULL DEFAULT 0,
    max_attempts integer,
    run_at timestamptz,
    expires_at timestamptz,
    tenant_id text,
    traceparent text,
    enqueued_by text,
    headers json,
    -- kept by redisjobs
    staged_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    state text NOT NULL DEFAULT 'staged',
    published_at timestamptz,
    publications integer NOT NULL DEFAULT 0,
    redrives integer NOT NULL DEFAULT 0,
    cancel_requested boolean NOT NULL DEFAULT false,
    attempts integer NOT NULL DEFAULT 0,
    last_error text,
    failures jsonb,
    fence bigint[],
    holder text,

    PRIMARY KEY (id),
    -- every update checks these again: a bound such as {1,200} in a pattern costs more than all the rest of it
    CONSTRAINT job_is_a_name CHECK (char_length(job) <= 200 AND job ~ '[^[:space:]]' AND job !~ '[[:cntrl:]]'),
    CONSTRAINT queue_is_a_name CHECK (char_length(queue) <= 128 AND queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'),
    CONSTRAINT input_or_payload CHECK (num_nonnulls(input, payload) = 1),
    CONSTRAINT codec_goes_with_payload CHECK ((codec IS NULL) = (payload IS NULL)),
    CONSTRAINT codec_is_a_name CHECK (codec ~ '^[a-z0-9_.-]{1,40}$'),
    CONSTRAINT input_is_object_or_array CHECK (json_typeof(input) IN ('object', 'array')),
    CONSTRAINT input_at_most_1_mib CHECK (octet_length(input::text) <= 1048576),
    CONSTRAINT payload_at_most_1_mib CHECK (octet_length(payload) <= 1048576),
    CONSTRAINT idempotency_key_1_to_512_bytes CHECK (octet_length(idempotency_key) BETWEEN 1 AND 512),
    CONSTRAINT key_window_goes_with_key CHECK (key_window IS NULL OR idempotency_key IS NOT NULL),
    CONSTRAINT key_window_0_to_366_days CHECK (key_window BETWEEN interval '0' AND interval '366 days'),
    CONSTRAINT priority_within_100 CHECK (priority BETWEEN -100 AND 100),
    CONSTRAINT max_attempts_1_to_1000 CHECK (max_attempts BETWEEN 1 AND 1000),
    -- no infinity, and nothing that the calendars of some languages cannot hold
    CONSTRAINT run_at_is_a_time CHECK (run_at >= '0002-01-01 00:00:00+00' AND run_at < '9999-01-01 00:00:00+00'),
    CONSTRAINT expires_at_is_a_time CHECK (expires_at >= '0002-01-01 00:00:00+00' AND expires_at < '9999-01-01 00:00:00+00'),
    CONSTRAINT tenant_id_1_to_200_characters CHECK (char_length(tenant_id) BETWEEN 1 AND 200),
    CONSTRAINT enqueued_by_at_most_200_characters CHECK (char_length(enqueued_by) <= 200),
    CONSTRAINT traceparent_is_w3c CHECK (traceparent ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'),
    CONSTRAINT headers_are_an_object CHECK (json_typeof(headers) = 'object'),
    CONSTRAINT headers_at_most_16_kib CHECK (octet_length(headers::text) <= 16384),
    CONSTRAINT state_is_known CHECK (state IN
        ('staged', 'deferred', 'set_aside', 'published', 'retrying', 'snoozed', 'suspended', 'parked'))
) WITH (
    -- a hot, small table: vacuum by count, not by share, and without pauses
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 20000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX outbox_staged ON redisjobs.outbox (queue, seq) WHERE state = 'staged';
CREATE INDEX outbox_deferred ON redisjobs.outbox (queue, run_at) WHERE state = 'deferred';
CREATE INDEX outbox_cancels ON redisjobs.outbox (queue, id) WHERE cancel_requested;

CREATE TABLE redisjobs.queues (
    queue text PRIMARY KEY CHECK (char_length(queue) <= 128 AND queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'),
    holder text,
    token bigint NOT NULL DEFAULT 0,
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    epoch text,
    paused boolean NOT NULL DEFAULT false,
    asleep boolean NOT NULL DEFAULT true,
    failing jsonb
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

CREATE TABLE redisjobs.dead (
    id uuid PRIMARY KEY,
    job text NOT NULL,
    queue text NOT NULL,
    input json,
    payload bytea,
    codec text,
    idempotency_key text,
    key_window interval,
    priority smallint NOT NULL DEFAULT 0,
    max_attempts integer,
    run_at timestamptz,
    expires_at timestamptz,
    tenant_id text,
    traceparent text,
    enqueued_by text,
    headers json,
    staged_at timestamptz,
    publications integer NOT NULL DEFAULT 0,
    redrives integer NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    reason text NOT NULL,
    failures jsonb,
    fence bigint[],
    died_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX dead_by_time ON redisjobs.dead (died_at, id);
CREATE INDEX dead_by_job ON redisjobs.dead (queue, job, died_at);

CREATE TABLE redisjobs.finished (
    id uuid NOT NULL,
    job text NOT NULL,
    queue text NOT NULL,
    state text NOT NULL CHECK (state IN ('done', 'cancelled', 'expired', 'deduplicated')),
    attempts integer NOT NULL DEFAULT 0,
    redrives integer NOT NULL DEFAULT 0,
    tenant_id text,
    staged_at timestamptz,
    finished_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    keep_until timestamptz NOT NULL,
    idempotency_key text,
    key_until timestamptz,
    duplicate_of uuid,
    last_error text,
    result bytea,
    result_codec text
) PARTITION BY RANGE (keep_until);
-- what is kept until an hour that has no partition yet; nothing may ever fail for want of one
CREATE TABLE redisjobs.finished_other PARTITION OF redisjobs.finished DEFAULT;
CREATE INDEX finished_id ON redisjobs.finished (id);
CREATE INDEX finished_keys ON redisjobs.finished (queue, key_until) WHERE key_until IS NOT NULL;

-- Makes the hour's partition of `finished` that rows kept until `until` go to; safe to call again and side by side.
-- Where a reader stands in the way it gives up: the rows then go to `finished_other`.
CREATE FUNCTION redisjobs.make_room(until timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
SET TimeZone = 'UTC' SET DateStyle = 'ISO' AS $$
DECLARE
    starts timestamptz := to_timestamp(floor(date_part('epoch', until) / 3600) * 3600);
    part text := 'finished_' || to_char(starts AT TIME ZONE 'UTC', 'YYYYMMDDHH24');
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('redisjobs.finished', 0));
    IF to_regclass('redisjobs.' || part) IS NULL THEN
        EXECUTE format('CREATE TABLE redisjobs.%I (LIKE redisjobs.finished INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
        EXECUTE format('WITH moved AS (DELETE FROM redisjobs.finished_other WHERE keep_until >= %L AND keep_until < %L RETURNING *)
                        INSERT INTO redisjobs.%I SELECT * FROM moved', starts, starts + interval '1 hour', part);
        EXECUTE format('ALTER TABLE redisjobs.finished ATTACH PARTITION redisjobs.%I FOR VALUES FROM (%L) TO (%L)',
                       part, starts, starts + interval '1 hour');
    END IF;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END $$;

-- Drops the partitions whose retention is over; answers how many. What a reader stands before is dropped another time.
CREATE FUNCTION redisjobs.drop_finished() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    part text;
    dropped integer := 0;
BEGIN
    DELETE FROM redisjobs.finished_other WHERE keep_until < now();
    PERFORM pg_advisory_xact_lock(hashtextextended('redisjobs.finished', 0));
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'redisjobs.finished'::regclass AND c.relname ~ '^finished_[0-9]{10}$'
          AND make_timestamptz(substr(c.relname, 10, 4)::int, substr(c.relname, 14, 2)::int, substr(c.relname, 16, 2)::int,
                               substr(c.relname, 18, 2)::int, 0, 0, 'UTC') + interval '1 hour' < now()
    LOOP
        BEGIN
            EXECUTE format('DROP TABLE redisjobs.%I', part);
            dropped := dropped + 1;
        EXCEPTION WHEN lock_not_available THEN
            EXIT;
        END;
    END LOOP;
    RETURN dropped;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END $$;

-- Wakes the relay of a queue that has said it is asleep, or that no relay has seen yet. A busy relay
-- polls, and its producers pay nothing: NOTIFY takes a lock that all committing sessions share.
CREATE FUNCTION redisjobs.wake() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_notify('redisjobs.wake', n.queue)
    FROM (SELECT DISTINCT queue FROM new_rows) n
    LEFT JOIN redisjobs.queues q ON q.queue = n.queue
    WHERE q.asleep IS NOT FALSE;
    RETURN NULL;
END $$;
CREATE TRIGGER wake AFTER INSERT ON redisjobs.outbox
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION redisjobs.wake();

-- Asks for a job; the one-line door for psql, triggers and other languages. Answers the job's id.
CREATE FUNCTION redisjobs.enqueue(
    job text,
    input json DEFAULT '{}',
    queue text DEFAULT 'default',
    run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    key_window interval DEFAULT NULL,
    priority integer DEFAULT 0,
    max_attempts integer DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    tenant_id text DEFAULT NULL,
    traceparent text DEFAULT NULL,
    enqueued_by text DEFAULT NULL,
    headers json DEFAULT NULL,
    id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
BEGIN
    IF run_at IS NOT NULL AND delay IS NOT NULL THEN
        RAISE EXCEPTION 'enqueue(%): give run_at or delay, not both', job USING ERRCODE = 'invalid_parameter_value';
    END IF;
    id := coalesce(id, redisjobs.new_id());
    INSERT INTO redisjobs.outbox (id, job, queue, input, idempotency_key, key_window, priority, max_attempts, run_at,
                                  expires_at, tenant_id, traceparent, enqueued_by, headers)
    VALUES (id, job, queue, input, idempotency_key, key_window, priority, max_attempts,
            coalesce(run_at, clock_timestamp() + delay), expires_at, tenant_id, traceparent, enqueued_by, headers);
    RETURN id;
END $$;

-- Asks for a job's end, in the caller's transaction. Answers requested, or what the job has become: done, dead, … or unknown.
CREATE FUNCTION redisjobs.cancel(job_id uuid) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place text;
BEGIN
    UPDATE redisjobs.outbox SET cancel_requested = true WHERE id = job_id RETURNING queue INTO place;
    IF FOUND THEN
        PERFORM pg_notify('redisjobs.wake', place);
        RETURN 'requested';
    END IF;
    SELECT state INTO place FROM redisjobs.finished WHERE id = job_id ORDER BY finished_at DESC LIMIT 1;
    IF FOUND THEN
        RETURN place;
    END IF;
    RETURN CASE WHEN EXISTS (SELECT FROM redisjobs.dead WHERE id = job_id) THEN 'dead' ELSE 'unknown' END;
END $$;

-- Stops, or goes on with, the starting of a queue's jobs; producers go on committing.
CREATE FUNCTION redisjobs.pause(queue_name text, pause boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO redisjobs.queues (queue, paused) VALUES (queue_name, pause)
    ON CONFLICT (queue) DO UPDATE SET paused = excluded.paused;
    PERFORM pg_notify('redisjobs.wake', '!');
END $$;

-- Gives dead letters a new life: the same id and arguments, fresh attempts. Answers how many came back; one whose id was
-- used once more stays as long as that job lives.
CREATE FUNCTION redisjobs.redrive(ids uuid[]) RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH back AS (DELETE FROM redisjobs.dead d WHERE id = ANY (ids)
                  AND NOT EXISTS (SELECT FROM redisjobs.outbox o WHERE o.id = d.id) RETURNING *),
    staged AS (
        INSERT INTO redisjobs.outbox (id, job, queue, input, payload, codec, idempotency_key, key_window, priority,
                                      max_attempts, tenant_id, traceparent, enqueued_by, headers,
                                      publications, redrives, failures, fence)
        SELECT id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts, tenant_id,
               traceparent, enqueued_by, headers, publications + 1, redrives + 1, failures, ARRAY[publications + 1, 0]
        FROM back ORDER BY died_at, id
        RETURNING 1)
    SELECT count(*)::integer FROM staged
$$;

-- Takes staged rows out of the way, or puts rows that were set aside back at the end of their queue's line.
CREATE FUNCTION redisjobs.set_aside(ids uuid[], aside boolean DEFAULT true) RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH moved AS (
        UPDATE redisjobs.outbox
        SET state = CASE WHEN aside THEN 'set_aside' ELSE 'staged' END, xact = pg_current_xact_id(), seq = DEFAULT
        WHERE id = ANY (ids) AND state = CASE WHEN aside THEN 'staged' ELSE 'set_aside' END
        RETURNING queue),
    told AS (SELECT pg_notify('redisjobs.wake', queue) FROM (SELECT DISTINCT queue FROM moved) q)
    SELECT (SELECT count(*) FROM moved)::integer + 0 * (SELECT count(*) FROM told)::integer
$$;

-- Rights. A producer asks for jobs and can do nothing else; a relay carries; an operator looks, cancels and redrives.
CREATE FUNCTION redisjobs.grant_producer(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT INSERT (id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
                    run_at, expires_at, tenant_id, traceparent, enqueued_by, headers) ON redisjobs.outbox TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.enqueue, redisjobs.new_id TO %I', grantee);
END $$;

CREATE FUNCTION redisjobs.grant_relay(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT SELECT, UPDATE, DELETE ON redisjobs.outbox TO %I', grantee);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON redisjobs.queues TO %I', grantee);
    EXECUTE format('GRANT SELECT, INSERT ON redisjobs.finished TO %I', grantee);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON redisjobs.dead TO %I', grantee);
    EXECUTE format('GRANT SELECT ON redisjobs.migrations TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.make_room, redisjobs.drop_finished TO %I', grantee);
END $$;

CREATE FUNCTION redisjobs.grant_operator(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT DELETE ON redisjobs.dead TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.cancel, redisjobs.pause, redisjobs.redrive, redisjobs.set_aside TO %I', grantee);
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redisjobs FROM PUBLIC;
