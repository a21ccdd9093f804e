-- Schedules: jobs that are asked for again and again, by a cron expression or an even interval.
--
-- A row says what is asked for and when; any number of schedulers read the rows that are due and dispatch. A dispatch is one
-- transaction: the job's row in `outbox`, and here the watermark, moved from the value that the scheduler had read and from no
-- other. All occurrences up to the watermark are dealt with; those behind it are not. When a schedule is new, or changes what it
-- is due by, or goes on after a pause, its watermark is now: nothing is dispatched for the past.
--
-- SQL cannot read cron expressions. So `next_run` is filled in by a scheduler, and a row whose definition changed is `stale`
-- until one has looked at it; what no scheduler can read says so in `trouble`.

CREATE TABLE redisjobs.schedules (
    name text PRIMARY KEY,
    -- what is asked for, as in `outbox`
    job text NOT NULL,
    queue text NOT NULL DEFAULT 'default',
    input json,
    payload bytea,
    codec text,
    priority smallint NOT NULL DEFAULT 0,
    max_attempts integer,
    expires_in interval,
    tenant_id text,
    headers json,
    -- when
    cron text,
    every interval,
    zone text NOT NULL DEFAULT 'UTC',
    starts_at timestamptz,
    ends_at timestamptz,
    jitter interval NOT NULL DEFAULT '0',
    -- what if it comes late, or the last job still runs
    catch_up text NOT NULL DEFAULT 'skip',
    max_catch_up integer NOT NULL DEFAULT 10,
    misfire_grace interval,
    overlap text NOT NULL DEFAULT 'allow',
    enabled boolean NOT NULL DEFAULT true,
    declared_by text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- kept by redisjobs
    revision bigint NOT NULL DEFAULT 0,
    watermark timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_run timestamptz,
    stale boolean NOT NULL DEFAULT true,
    reader text,
    trouble text,
    dispatches bigint NOT NULL DEFAULT 0,
    last_dispatch timestamptz,
    last_occurrence timestamptz,
    last_job uuid,
    passed_over jsonb,

    CONSTRAINT name_is_a_name CHECK (char_length(name) <= 200 AND octet_length(name) <= 400
                                     AND name ~ '[^[:space:]]' AND name !~ '[[:cntrl:]]'),
    CONSTRAINT job_is_a_name CHECK (char_length(job) <= 200 AND job ~ '[^[:space:]]' AND job !~ '[[:cntrl:]]'),
    CONSTRAINT queue_is_a_name CHECK (char_length(queue) <= 128 AND queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'),
    CONSTRAINT input_or_payload CHECK (num_nonnulls(input, payload) = 1),
    CONSTRAINT codec_goes_with_payload CHECK ((codec IS NULL) = (payload IS NULL)),
    CONSTRAINT codec_is_a_name CHECK (codec ~ '^[a-z0-9_.-]{1,40}$'),
    CONSTRAINT input_is_object_or_array CHECK (json_typeof(input) IN ('object', 'array')),
    CONSTRAINT input_at_most_1_mib CHECK (octet_length(input::text) <= 1048576),
    CONSTRAINT payload_at_most_1_mib CHECK (octet_length(payload) <= 1048576),
    CONSTRAINT priority_within_100 CHECK (priority BETWEEN -100 AND 100),
    CONSTRAINT max_attempts_1_to_1000 CHECK (max_attempts BETWEEN 1 AND 1000),
    CONSTRAINT expires_in_1_s_to_366_days CHECK (expires_in BETWEEN interval '1 second' AND interval '366 days'),
    CONSTRAINT tenant_id_1_to_200_characters CHECK (char_length(tenant_id) BETWEEN 1 AND 200),
    CONSTRAINT headers_are_an_object CHECK (json_typeof(headers) = 'object'),
    -- what a dispatch adds to them must still fit
    CONSTRAINT headers_at_most_14_kib CHECK (octet_length(headers::text) <= 14336),
    CONSTRAINT cron_or_every CHECK (num_nonnulls(cron, every) = 1),
    CONSTRAINT cron_at_most_200_characters CHECK (char_length(cron) <= 200),
    CONSTRAINT every_1_s_to_366_days CHECK (every BETWEEN interval '1 second' AND interval '366 days'),
    CONSTRAINT zone_at_most_100_characters CHECK (char_length(zone) BETWEEN 1 AND 100),
    CONSTRAINT starts_at_is_a_time CHECK (starts_at >= '1970-01-01 00:00:00+00' AND starts_at < '9999-01-01 00:00:00+00'),
    CONSTRAINT ends_at_is_a_time CHECK (ends_at >= '1970-01-01 00:00:00+00' AND ends_at < '9999-01-01 00:00:00+00'),
    CONSTRAINT ends_after_it_starts CHECK (ends_at >= starts_at),
    CONSTRAINT jitter_0_to_1_day CHECK (jitter BETWEEN interval '0' AND interval '1 day'),
    CONSTRAINT catch_up_is_known CHECK (catch_up IN ('skip', 'run_once', 'run_all')),
    CONSTRAINT max_catch_up_1_to_1000 CHECK (max_catch_up BETWEEN 1 AND 1000),
    CONSTRAINT misfire_grace_1_s_to_366_days CHECK (misfire_grace BETWEEN interval '1 second' AND interval '366 days'),
    CONSTRAINT overlap_is_known CHECK (overlap IN ('allow', 'skip', 'cancel')),
    -- what would catch up with each occurrence would be passed over, or cancelled, at once
    CONSTRAINT run_all_allows_overlap CHECK (catch_up <> 'run_all' OR overlap = 'allow')
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);
CREATE INDEX schedules_due ON redisjobs.schedules (next_run) WHERE enabled AND NOT stale;
CREATE INDEX schedules_stale ON redisjobs.schedules (name) WHERE enabled AND stale;

-- A change of the definition makes the row stale, and says so to the schedulers. Where the row is due by something else now, or
-- goes on after a pause, it starts anew.
CREATE FUNCTION redisjobs.schedule_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        NEW.revision := OLD.revision + 1;
        IF (NEW.cron, NEW.every, NEW.zone) IS DISTINCT FROM (OLD.cron, OLD.every, OLD.zone) OR (NEW.enabled AND NOT OLD.enabled) THEN
            NEW.watermark := greatest(OLD.watermark, clock_timestamp());
        END IF;
    END IF;
    NEW.stale := true;
    NEW.trouble := NULL;
    PERFORM pg_notify('redisjobs.schedules', '');
    RETURN NEW;
END $$;
CREATE TRIGGER changed BEFORE INSERT OR UPDATE OF
    job, queue, input, payload, codec, priority, max_attempts, expires_in, tenant_id, headers, cron, every, zone, starts_at, ends_at,
    jitter, catch_up, max_catch_up, misfire_grace, overlap, enabled ON redisjobs.schedules
    FOR EACH ROW EXECUTE FUNCTION redisjobs.schedule_changed();

-- Makes a schedule, or changes the one of this name; what is not given is as by default. Answers whether anything changed.
-- One that a program declares in its code keeps its pause, and is changed by that program alone.
CREATE FUNCTION redisjobs.schedule(
    name text,
    job text,
    cron text DEFAULT NULL,
    input json DEFAULT NULL,
    every interval DEFAULT NULL,
    zone text DEFAULT 'UTC',
    queue text DEFAULT 'default',
    catch_up text DEFAULT 'skip',
    max_catch_up integer DEFAULT 10,
    misfire_grace interval DEFAULT NULL,
    overlap text DEFAULT 'allow',
    jitter interval DEFAULT '0',
    starts_at timestamptz DEFAULT NULL,
    ends_at timestamptz DEFAULT NULL,
    enabled boolean DEFAULT NULL,
    priority integer DEFAULT 0,
    max_attempts integer DEFAULT NULL,
    expires_in interval DEFAULT NULL,
    tenant_id text DEFAULT NULL,
    headers json DEFAULT NULL,
    payload bytea DEFAULT NULL,
    codec text DEFAULT NULL,
    declared_by text DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    known redisjobs.schedules;
BEGIN
    IF input IS NULL AND payload IS NULL THEN
        input := '{}';
    END IF;
    INSERT INTO redisjobs.schedules AS s (name, job, queue, input, payload, codec, priority, max_attempts, expires_in, tenant_id, headers,
                                          cron, every, zone, starts_at, ends_at, jitter, catch_up, max_catch_up, misfire_grace,
                                          overlap, enabled, declared_by)
    VALUES (name, job, queue, input, payload, codec, priority, max_attempts, expires_in, tenant_id, headers,
            cron, every, zone, starts_at, ends_at, jitter, catch_up, max_catch_up, misfire_grace,
            overlap, coalesce(enabled, true), declared_by)
    ON CONFLICT ON CONSTRAINT schedules_pkey DO NOTHING;
    IF FOUND THEN
        RETURN true;
    END IF;
    SELECT s.* INTO known FROM redisjobs.schedules s WHERE s.name = schedule.name FOR UPDATE;
    IF known.declared_by IS DISTINCT FROM declared_by THEN
        RAISE EXCEPTION 'schedule %: it is %, and this call is from %: give one of them another name', name,
            coalesce('declared by the app ' || known.declared_by, 'made at run time'), coalesce('the app ' || declared_by, 'run time')
            USING ERRCODE = 'unique_violation';
    END IF;
    IF (known.job, known.queue, known.input::text, known.payload, known.codec, known.priority, known.max_attempts, known.expires_in,
        known.tenant_id, known.headers::text, known.cron, known.every, known.zone, known.starts_at, known.ends_at, known.jitter,
        known.catch_up, known.max_catch_up, known.misfire_grace, known.overlap, known.enabled)
       IS NOT DISTINCT FROM
       (job, queue, input::text, payload, codec, priority::smallint, max_attempts, expires_in, tenant_id, headers::text, cron, every,
        zone, starts_at, ends_at, jitter, catch_up, max_catch_up, misfire_grace, overlap, coalesce(enabled, known.enabled)) THEN
        RETURN false;
    END IF;
    UPDATE redisjobs.schedules s
    SET job = schedule.job, queue = schedule.queue, input = schedule.input, payload = schedule.payload, codec = schedule.codec,
        priority = schedule.priority, max_attempts = schedule.max_attempts, expires_in = schedule.expires_in,
        tenant_id = schedule.tenant_id, headers = schedule.headers, cron = schedule.cron, every = schedule.every, zone = schedule.zone,
        starts_at = schedule.starts_at, ends_at = schedule.ends_at, jitter = schedule.jitter, catch_up = schedule.catch_up,
        max_catch_up = schedule.max_catch_up, misfire_grace = schedule.misfire_grace, overlap = schedule.overlap,
        enabled = coalesce(schedule.enabled, known.enabled)
    WHERE s.name = schedule.name;
    RETURN true;
END $$;

-- Stops a schedule, or goes on with it from now; what came due meanwhile is not made up for. Answers whether there is such a one.
CREATE FUNCTION redisjobs.pause_schedule(schedule text, pause boolean DEFAULT true) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE redisjobs.schedules SET enabled = NOT pause WHERE name = schedule AND enabled = pause;
    RETURN EXISTS (SELECT FROM redisjobs.schedules WHERE name = schedule);
END $$;

-- Takes a schedule away; jobs that it has asked for go on. Answers whether there was such a one.
CREATE FUNCTION redisjobs.unschedule(schedule text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM redisjobs.schedules WHERE name = schedule;
    RETURN FOUND;
END $$;

-- Asks for the job of a schedule once, now and beside its occurrences, also while it is paused. Answers the job's id, or null
-- where there is no such schedule.
CREATE FUNCTION redisjobs.trigger_schedule(schedule text) RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' AS $$
    INSERT INTO redisjobs.outbox (job, queue, input, payload, codec, priority, max_attempts, expires_at, tenant_id, enqueued_by, headers)
    SELECT job, queue, input, payload, codec, priority, max_attempts, clock_timestamp() + expires_in, tenant_id,
           left('schedule ' || name, 200),
           (coalesce(headers::jsonb, '{}') || jsonb_build_object('redisjobs.schedule', jsonb_build_object(
                'name', name, 'zone', zone, 'at', to_char(clock_timestamp(), 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'),
                'triggered', true)))::json
    FROM redisjobs.schedules WHERE name = schedule
    RETURNING id
$$;

-- Rights. A scheduler keeps the schedules, and asks for jobs as a producer does.
CREATE FUNCTION redisjobs.grant_scheduler(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM redisjobs.grant_producer(grantee);
    EXECUTE format('GRANT SELECT, UPDATE ON redisjobs.schedules TO %I', grantee);
    EXECUTE format('GRANT SELECT (id) ON redisjobs.outbox TO %I', grantee);
    EXECUTE format('GRANT SELECT ON redisjobs.migrations TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.schedule, redisjobs.unschedule, redisjobs.cancel TO %I', grantee);
END $$;

CREATE OR REPLACE FUNCTION redisjobs.grant_operator(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT DELETE ON redisjobs.dead, redisjobs.steps TO %I', grantee);
    EXECUTE format('GRANT INSERT (name, key, input, payload, codec, expires_at) ON redisjobs.events TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.cancel, redisjobs.pause, redisjobs.redrive, redisjobs.set_aside,
                    redisjobs.send_event, redisjobs.delete_steps, redisjobs.fork_run, redisjobs.schedule, redisjobs.pause_schedule,
                    redisjobs.unschedule, redisjobs.trigger_schedule TO %I', grantee);
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redisjobs FROM PUBLIC;
