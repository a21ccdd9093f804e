-- name: clear
-- records of runs that have ended go with them; those of dead letters stay, for a redriven run
DELETE FROM redisjobs.steps WHERE run = ANY (%(ids)s::uuid[]);

-- name: tell_parents
-- children have ended: their parents' records say how, and the parents are woken
SELECT redisjobs.tell_parents(%(ids)s::uuid[], %(words)s::text[], %(codecs)s::text[], %(results)s::bytea[], %(details)s::jsonb[]);

-- name: cancel_children
-- what a cancelled run has called is cancelled with it
SELECT redisjobs.cancel_children(%(ids)s::uuid[]);
