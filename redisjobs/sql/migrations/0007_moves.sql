-- Changing a job that waits: its priority, and the time from which it may start.
--
-- The row has the new values at once; that is all there is to do while the job waits in Postgres, and what is published later,
-- or once more, has them. Where Redis has the job, or is about to get it as it was before, `moving` asks the relay that holds the
-- queue to move it there as well, with a new time in `move_to`: a settlement may write another one into the row meanwhile.

ALTER TABLE redisjobs.outbox
    ADD COLUMN moving boolean NOT NULL DEFAULT false,
    ADD COLUMN move_to timestamptz;
COMMENT ON COLUMN redisjobs.outbox.moving IS 'Redis has yet to be told of another priority, or of another time';
COMMENT ON COLUMN redisjobs.outbox.move_to IS 'the time that Redis has yet to be told of';
CREATE INDEX outbox_moves ON redisjobs.outbox (queue, id)
    WHERE moving AND state IN ('published', 'retrying', 'snoozed', 'parked');

-- How a job that has no live row has ended: done, cancelled, expired, deduplicated, dead, or unknown.
CREATE FUNCTION redisjobs.end_of(job_id uuid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT state FROM redisjobs.finished WHERE id = job_id ORDER BY finished_at DESC LIMIT 1),
                    CASE WHEN EXISTS (SELECT FROM redisjobs.dead WHERE id = job_id) THEN 'dead' ELSE 'unknown' END)
$$;

-- Gives a job another priority, in the caller's transaction. Answers changed (it waits in Postgres), requested (Redis has it: the
-- relay moves it there, unless it runs by then), or what the job has become: done, dead, … or unknown.
CREATE FUNCTION redisjobs.reprioritize(job_id uuid, new_priority integer) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place text;
    stands text;
BEGIN
    -- a staged row may have been read already, to be published as it was
    UPDATE redisjobs.outbox
    SET priority = new_priority, moving = state NOT IN ('deferred', 'set_aside', 'suspended')
    WHERE id = job_id RETURNING queue, state INTO place, stands;
    IF NOT FOUND THEN
        RETURN redisjobs.end_of(job_id);
    END IF;
    PERFORM pg_notify('redisjobs.wake', place);
    RETURN CASE WHEN stands IN ('published', 'retrying', 'snoozed', 'parked') THEN 'requested' ELSE 'changed' END;
END $$;

-- Gives a job another time from which it may start, in the caller's transaction: a moment, a distance from now, or now where
-- neither is given. Of one that failed that is its next attempt. Answers as `reprioritize`; or suspended: the times of a durable
-- run stand in its records, and it is left alone.
CREATE FUNCTION redisjobs.reschedule(job_id uuid, new_run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    moment timestamptz := coalesce(new_run_at, clock_timestamp() + coalesce(delay, interval '0'));
    place text;
    stands text;
BEGIN
    IF new_run_at IS NOT NULL AND delay IS NOT NULL THEN
        RAISE EXCEPTION 'reschedule(%): give new_run_at or delay, not both', job_id USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE redisjobs.outbox
    SET run_at = moment, moving = state NOT IN ('deferred', 'set_aside'),
        move_to = CASE WHEN state NOT IN ('deferred', 'set_aside') THEN moment END
    WHERE id = job_id AND state <> 'suspended' AND (settled = 0 OR state NOT IN ('staged', 'deferred', 'published'))
    RETURNING queue, state INTO place, stands;
    IF NOT FOUND THEN
        RETURN CASE WHEN EXISTS (SELECT FROM redisjobs.outbox WHERE id = job_id) THEN 'suspended' ELSE redisjobs.end_of(job_id) END;
    END IF;
    PERFORM pg_notify('redisjobs.wake', place);
    RETURN CASE WHEN stands IN ('published', 'retrying', 'snoozed', 'parked') THEN 'requested' ELSE 'changed' END;
END $$;

CREATE OR REPLACE FUNCTION redisjobs.grant_operator(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT DELETE ON redisjobs.dead, redisjobs.steps TO %I', grantee);
    EXECUTE format('GRANT INSERT (name, key, input, payload, codec, expires_at) ON redisjobs.events TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.cancel, redisjobs.reprioritize, redisjobs.reschedule, redisjobs.pause,
                    redisjobs.redrive, redisjobs.set_aside, redisjobs.send_event, redisjobs.delete_steps, redisjobs.fork_run,
                    redisjobs.schedule, redisjobs.pause_schedule, redisjobs.unschedule, redisjobs.trigger_schedule TO %I', grantee);
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redisjobs FROM PUBLIC;
