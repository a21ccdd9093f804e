-- Statements of the test kit.

-- name: present
-- which of these jobs are there, for the transaction that asks: those that it, or anybody who committed, has staged
SELECT coalesce(string_agg(found.id::text, ','), '')
FROM (SELECT id FROM redisjobs.outbox UNION SELECT id FROM redisjobs.finished UNION SELECT id FROM redisjobs.dead) found
WHERE found.id = ANY (string_to_array(%(ids)s::text, ',')::uuid[]);
