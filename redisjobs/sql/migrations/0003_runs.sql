-- Durable runs: what a run has done and waits for (`steps`), and what it can wait for (`events`).
--
-- A run is a job whose body uses steps. Its row in `outbox` is its fence: an attempt claims the run under its token (publications,
-- starts) and its worker's name, and every record is written only while both stand there.
--
--     suspended   no store of Redis holds it: it waits for an event or a child until `run_at`, or for ever
--
-- A run that only sleeps goes back into the line (`staged`, `deferred`) with the time in `run_at`. Waking is a level: `wake_at` of a row
-- says from when on the run must be looked at again, whoever holds it; a claim clears it and then reads all records.

ALTER TABLE redisjobs.outbox
    ADD COLUMN version text,
    -- kept by redisjobs
    ADD COLUMN parent uuid,
    ADD COLUMN wake_at timestamptz,
    ADD COLUMN settled integer NOT NULL DEFAULT 0,
    ADD COLUMN undo boolean NOT NULL DEFAULT false,
    ADD COLUMN ending jsonb,
    ADD CONSTRAINT version_1_to_100_characters CHECK (char_length(version) BETWEEN 1 AND 100);
COMMENT ON COLUMN redisjobs.outbox.version IS 'only workers that know this version of the job run it';
COMMENT ON COLUMN redisjobs.outbox.parent IS 'the run that waits for the end of this one';
COMMENT ON COLUMN redisjobs.outbox.settled IS 'the publication whose end left the row here: the next one replaces its tombstone in Redis';
COMMENT ON COLUMN redisjobs.outbox.undo IS 'a step of the run has registered an undo';
COMMENT ON COLUMN redisjobs.outbox.ending IS 'how the run ends once its undos have run: word, reason, failures';

CREATE INDEX outbox_suspended ON redisjobs.outbox (queue, run_at) WHERE state = 'suspended';
CREATE INDEX outbox_children ON redisjobs.outbox (parent) WHERE parent IS NOT NULL;

ALTER TABLE redisjobs.dead ADD COLUMN version text, ADD COLUMN ending jsonb;

CREATE TABLE redisjobs.steps (
    run uuid NOT NULL,
    name text NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL,
    state text NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    due timestamptz,
    awaited boolean NOT NULL DEFAULT false,
    event text,
    key text,
    child uuid,
    undo boolean NOT NULL DEFAULT false,
    codec text,
    value bytea,
    detail jsonb,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    PRIMARY KEY (run, name),
    CONSTRAINT name_is_a_name CHECK (char_length(name) BETWEEN 1 AND 200 AND name !~ '[[:cntrl:]]'),
    CONSTRAINT kind_is_known CHECK (kind IN ('step', 'transaction', 'sleep', 'event', 'child', 'undo')),
    CONSTRAINT state_is_known CHECK (state IN ('waiting', 'retrying', 'done', 'failed')),
    CONSTRAINT value_at_most_1_mib CHECK (octet_length(value) <= 1048576),
    CONSTRAINT codec_goes_with_value CHECK ((codec IS NULL) = (value IS NULL)),
    CONSTRAINT event_goes_with_key CHECK ((event IS NULL) = (key IS NULL) AND (kind = 'event') = (event IS NOT NULL)),
    CONSTRAINT child_goes_with_kind CHECK ((kind = 'child') = (child IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000, autovacuum_vacuum_cost_delay = 0);
-- detail: of what failed its error; of an event its id and when it was sent; of a wait that timed out, that it did
CREATE INDEX steps_waits ON redisjobs.steps (event, key, seq) WHERE kind = 'event' AND state = 'waiting';
CREATE INDEX steps_children ON redisjobs.steps (child) WHERE state = 'waiting' AND child IS NOT NULL;

-- A public contract like `outbox`: whoever may insert can send an event. Each is taken once, by one wait for its name and key.
CREATE TABLE redisjobs.events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    key text NOT NULL DEFAULT '',
    input json,
    payload bytea,
    codec text,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL DEFAULT clock_timestamp() + interval '7 days',
    -- kept by redisjobs
    looked_at timestamptz,
    taken_at timestamptz,
    run uuid,
    step text,
    CONSTRAINT name_is_a_name CHECK (char_length(name) BETWEEN 1 AND 200 AND name !~ '[[:cntrl:]]'),
    CONSTRAINT key_at_most_512_bytes CHECK (octet_length(key) <= 512),
    CONSTRAINT input_or_payload CHECK (num_nonnulls(input, payload) <= 1),
    CONSTRAINT codec_goes_with_payload CHECK ((codec IS NULL) = (payload IS NULL)),
    CONSTRAINT codec_is_a_name CHECK (codec ~ '^[a-z0-9_.-]{1,40}$'),
    CONSTRAINT input_at_most_1_mib CHECK (octet_length(input::text) <= 1048576),
    CONSTRAINT payload_at_most_1_mib CHECK (octet_length(payload) <= 1048576),
    CONSTRAINT expires_at_is_a_time CHECK (expires_at >= '0002-01-01 00:00:00+00' AND expires_at < '9999-01-01 00:00:00+00'),
    CONSTRAINT taken_by_a_run CHECK (num_nonnulls(taken_at, run, step) IN (0, 3))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX events_new ON redisjobs.events (id) WHERE looked_at IS NULL;
CREATE INDEX events_free ON redisjobs.events (name, key, id) WHERE taken_at IS NULL;
CREATE INDEX events_over ON redisjobs.events (expires_at);
CREATE INDEX events_taken ON redisjobs.events (taken_at) WHERE taken_at IS NOT NULL;

-- One row: whether those who send events must notify (as `queues.asleep` for producers).
CREATE TABLE redisjobs.listening (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    asleep boolean NOT NULL DEFAULT true
) WITH (fillfactor = 10);
INSERT INTO redisjobs.listening DEFAULT VALUES;

CREATE FUNCTION redisjobs.call_events() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT asleep FROM redisjobs.listening) THEN
        PERFORM pg_notify('redisjobs.wake', '*');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER wake AFTER INSERT ON redisjobs.events FOR EACH STATEMENT EXECUTE FUNCTION redisjobs.call_events();

-- Sends an event in the caller's transaction; answers its id. A run that waits for this name and key, now or later, takes it.
CREATE FUNCTION redisjobs.send_event(name text, key text DEFAULT '', input json DEFAULT NULL, expires_in interval DEFAULT '7 days')
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    sent bigint;
BEGIN
    IF expires_in IS NULL OR expires_in <= interval '0' THEN
        RAISE EXCEPTION 'send_event(%): expires_in must lie ahead, not %', name, expires_in USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO redisjobs.events (name, key, input, expires_at) VALUES (name, key, input, clock_timestamp() + expires_in)
    RETURNING events.id INTO sent;
    RETURN sent;
END $$;

-- Runs must be looked at again, at once or in a while: suspended ones join the line, others remember it in `wake_at`.
-- The caller has their rows locked.
CREATE FUNCTION redisjobs.wake_runs(ids uuid[], delay interval DEFAULT '0') RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF delay > interval '0' THEN
        UPDATE redisjobs.outbox
        SET wake_at = least(wake_at, clock_timestamp() + delay),
            run_at = CASE WHEN state = 'suspended' THEN least(run_at, clock_timestamp() + delay) ELSE run_at END
        WHERE id = ANY (ids);
        RETURN;
    END IF;
    UPDATE redisjobs.outbox SET wake_at = clock_timestamp() WHERE id = ANY (ids) AND state <> 'suspended';
    PERFORM redisjobs.stage_runs(ids);
END $$;

-- Suspended runs join the line again, at its end.
CREATE FUNCTION redisjobs.stage_runs(ids uuid[]) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    queues text[];
BEGIN
    WITH woken AS (
        UPDATE redisjobs.outbox
        SET state = 'staged', run_at = NULL, wake_at = NULL, xact = pg_current_xact_id(), seq = DEFAULT
        WHERE id = ANY (ids) AND state = 'suspended' RETURNING queue)
    SELECT array_agg(queue) INTO queues FROM woken;
    PERFORM pg_notify('redisjobs.wake', n.queue) FROM (SELECT DISTINCT queue FROM unnest(queues) AS u(queue)) n
    LEFT JOIN redisjobs.queues q ON q.queue = n.queue WHERE q.asleep IS NOT FALSE;
    RETURN coalesce(array_length(queues, 1), 0);
END $$;

-- The functions that workers call keep their plans for as long as a session lasts: made while the tables were small, these must be good
-- for large ones too, and so look rows up by index only.

-- Attempts claim their runs, each under its token (number, start) and its worker's name, and read all records. For each run a row
-- without a record, then its records in the order of their beginning. Words: ok; behind (a higher token stands there, or the same of
-- another holder); gone (no such run, another life of it, or a publication whose end has settled); busy (somebody has its row locked, such as a record on its way:
-- ask again). Claim and records have a snapshot each, in this order: a record that was committed before the claim is seen.
CREATE FUNCTION redisjobs.claim_runs(ids uuid[], lives integer[], numbers integer[], starts integer[], holders text[])
RETURNS TABLE (run uuid, word text, fence bigint[], run_ending jsonb, run_version text, run_staged_at timestamptz,
               name text, seq bigint, kind text, state text, tries integer, due_in float8, awaited boolean, event text, key text,
               child uuid, undo boolean, codec text, value bytea, detail jsonb, started_at timestamptz, ended_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    UPDATE redisjobs.outbox o
    SET fence = ARRAY[c.number, c.start]::bigint[], holder = c.holder, wake_at = NULL
    FROM (SELECT u.* FROM unnest(ids, lives, numbers, starts, holders) AS u(id, life, number, start, holder)
          JOIN redisjobs.outbox l ON l.id = u.id ORDER BY u.id FOR UPDATE OF l SKIP LOCKED) AS c
    WHERE o.id = c.id AND o.redrives = c.life AND o.settled < c.number
      AND (o.fence IS NULL OR o.fence < ARRAY[c.number, c.start]::bigint[]
           OR (o.fence = ARRAY[c.number, c.start]::bigint[] AND coalesce(o.holder, c.holder) = c.holder));
    RETURN QUERY
        WITH claimed AS (
            SELECT u.id,
                   CASE WHEN o.id IS NULL OR o.redrives <> u.life OR o.settled >= u.number THEN 'gone'
                        WHEN o.fence = ARRAY[u.number, u.start]::bigint[] AND o.holder = u.holder THEN 'ok'
                        WHEN o.fence > ARRAY[u.number, u.start]::bigint[] OR o.fence = ARRAY[u.number, u.start]::bigint[] AND o.holder <> u.holder
                        THEN 'behind' ELSE 'busy' END AS word,
                   o.fence, o.ending, o.version, o.staged_at
            FROM unnest(ids, lives, numbers, starts, holders) AS u(id, life, number, start, holder)
            LEFT JOIN redisjobs.outbox o ON o.id = u.id)
        SELECT c.id, c.word, c.fence, c.ending, c.version, c.staged_at,
               NULL::text, 0::bigint, NULL::text, NULL::text, NULL::integer, NULL::float8, NULL::boolean, NULL::text, NULL::text,
               NULL::uuid, NULL::boolean, NULL::text, NULL::bytea, NULL::jsonb, NULL::timestamptz, NULL::timestamptz
        FROM claimed c
        UNION ALL
        SELECT s.run, 'ok', NULL, NULL, NULL, NULL,
               s.name, s.seq, s.kind, s.state, s.tries, date_part('epoch', s.due - clock_timestamp()), s.awaited, s.event, s.key,
               s.child, s.undo, s.codec, s.value, s.detail, s.started_at, s.ended_at
        FROM claimed c JOIN redisjobs.steps s ON s.run = c.id WHERE c.word = 'ok'
        ORDER BY 1, 8;
END $$;

-- Records are written, each under the token of its attempt, and what an undo has undone is forgotten. Answers those that were not, by
-- their places: refused (the token does not stand) or busy (somebody has the run's row locked: ask again). What is done stays as it is,
-- and so does the end of a child that was written down before its parent came to wait for it.
CREATE FUNCTION redisjobs.write_steps(
    runs uuid[], lives integer[], numbers integer[], starts integer[], holders text[], names text[], kinds text[], states text[],
    all_tries integer[], dues timestamptz[], dues_in float8[], waits boolean[], children uuid[], undos boolean[], codecs text[],
    results bytea[], details jsonb[], seconds float8[], undone text[])
RETURNS TABLE (place integer, word text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH given AS (
        SELECT * FROM unnest(runs, lives, numbers, starts, holders, names, kinds, states, all_tries, dues, dues_in, waits, children, undos,
                             codecs, results, details, seconds, undone)
            WITH ORDINALITY AS g(run, life, number, start, holder, name, kind, state, tries, due, due_in, awaited, child, undo, codec,
                                 value, detail, took, forgets, place)),
    held AS MATERIALIZED (
        SELECT o.id, o.redrives, o.fence, o.holder, o.undo FROM redisjobs.outbox o WHERE o.id = ANY (runs)
        ORDER BY o.id FOR SHARE SKIP LOCKED),
    ours AS MATERIALIZED (
        SELECT g.*, h.undo AS has_undo FROM given g JOIN held h ON h.id = g.run
        WHERE h.redrives = g.life AND h.fence = ARRAY[g.number, g.start]::bigint[] AND h.holder = g.holder),
    written AS (
        INSERT INTO redisjobs.steps AS s (run, name, kind, state, tries, due, awaited, child, undo, codec, value, detail, started_at,
                                          ended_at)
        SELECT run, name, kind, state, tries, coalesce(due, clock_timestamp() + make_interval(secs => due_in)), awaited, child, undo,
               codec, value, detail, clock_timestamp() - make_interval(secs => took),
               CASE WHEN state IN ('done', 'failed') THEN clock_timestamp() END
        FROM ours ORDER BY place
        ON CONFLICT (run, name) DO UPDATE
        SET kind = excluded.kind, state = excluded.state, tries = excluded.tries, awaited = excluded.awaited, child = excluded.child,
            due = CASE WHEN s.kind = 'sleep' THEN s.due ELSE excluded.due END, undo = excluded.undo, event = NULL, key = NULL,
            codec = excluded.codec, value = excluded.value, detail = excluded.detail, ended_at = excluded.ended_at
        WHERE s.state <> 'done' AND NOT (s.state = 'failed' AND s.child = excluded.child AND excluded.state = 'waiting')),
    forgotten AS (DELETE FROM redisjobs.steps s USING ours o WHERE s.run = o.run AND s.name = o.forgets),
    marked AS (UPDATE redisjobs.outbox u SET undo = true FROM ours o WHERE u.id = o.run AND o.undo AND NOT o.has_undo)
    SELECT g.place::integer, CASE WHEN s.id IS NULL THEN 'refused' ELSE 'busy' END
    FROM given g LEFT JOIN redisjobs.outbox s
         ON s.id = g.run AND s.redrives = g.life AND s.fence = ARRAY[g.number, g.start]::bigint[] AND s.holder = g.holder
         AND s.id NOT IN (SELECT id FROM held)
    WHERE g.place NOT IN (SELECT place FROM ours);
END $$;

-- A run waits for an event, under its token: the wait is recorded, and taken is what is there; after its time it is over without one.
-- The same call again answers what became of it. Words: waiting; done; refused; busy (somebody has its row locked: ask again).
CREATE FUNCTION redisjobs.wait_for_event(run_id uuid, life integer, number integer, start integer, worker text, step_name text,
                                         event_name text, event_key text, timeout_s float8)
RETURNS TABLE (word text, due_in float8, codec text, value bytea, detail jsonb, started_at timestamptz, ended_at timestamptz, seq bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    wait redisjobs.steps;
    taken redisjobs.events;
BEGIN
    PERFORM 1 FROM redisjobs.outbox o
    WHERE o.id = run_id AND o.redrives = life AND o.fence = ARRAY[number, start]::bigint[] AND o.holder = worker FOR SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        wait.state := CASE WHEN EXISTS (
            SELECT FROM redisjobs.outbox o
            WHERE o.id = run_id AND o.redrives = life AND o.fence = ARRAY[number, start]::bigint[] AND o.holder = worker)
            THEN 'busy' ELSE 'refused' END;
        RETURN QUERY SELECT wait.state, NULL::float8, NULL::text, NULL::bytea, NULL::jsonb, NULL::timestamptz, NULL::timestamptz, NULL::bigint;
        RETURN;
    END IF;
    INSERT INTO redisjobs.steps (run, name, kind, state, awaited, event, key, due)
    VALUES (run_id, step_name, 'event', 'waiting', true, event_name, event_key, clock_timestamp() + make_interval(secs => timeout_s))
    ON CONFLICT DO NOTHING;
    SELECT s.* INTO wait FROM redisjobs.steps s WHERE s.run = run_id AND s.name = step_name FOR UPDATE;
    IF wait.state = 'waiting' THEN
        UPDATE redisjobs.events e
        SET taken_at = clock_timestamp(), run = run_id, step = step_name, looked_at = coalesce(e.looked_at, clock_timestamp())
        WHERE e.id = (SELECT f.id FROM redisjobs.events f
                      WHERE f.name = wait.event AND f.key = wait.key AND f.taken_at IS NULL AND f.expires_at > clock_timestamp()
                      ORDER BY f.id LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING e.* INTO taken;
        IF taken.id IS NOT NULL THEN
            UPDATE redisjobs.steps s
            SET state = 'done', ended_at = clock_timestamp(), codec = redisjobs.codec_of(taken), value = redisjobs.value_of(taken),
                detail = jsonb_build_object('id', taken.id, 'sent_at', taken.sent_at)
            WHERE s.run = run_id AND s.name = step_name RETURNING s.* INTO wait;
        ELSIF wait.due <= clock_timestamp() THEN
            UPDATE redisjobs.steps s
            SET state = 'done', ended_at = clock_timestamp(), detail = '{"timed_out": true}'
            WHERE s.run = run_id AND s.name = step_name RETURNING s.* INTO wait;
        END IF;
    END IF;
    RETURN QUERY SELECT wait.state, date_part('epoch', wait.due - clock_timestamp()), wait.codec, wait.value, wait.detail,
                        wait.started_at, wait.ended_at, wait.seq;
END $$;

-- What an event carries, as a record holds it: its JSON text as it was written, or its payload.
CREATE FUNCTION redisjobs.codec_of(event redisjobs.events) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN event.input IS NOT NULL THEN 'json' ELSE event.codec END
$$;
CREATE FUNCTION redisjobs.value_of(event redisjobs.events) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN event.input IS NOT NULL THEN convert_to(event.input::text, 'UTF8') ELSE event.payload END
$$;

-- Runs heard of something that they wait for: at once where nothing else is open, else in a second, so that a run with many
-- children is not woken for each. The caller has their rows locked.
CREATE FUNCTION redisjobs.wake_told(ids uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    busy uuid[] := ARRAY(
        SELECT DISTINCT s.run FROM redisjobs.steps s
        WHERE s.run = ANY (ids) AND s.awaited AND s.state = 'waiting' AND NOT (s.kind = 'sleep' AND s.due <= clock_timestamp()));
BEGIN
    PERFORM redisjobs.wake_runs(ARRAY(SELECT DISTINCT u.id FROM unnest(ids) AS u(id) WHERE u.id <> ALL (busy)));
    PERFORM redisjobs.wake_runs(busy, interval '1 second');
END $$;

-- Hands new events to the runs that wait for them, first come first served, and wakes these. Answers how many events it looked at,
-- and how many are left for another time because somebody has the run's row locked: no transaction of a user that stays open may
-- hold up the events of others. One at a time does this. An event whose wait had not committed at this look is handed out again when that run's suspension
-- has settled.
CREATE FUNCTION redisjobs.deliver_events(most integer, OUT looked integer, OUT busy integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    news bigint[];
    paired bigint[];
    runs uuid[];
    names text[];
    ours uuid[];
    given bigint[];
    told uuid[];
BEGIN
    looked := 0;
    busy := 0;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('redisjobs.events', 0)) THEN
        RETURN;
    END IF;
    news := ARRAY(SELECT id FROM redisjobs.events WHERE looked_at IS NULL ORDER BY id LIMIT most FOR UPDATE);
    SELECT array_agg(n.id), array_agg(w.run), array_agg(w.name) INTO paired, runs, names
    FROM (SELECT id, name, key, row_number() OVER (PARTITION BY name, key ORDER BY id) AS place
          FROM redisjobs.events WHERE id = ANY (news) AND taken_at IS NULL AND expires_at > clock_timestamp()) n
    CROSS JOIN LATERAL (
        SELECT s.run, s.name FROM redisjobs.steps s
        WHERE s.kind = 'event' AND s.state = 'waiting' AND s.event = n.name AND s.key = n.key
          AND EXISTS (SELECT FROM redisjobs.outbox o WHERE o.id = s.run AND o.ending IS NULL)
        ORDER BY s.seq OFFSET n.place - 1 LIMIT 1) w;
    ours := ARRAY(SELECT id FROM redisjobs.outbox WHERE id = ANY (runs) ORDER BY id FOR UPDATE SKIP LOCKED);
    WITH written AS (
        UPDATE redisjobs.steps s
        SET state = 'done', ended_at = clock_timestamp(), codec = redisjobs.codec_of(e), value = redisjobs.value_of(e),
            detail = jsonb_build_object('id', e.id, 'sent_at', e.sent_at)
        FROM unnest(paired, runs, names) AS p(event, run, name) JOIN redisjobs.events e ON e.id = p.event
        WHERE s.run = p.run AND s.name = p.name AND s.state = 'waiting' AND s.run = ANY (ours)
        RETURNING p.event, s.run, s.name),
    taken AS (
        UPDATE redisjobs.events e
        SET taken_at = clock_timestamp(), looked_at = clock_timestamp(), run = w.run, step = w.name
        FROM written w WHERE e.id = w.event RETURNING e.id, e.run)
    SELECT coalesce(array_agg(id), '{}'), coalesce(array_agg(run), '{}') INTO given, told FROM taken;
    -- one whose wait ended meanwhile is looked at again: somebody else may wait for the same
    UPDATE redisjobs.events SET looked_at = clock_timestamp()
    WHERE id = ANY (news) AND looked_at IS NULL AND (paired IS NULL OR id <> ALL (paired));
    PERFORM redisjobs.wake_told(told);
    busy := coalesce(array_length(paired, 1), 0) - coalesce(array_length(given, 1), 0);
    looked := coalesce(array_length(news, 1), 0) - busy;
END $$;

-- Children have ended: their parents' records say how, and the parents are woken. Words: done, or how else it ended.
CREATE FUNCTION redisjobs.tell_parents(children uuid[], words text[], codecs text[], results bytea[], details jsonb[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    told uuid[];
BEGIN
    PERFORM 1 FROM redisjobs.outbox
    WHERE id IN (SELECT s.run FROM redisjobs.steps s WHERE s.child = ANY (children) AND s.state = 'waiting') ORDER BY id FOR UPDATE;
    WITH written AS (
        UPDATE redisjobs.steps s
        SET state = CASE c.word WHEN 'done' THEN 'done' ELSE 'failed' END, ended_at = clock_timestamp(),
            codec = c.codec, value = c.result, detail = coalesce(c.detail, '{}') || jsonb_build_object('word', c.word)
        FROM unnest(children, words, codecs, results, details) AS c(id, word, codec, result, detail)
        WHERE s.child = c.id AND s.state = 'waiting' RETURNING s.run)
    SELECT coalesce(array_agg(DISTINCT run), '{}') INTO told FROM written;
    PERFORM redisjobs.wake_told(told);
END $$;

-- What a cancelled run has called is cancelled with it.
CREATE FUNCTION redisjobs.cancel_children(parents uuid[]) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH flagged AS (
        UPDATE redisjobs.outbox SET cancel_requested = true
        WHERE id IN (SELECT id FROM redisjobs.outbox WHERE parent = ANY (parents) AND NOT cancel_requested ORDER BY id FOR UPDATE)
        RETURNING queue)
    SELECT pg_notify('redisjobs.wake', queue) FROM (SELECT DISTINCT queue FROM flagged) q
$$;

-- An operator takes records of a run away: those of these names, or all. What they did is done again when the run comes back; one that
-- is suspended comes back at once. Answers how many there were. An attempt that is under way has read its records and does not notice.
CREATE FUNCTION redisjobs.delete_steps(run_id uuid, names text[] DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone integer;
BEGIN
    PERFORM 1 FROM redisjobs.outbox WHERE id = run_id FOR UPDATE;
    DELETE FROM redisjobs.steps s WHERE s.run = run_id AND (names IS NULL OR s.name = ANY (names));
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone > 0 THEN
        PERFORM redisjobs.wake_runs(ARRAY[run_id]);
    END IF;
    RETURN gone;
END $$;

-- Begins a new run with the arguments of a live or dead one and with its records before a step; answers the new run's id, or null
-- where there is no such run or it has no such step. What is done is not done again; children and sleeps that have begun go on for
-- both. Its idempotency key, its times and its parent stay with the old one.
CREATE FUNCTION redisjobs.fork_run(run_id uuid, from_step text, new_id uuid DEFAULT NULL) RETURNS uuid
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
                                  headers, version, undo, fence)
    SELECT new_id, r.job, r.queue, r.input, r.payload, r.codec, r.priority, r.max_attempts, r.tenant_id, r.traceparent, r.enqueued_by,
           r.headers, r.version,
           EXISTS (SELECT FROM redisjobs.steps s WHERE s.run = run_id AND s.seq < place AND s.undo AND s.state = 'done'), ARRAY[0, 0]
    FROM (SELECT id, job, queue, input, payload, codec, priority, max_attempts, tenant_id, traceparent, enqueued_by, headers, version
          FROM redisjobs.outbox WHERE id = run_id
          UNION ALL
          SELECT id, job, queue, input, payload, codec, priority, max_attempts, tenant_id, traceparent, enqueued_by, headers, version
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

-- A redriven run replays its records; its undos, should it need them again, are new ones.
CREATE OR REPLACE FUNCTION redisjobs.redrive(ids uuid[]) RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH back AS (DELETE FROM redisjobs.dead d WHERE id = ANY (ids)
                  AND NOT EXISTS (SELECT FROM redisjobs.outbox o WHERE o.id = d.id) RETURNING *),
    forgotten AS (DELETE FROM redisjobs.steps s USING back b WHERE b.fence IS NOT NULL AND s.run = b.id AND s.kind = 'undo'),
    staged AS (
        INSERT INTO redisjobs.outbox (id, job, queue, input, payload, codec, idempotency_key, key_window, priority,
                                      max_attempts, tenant_id, traceparent, enqueued_by, headers, version, undo,
                                      publications, redrives, failures, fence)
        SELECT id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts, tenant_id,
               traceparent, enqueued_by, headers, version,
               fence IS NOT NULL AND EXISTS (SELECT FROM redisjobs.steps s WHERE s.run = b.id AND s.undo),
               publications + 1, redrives + 1, failures, ARRAY[publications + 1, 0]
        FROM back b ORDER BY died_at, id
        RETURNING 1)
    SELECT count(*)::integer FROM staged
$$;

-- The oldest staged rows of a queue, behind a place in its line. A function for its plan and its speed: on a table that was never
-- analyzed the planner sorts the whole backlog for each batch, and with its settings in a function the read is one round trip.
CREATE FUNCTION redisjobs.staged(queue_name text, behind bigint, most integer) RETURNS SETOF redisjobs.outbox
LANGUAGE sql STABLE SET enable_bitmapscan = off SET enable_seqscan = off SET jit = off AS $$
    SELECT * FROM redisjobs.outbox WHERE queue = queue_name AND state = 'staged' AND seq > behind ORDER BY seq LIMIT most
$$;

-- Rights. Producers may send events; workers that run durable jobs write records and enqueue children.
CREATE OR REPLACE FUNCTION redisjobs.grant_producer(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT INSERT (id, job, queue, input, payload, codec, idempotency_key, key_window, priority, max_attempts,
                    run_at, expires_at, tenant_id, traceparent, enqueued_by, headers, version) ON redisjobs.outbox TO %I', grantee);
    EXECUTE format('GRANT INSERT (name, key, input, payload, codec, expires_at), SELECT (id) ON redisjobs.events TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.enqueue, redisjobs.new_id, redisjobs.send_event TO %I', grantee);
END $$;

CREATE FUNCTION redisjobs.grant_worker(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM redisjobs.grant_producer(grantee);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON redisjobs.outbox TO %I', grantee);
    EXECUTE format('GRANT SELECT, INSERT ON redisjobs.finished TO %I', grantee);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON redisjobs.steps TO %I', grantee);
    EXECUTE format('GRANT SELECT ON redisjobs.events, redisjobs.migrations TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.claim_runs, redisjobs.write_steps, redisjobs.wait_for_event, redisjobs.tell_parents,
                    redisjobs.codec_of, redisjobs.value_of TO %I', grantee);
END $$;

CREATE OR REPLACE FUNCTION redisjobs.grant_relay(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT SELECT, UPDATE, DELETE ON redisjobs.outbox TO %I', grantee);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON redisjobs.queues TO %I', grantee);
    EXECUTE format('GRANT SELECT, INSERT ON redisjobs.finished TO %I', grantee);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON redisjobs.dead TO %I', grantee);
    EXECUTE format('GRANT SELECT, DELETE ON redisjobs.steps, redisjobs.events TO %I', grantee);
    EXECUTE format('GRANT UPDATE (looked_at) ON redisjobs.events TO %I', grantee);
    EXECUTE format('GRANT SELECT, UPDATE ON redisjobs.listening TO %I', grantee);
    EXECUTE format('GRANT SELECT ON redisjobs.migrations TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.make_room, redisjobs.drop_finished, redisjobs.deliver_events, redisjobs.stage_runs, redisjobs.staged,
                    redisjobs.tell_parents, redisjobs.cancel_children TO %I', grantee);
END $$;

CREATE OR REPLACE FUNCTION redisjobs.grant_operator(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT DELETE ON redisjobs.dead, redisjobs.steps TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.delete_steps, redisjobs.fork_run TO %I', grantee);
    EXECUTE format('GRANT INSERT (name, key, input, payload, codec, expires_at) ON redisjobs.events TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.cancel, redisjobs.pause, redisjobs.redrive, redisjobs.set_aside,
                    redisjobs.send_event TO %I', grantee);
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redisjobs FROM PUBLIC;
