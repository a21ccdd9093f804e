-- A row that stops its queue and is set aside keeps the error that it stopped it with, for whoever looks at it later:
-- the note in `queues.failing` goes when the queue moves again. Putting it back takes the error away.
CREATE OR REPLACE FUNCTION redisjobs.set_aside(ids uuid[], aside boolean DEFAULT true) RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH moved AS (
        UPDATE redisjobs.outbox o
        SET state = CASE WHEN aside THEN 'set_aside' ELSE 'staged' END, xact = pg_current_xact_id(), seq = DEFAULT,
            last_error = CASE
                WHEN aside THEN coalesce((SELECT 'set aside: ' || (q.failing ->> 'error') FROM redisjobs.queues q
                                          WHERE q.queue = o.queue AND q.failing ->> 'id' = o.id::text), last_error)
                WHEN starts_with(last_error, 'set aside: ') THEN NULL ELSE last_error END
        WHERE id = ANY (ids) AND state = CASE WHEN aside THEN 'staged' ELSE 'set_aside' END
        RETURNING queue),
    told AS (SELECT pg_notify('redisjobs.wake', queue) FROM (SELECT DISTINCT queue FROM moved) q)
    SELECT (SELECT count(*) FROM moved)::integer + 0 * (SELECT count(*) FROM told)::integer
$$;
