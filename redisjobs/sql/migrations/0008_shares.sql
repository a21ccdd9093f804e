-- Fair sharing: what operators have set for a queue whose jobs are taken in turn by a key.
--
--     share_by     tenant: jobs of the queue without a share_key are taken in turn by their tenant_id; null: only those with a share_key are
--     shares       share -> {"weight": 3, "paused": true}, of those that differ from weight 1 and not paused
--
-- The relay that holds the queue tells Redis of every change.

ALTER TABLE redisjobs.queues
    ADD COLUMN share_by text CONSTRAINT share_by_is_known CHECK (share_by IN ('tenant')),
    ADD COLUMN shares jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN redisjobs.queues.share_by IS 'tenant: jobs without a share_key are taken in turn by tenant_id';
COMMENT ON COLUMN redisjobs.queues.shares IS 'weights and pauses of shares';

-- By what a queue's jobs without a share_key are taken in turn: tenant, or null for nothing. It counts for what is published from now on.
CREATE FUNCTION redisjobs.share_by(queue_name text, key text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO redisjobs.queues (queue, share_by) VALUES (queue_name, key)
    ON CONFLICT (queue) DO UPDATE SET share_by = excluded.share_by;
    PERFORM pg_notify('redisjobs.wake', '!');
END $$;

-- Sets the weight of a share, pauses it, or lets it go on; what is null stays as it is.
CREATE FUNCTION redisjobs.set_share(queue_name text, share text, weight numeric DEFAULT NULL, paused boolean DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rule jsonb;
BEGIN
    IF coalesce(char_length(share), 0) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'set_share(): a share has 1 to 200 characters' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF weight NOT BETWEEN 0.01 AND 100 THEN
        RAISE EXCEPTION 'set_share(): weight % is not between 0.01 and 100', weight USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO redisjobs.queues (queue) VALUES (queue_name) ON CONFLICT DO NOTHING;
    SELECT coalesce(q.shares -> share, '{}') INTO rule FROM redisjobs.queues q WHERE q.queue = queue_name FOR UPDATE;
    IF weight IS NOT NULL THEN
        rule := CASE WHEN weight = 1 THEN rule - 'weight' ELSE rule || jsonb_build_object('weight', weight) END;
    END IF;
    IF paused IS NOT NULL THEN
        rule := CASE WHEN paused THEN rule || '{"paused": true}' ELSE rule - 'paused' END;
    END IF;
    UPDATE redisjobs.queues q
    SET shares = CASE WHEN rule = '{}' THEN q.shares - share ELSE q.shares || jsonb_build_object(share, rule) END
    WHERE q.queue = queue_name;
    PERFORM pg_notify('redisjobs.wake', '!');
END $$;

CREATE OR REPLACE FUNCTION redisjobs.grant_operator(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT DELETE ON redisjobs.dead, redisjobs.steps TO %I', grantee);
    EXECUTE format('GRANT INSERT (name, key, input, payload, codec, expires_at) ON redisjobs.events TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.cancel, redisjobs.reprioritize, redisjobs.reschedule, redisjobs.pause,
                    redisjobs.share_by, redisjobs.set_share,
                    redisjobs.redrive, redisjobs.set_aside, redisjobs.send_event, redisjobs.delete_steps, redisjobs.fork_run,
                    redisjobs.schedule, redisjobs.pause_schedule, redisjobs.unschedule, redisjobs.trigger_schedule TO %I', grantee);
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redisjobs FROM PUBLIC;
