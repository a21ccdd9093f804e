-- What an operator asks of durable runs: their records, their children's, and a new run from an old one.

-- name: family
-- the records of a run and, some levels down, of its children; values only where they are asked for
WITH RECURSIVE family AS (
    SELECT %(run)s::uuid AS run, 0 AS depth
    UNION
    SELECT s.child, f.depth + 1 FROM family f JOIN redisjobs.steps s ON s.run = f.run
    WHERE s.child IS NOT NULL AND f.depth < %(depth)s)
SELECT s.run, s.name, s.seq, s.kind, s.state, s.tries, date_part('epoch', s.due - clock_timestamp()), s.awaited, s.event, s.key,
       s.child, s.undo, s.codec, CASE WHEN %(values)s THEN s.value END, s.detail, s.started_at, s.ended_at
FROM (SELECT run, min(depth) AS depth FROM family GROUP BY run) f JOIN redisjobs.steps s ON s.run = f.run
ORDER BY f.depth, s.run, s.seq LIMIT %(limit)s;

-- name: jobs
-- which jobs these are, and where they stand
SELECT DISTINCT ON (id) id, job, state FROM (
    SELECT id, job, state, 0 AS place, NULL::timestamptz AS at FROM redisjobs.outbox WHERE id = ANY (%(ids)s::uuid[])
    UNION ALL SELECT id, job, 'dead', 1, died_at FROM redisjobs.dead WHERE id = ANY (%(ids)s::uuid[])
    UNION ALL SELECT id, job, state, 2, finished_at FROM redisjobs.finished WHERE id = ANY (%(ids)s::uuid[])) AS found
ORDER BY id, place, at DESC;

-- name: delete
-- records of a run leave, and it comes back if it was suspended
SELECT redisjobs.delete_steps(%(run)s::uuid, %(names)s::text[]);

-- name: fork
-- a new run that keeps the records before a step; its id
SELECT redisjobs.fork_run(%(run)s::uuid, %(step)s::text);
