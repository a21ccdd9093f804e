-- name: clear
-- records of runs that have ended go with them; those of dead letters stay, for a redriven run
DELETE FROM redisjobs.steps WHERE run = ANY (%(ids)s::uuid[]);

-- name: tell_parents
-- children have ended: their parents' records say how, and the parents are woken
SELECT redisjobs.tell_parents(%(ids)s::uuid[], %(words)s::text[], %(codecs)s::text[], %(results)s::bytea[], %(details)s::jsonb[]);

-- name: cancel_children
-- what a cancelled run has called is cancelled with it
SELECT redisjobs.cancel_children(%(ids)s::uuid[]);

-- name: held
-- of these jobs those whose rows somebody holds just now, or, where they are to end, the rows of the runs that wait for that
WITH told AS (SELECT unnest(%(ids)s::uuid[]) AS id),
needed AS MATERIALIZED (
    SELECT id, id AS needs FROM told
    UNION ALL
    SELECT t.id, s.run FROM told t JOIN redisjobs.steps s ON s.child = t.id AND s.state = 'waiting' WHERE %(ends)s::boolean),
free AS MATERIALIZED (
    SELECT id FROM redisjobs.outbox WHERE id IN (SELECT needs FROM needed) ORDER BY id FOR UPDATE SKIP LOCKED)
SELECT DISTINCT uuid_send(n.id) FROM needed n JOIN redisjobs.outbox o ON o.id = n.needs WHERE o.id NOT IN (SELECT id FROM free);
