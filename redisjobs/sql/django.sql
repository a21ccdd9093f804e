-- Statements behind Django's Tasks.

-- name: task_result
-- all that a task's result is told from; a job stands in one place, its last end first. Texts, so that no type of JSON
-- that a project has registered comes between
SELECT job, queue, state, priority, run_at, staged_at, NULL::timestamptz AS ended_at, input::text AS input, payload, codec,
       failures::text AS failures, attempts, last_error AS error, NULL::bytea AS result, NULL::text AS result_codec
FROM redisjobs.outbox WHERE id = %(id)s::uuid
UNION ALL
SELECT job, queue, 'dead', priority, run_at, staged_at, died_at, input::text, payload, codec,
       failures::text, attempts, reason, NULL, NULL
FROM redisjobs.dead WHERE id = %(id)s::uuid
UNION ALL
SELECT job, queue, state, NULL, NULL, staged_at, finished_at, NULL, NULL, NULL,
       NULL, attempts, coalesce('a duplicate of job ' || duplicate_of, last_error), result, result_codec
FROM redisjobs.finished WHERE id = %(id)s::uuid
ORDER BY ended_at DESC NULLS FIRST
LIMIT 1;

-- name: cancel_jobs
-- flags rows for their end; a word each
SELECT i.id, redisjobs.cancel(i.id) FROM unnest(%(ids)s::uuid[]) AS i(id);

-- name: redrive_jobs
-- a new life for dead letters: the same ids and arguments, fresh attempts; how many came back
SELECT redisjobs.redrive(%(ids)s::uuid[]);
