-- Statements of the test kit.

-- name: present
-- which of these jobs are there, for the transaction that asks: those that it, or anybody who committed, has staged
SELECT id::text FROM redisjobs.outbox WHERE id = ANY (%(ids)s::uuid[])
UNION SELECT id::text FROM redisjobs.finished WHERE id = ANY (%(ids)s::uuid[])
UNION SELECT id::text FROM redisjobs.dead WHERE id = ANY (%(ids)s::uuid[]);
