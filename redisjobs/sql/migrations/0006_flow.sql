-- Flow control: what a job says of the others that it shares its queue with.
--
--     lane         jobs of one lane of a queue run one after another, in the order of staging
--     share_key    jobs of a queue are taken in turn by this key, so that no one's flood holds up the others
--     key_policy   what happens where a live job has the same idempotency key; the key is the group that it works in
--
-- Policies of a key; in all of them only what was committed counts, and the relay decides in the order of staging:
--
--     (none), skip   the new one is not run: it ends as deduplicated while the job that has the key lives, and for `key_window`
--                    after its end
--     throttle       the first one runs, and for `key_window` after its publication (or after its `run_at`, where that is later)
--                    none of the others does, whether or not it has ended
--     debounce       the last one runs, `key_wait` after the last call, and at most `key_longest` after the first; those before it
--                    that have not started end as deduplicated, and one that has started goes on
--     replace        the new one takes the place of the one that has the key, which is cancelled
--
-- `result_ttl` is for producers that wait for results: a job with a key that ends as a duplicate tells them whose result it is.
-- `key_since` is kept by redisjobs: since when the key of this row counts, or the burst that it ends.
-- All of it is in `dead` as well: a redriven job is under the same rules. A schedule's jobs have what its row says.

ALTER TABLE redisjobs.outbox
    ADD COLUMN lane text,
    ADD COLUMN share_key text,
    ADD COLUMN key_policy text,
    ADD COLUMN key_wait interval,
    ADD COLUMN key_longest interval,
    ADD COLUMN result_ttl interval,
    -- kept by redisjobs
    ADD COLUMN key_since timestamptz,
    ADD CONSTRAINT lane_1_to_200_characters CHECK (char_length(lane) BETWEEN 1 AND 200),
    ADD CONSTRAINT share_key_1_to_200_characters CHECK (char_length(share_key) BETWEEN 1 AND 200),
    ADD CONSTRAINT key_policy_is_known CHECK (key_policy IN ('skip', 'throttle', 'debounce', 'replace')),
    ADD CONSTRAINT key_policy_goes_with_key CHECK (key_policy IS NULL OR idempotency_key IS NOT NULL),
    ADD CONSTRAINT key_window_fits_the_policy CHECK (
        key_policy IS NULL OR key_policy = 'skip'
        OR CASE key_policy WHEN 'throttle' THEN key_window IS NOT NULL AND key_window > interval '0' ELSE key_window IS NULL END),
    ADD CONSTRAINT key_wait_goes_with_debounce CHECK (
        CASE WHEN key_policy = 'debounce' THEN key_wait IS NOT NULL AND key_wait BETWEEN interval '0' AND interval '366 days'
             ELSE key_wait IS NULL END),
    ADD CONSTRAINT key_longest_is_a_wait CHECK (
        key_longest IS NULL OR key_wait IS NOT NULL AND key_longest BETWEEN key_wait AND interval '366 days'),
    ADD CONSTRAINT result_ttl_0_to_366_days CHECK (result_ttl BETWEEN interval '0' AND interval '366 days');
COMMENT ON COLUMN redisjobs.outbox.lane IS 'jobs of one lane of the queue run one after another';
COMMENT ON COLUMN redisjobs.outbox.share_key IS 'jobs of the queue are taken in turn by this key';
COMMENT ON COLUMN redisjobs.outbox.key_policy IS 'what happens where a live job has the same idempotency key: skip, throttle, debounce, replace';
COMMENT ON COLUMN redisjobs.outbox.key_wait IS 'of debounce: how long after the last call the job runs';
COMMENT ON COLUMN redisjobs.outbox.key_longest IS 'of debounce: how long after the first call of a burst the job runs at the latest';
COMMENT ON COLUMN redisjobs.outbox.result_ttl IS 'for how long whoever waits for the result is told that another job has it';
COMMENT ON COLUMN redisjobs.outbox.key_since IS 'since when the key of this row counts, or the burst that it ends';

ALTER TABLE redisjobs.dead
    ADD COLUMN lane text, ADD COLUMN share_key text, ADD COLUMN key_policy text, ADD COLUMN key_wait interval,
    ADD COLUMN key_longest interval, ADD COLUMN key_since timestamptz;

ALTER TABLE redisjobs.schedules
    ADD COLUMN lane text,
    ADD COLUMN share_key text,
    ADD COLUMN idempotency_key text,
    ADD COLUMN key_policy text,
    ADD COLUMN key_window interval,
    ADD COLUMN key_wait interval,
    ADD COLUMN key_longest interval,
    ADD CONSTRAINT lane_1_to_200_characters CHECK (char_length(lane) BETWEEN 1 AND 200),
    ADD CONSTRAINT share_key_1_to_200_characters CHECK (char_length(share_key) BETWEEN 1 AND 200),
    ADD CONSTRAINT idempotency_key_1_to_512_bytes CHECK (octet_length(idempotency_key) BETWEEN 1 AND 512),
    -- without a policy each occurrence has a key of its own
    ADD CONSTRAINT key_goes_with_key_policy CHECK ((idempotency_key IS NULL) = (key_policy IS NULL)),
    ADD CONSTRAINT key_policy_is_known CHECK (key_policy IN ('skip', 'throttle', 'debounce', 'replace')),
    ADD CONSTRAINT key_window_fits_the_policy CHECK (
        CASE key_policy WHEN 'throttle' THEN key_window IS NOT NULL AND key_window > interval '0'
                        WHEN 'skip' THEN true ELSE key_window IS NULL END AND key_window <= interval '366 days'),
    ADD CONSTRAINT key_wait_goes_with_debounce CHECK (
        CASE WHEN key_policy = 'debounce' THEN key_wait IS NOT NULL AND key_wait BETWEEN interval '0' AND interval '366 days'
             ELSE key_wait IS NULL END),
    ADD CONSTRAINT key_longest_is_a_wait CHECK (
        key_longest IS NULL OR key_wait IS NOT NULL AND key_longest BETWEEN key_wait AND interval '366 days');

-- Asks for a job; the one-line door for psql, triggers and other languages. Answers the job's id.
ALTER FUNCTION redisjobs.enqueue RENAME TO enqueue_until_5;
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
    id uuid DEFAULT NULL,
    version text DEFAULT NULL,
    lane text DEFAULT NULL,
    share_key text DEFAULT NULL,
    key_policy text DEFAULT NULL,
    key_wait interval DEFAULT NULL,
    key_longest interval DEFAULT NULL,
    result_ttl interval DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
BEGIN
    IF run_at IS NOT NULL AND delay IS NOT NULL THEN
        RAISE EXCEPTION 'enqueue(%): give run_at or delay, not both', job USING ERRCODE = 'invalid_parameter_value';
    END IF;
    id := coalesce(id, redisjobs.new_id());
    INSERT INTO redisjobs.outbox (id, job, queue, input, idempotency_key, key_window, priority, max_attempts, run_at,
                                  expires_at, tenant_id, traceparent, enqueued_by, headers, version, lane, share_key, key_policy,
                                  key_wait, key_longest, result_ttl)
    VALUES (id, job, queue, input, idempotency_key, key_window, priority, max_attempts,
            coalesce(run_at, clock_timestamp() + delay), expires_at, tenant_id, traceparent, enqueued_by, headers, version, lane,
            share_key, key_policy, key_wait, key_longest, result_ttl);
    RETURN id;
END $$;

-- Makes a schedule, or changes the one of this name; what is not given is as by default. Answers whether anything changed.
-- One that a program declares in its code keeps its pause, and is changed by that program alone.
ALTER FUNCTION redisjobs.schedule RENAME TO schedule_until_5;
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
    declared_by text DEFAULT NULL,
    lane text DEFAULT NULL,
    share_key text DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    key_policy text DEFAULT NULL,
    key_window interval DEFAULT NULL,
    key_wait interval DEFAULT NULL,
    key_longest interval DEFAULT NULL
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
                                          overlap, enabled, declared_by, lane, share_key, idempotency_key, key_policy, key_window,
                                          key_wait, key_longest)
    VALUES (name, job, queue, input, payload, codec, priority, max_attempts, expires_in, tenant_id, headers,
            cron, every, zone, starts_at, ends_at, jitter, catch_up, max_catch_up, misfire_grace,
            overlap, coalesce(enabled, true), declared_by, lane, share_key, idempotency_key, key_policy, key_window, key_wait,
            key_longest)
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
        known.catch_up, known.max_catch_up, known.misfire_grace, known.overlap, known.enabled,
        known.lane, known.share_key, known.idempotency_key, known.key_policy, known.key_window, known.key_wait, known.key_longest)
       IS NOT DISTINCT FROM
       (job, queue, input::text, payload, codec, priority::smallint, max_attempts, expires_in, tenant_id, headers::text, cron, every,
        zone, starts_at, ends_at, jitter, catch_up, max_catch_up, misfire_grace, overlap, coalesce(enabled, known.enabled),
        lane, share_key, idempotency_key, key_policy, key_window, key_wait, key_longest) THEN
        RETURN false;
    END IF;
    UPDATE redisjobs.schedules s
    SET job = schedule.job, queue = schedule.queue, input = schedule.input, payload = schedule.payload, codec = schedule.codec,
        priority = schedule.priority, max_attempts = schedule.max_attempts, expires_in = schedule.expires_in,
        tenant_id = schedule.tenant_id, headers = schedule.headers, cron = schedule.cron, every = schedule.every, zone = schedule.zone,
        starts_at = schedule.starts_at, ends_at = schedule.ends_at, jitter = schedule.jitter, catch_up = schedule.catch_up,
        max_catch_up = schedule.max_catch_up, misfire_grace = schedule.misfire_grace, overlap = schedule.overlap,
        enabled = coalesce(schedule.enabled, known.enabled), lane = schedule.lane, share_key = schedule.share_key,
        idempotency_key = schedule.idempotency_key, key_policy = schedule.key_policy, key_window = schedule.key_window,
        key_wait = schedule.key_wait, key_longest = schedule.key_longest
    WHERE s.name = schedule.name;
    RETURN true;
END $$;

-- Asks for the job of a schedule once, now and beside its occurrences, also while it is paused. Answers the job's id, or null
-- where there is no such schedule.
CREATE OR REPLACE FUNCTION redisjobs.trigger_schedule(schedule text) RETURNS uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' AS $$
    INSERT INTO redisjobs.outbox (job, queue, input, payload, codec, priority, max_attempts, expires_at, tenant_id, enqueued_by, lane,
                                  share_key, idempotency_key, key_policy, key_window, key_wait, key_longest, headers)
    SELECT job, queue, input, payload, codec, priority, max_attempts, clock_timestamp() + expires_in, tenant_id,
           left('schedule ' || name, 200), lane, share_key, idempotency_key, key_policy, key_window, key_wait, key_longest,
           (coalesce(headers::jsonb, '{}') || jsonb_build_object('redisjobs.schedule', jsonb_build_object(
                'name', name, 'zone', zone, 'at', to_char(clock_timestamp(), 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'),
                'triggered', true)))::json
    FROM redisjobs.schedules WHERE name = schedule
    RETURNING id
$$;

CREATE OR REPLACE TRIGGER changed BEFORE INSERT OR UPDATE OF
    job, queue, input, payload, codec, priority, max_attempts, expires_in, tenant_id, headers, cron, every, zone, starts_at, ends_at,
    jitter, catch_up, max_catch_up, misfire_grace, overlap, enabled, lane, share_key, idempotency_key, key_policy, key_window,
    key_wait, key_longest ON redisjobs.schedules
    FOR EACH ROW EXECUTE FUNCTION redisjobs.schedule_changed();

-- A redriven run replays its records; its undos, should it need them again, are new ones.
CREATE OR REPLACE FUNCTION redisjobs.redrive(ids uuid[]) RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH back AS (DELETE FROM redisjobs.dead d WHERE id = ANY (ids)
                  AND NOT EXISTS (SELECT FROM redisjobs.outbox o WHERE o.id = d.id) RETURNING *),
    forgotten AS (DELETE FROM redisjobs.steps s USING back b WHERE b.fence IS NOT NULL AND s.run = b.id AND s.kind = 'undo'),
    staged AS (
        INSERT INTO redisjobs.outbox (id, job, queue, input, payload, codec, idempotency_key, key_window, priority,
                                      max_attempts, tenant_id, traceparent, enqueued_by, headers, version, lane, share_key,
                                      key_policy, key_wait, key_longest, undo, publications, redrives, failures, fence)
        SELECT id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts, tenant_id,
               traceparent, enqueued_by, headers, version, lane, share_key, key_policy, key_wait, key_longest,
               fence IS NOT NULL AND EXISTS (SELECT FROM redisjobs.steps s WHERE s.run = b.id AND s.undo),
               publications + 1, redrives + 1, failures, ARRAY[publications + 1, 0]
        FROM back b ORDER BY died_at, id
        RETURNING 1)
    SELECT count(*)::integer FROM staged
$$;

-- Begins a new run with the arguments of a live or dead one and with its records before a step; answers the new run's id, or null
-- where there is no such run or it has no such step. What is done is not done again; children and sleeps that have begun go on for
-- both. Its idempotency key with its policy, its times and its parent stay with the old one.
CREATE OR REPLACE FUNCTION redisjobs.fork_run(run_id uuid, from_step text, new_id uuid DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place bigint;
BEGIN
    new_id := coalesce(new_id, redisjobs.new_id());
    PERFORM 1 FROM redisjobs.outbox WHERE id = run_id FOR SHARE;
    SELECT seq INTO place FROM redisjobs.steps WHERE run = run_id AND name = from_step;
    IF place IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO redisjobs.outbox (id, job, queue, input, payload, codec, priority, max_attempts, tenant_id, traceparent, enqueued_by,
                                  headers, version, lane, share_key, undo, fence)
    SELECT new_id, r.job, r.queue, r.input, r.payload, r.codec, r.priority, r.max_attempts, r.tenant_id, r.traceparent, r.enqueued_by,
           r.headers, r.version, r.lane, r.share_key,
           EXISTS (SELECT FROM redisjobs.steps s WHERE s.run = run_id AND s.seq < place AND s.undo AND s.state = 'done'), ARRAY[0, 0]
    FROM (SELECT id, job, queue, input, payload, codec, priority, max_attempts, tenant_id, traceparent, enqueued_by, headers, version,
                 lane, share_key
          FROM redisjobs.outbox WHERE id = run_id
          UNION ALL
          SELECT id, job, queue, input, payload, codec, priority, max_attempts, tenant_id, traceparent, enqueued_by, headers, version,
                 lane, share_key
          FROM redisjobs.dead WHERE id = run_id LIMIT 1) AS r;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO redisjobs.steps (run, name, kind, state, tries, due, awaited, event, key, child, undo, codec, value, detail,
                                 started_at, ended_at)
    SELECT new_id, name, kind, state, tries, due, awaited, event, key, child, undo, codec, value, detail, started_at, ended_at
    FROM redisjobs.steps
    WHERE run = run_id AND seq < place AND kind <> 'undo' AND (state = 'done' OR state = 'waiting' AND kind IN ('sleep', 'child'))
    ORDER BY seq;
    RETURN new_id;
END $$;

-- Rights. Producers may send events; workers that run durable jobs write records and enqueue children.
CREATE OR REPLACE FUNCTION redisjobs.grant_producer(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT INSERT (id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
                    run_at, expires_at, tenant_id, traceparent, enqueued_by, headers, version, lane, share_key, key_policy, key_wait,
                    key_longest, result_ttl) ON redisjobs.outbox TO %I', grantee);
    EXECUTE format('GRANT INSERT (name, key, input, payload, codec, expires_at), SELECT (id) ON redisjobs.events TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.enqueue, redisjobs.new_id, redisjobs.send_event TO %I', grantee);
END $$;

-- Who could enqueue before can do so now: the rights on what was made anew, and on the new columns.
DO $$
DECLARE
    given record;
BEGIN
    FOR given IN
        SELECT replace(p.proname, '_until_5', '') AS name, a.grantee::regrole AS role
        FROM pg_proc p CROSS JOIN aclexplode(p.proacl) a
        WHERE p.oid IN ('redisjobs.enqueue_until_5'::regproc, 'redisjobs.schedule_until_5'::regproc)
          AND a.grantee NOT IN (0, p.proowner)
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.%I TO %s', given.name, given.role);
    END LOOP;
    FOR given IN
        SELECT DISTINCT a.grantee::regrole AS role FROM pg_attribute t CROSS JOIN aclexplode(t.attacl) a
        WHERE t.attrelid = 'redisjobs.outbox'::regclass AND t.attname = 'idempotency_key' AND a.privilege_type = 'INSERT'
    LOOP
        EXECUTE format('GRANT INSERT (version, lane, share_key, key_policy, key_wait, key_longest, result_ttl) ON redisjobs.outbox TO %s', given.role);
    END LOOP;
END $$;
DROP FUNCTION redisjobs.enqueue_until_5;
DROP FUNCTION redisjobs.schedule_until_5;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redisjobs FROM PUBLIC;
