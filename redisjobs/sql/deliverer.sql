-- name: deliver
-- new events are handed to the runs that wait for them; how many it looked at, how many it left for another time, and whether
-- those who send events notify
SELECT d.looked, d.busy, l.asleep FROM redisjobs.deliver_events(%(most)s) d CROSS JOIN redisjobs.listening l;

-- name: fall_asleep
-- from its commit on, those who send events notify; answers the transaction behind which none can have missed it
UPDATE redisjobs.listening SET asleep = true RETURNING pg_current_xact_id()::text::bigint;

-- name: wake_up
-- while a relay polls for events, nobody need notify
UPDATE redisjobs.listening SET asleep = false;

-- name: clean_events
-- events that expired, and those that were taken long enough ago
DELETE FROM redisjobs.events WHERE id IN (
    (SELECT id FROM redisjobs.events WHERE expires_at < clock_timestamp() ORDER BY expires_at LIMIT %(limit)s)
    UNION ALL
    (SELECT id FROM redisjobs.events WHERE taken_at < clock_timestamp() - make_interval(secs => %(retention)s)
     ORDER BY taken_at LIMIT %(limit)s));
