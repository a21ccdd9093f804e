-- The shop of `redisjobs demo`: its orders, and the ledger that it judges by. They stand in a schema of their own;
-- no table of redisjobs is read or written here, but for `waiting`, which is given that schema's name.

-- name: make_orders
-- the business table: an order is in it if and only if its transaction committed
CREATE TABLE redisjobs.orders (
    id integer PRIMARY KEY,
    address text NOT NULL,
    total numeric(10, 2) NOT NULL,
    placed_at timestamptz NOT NULL DEFAULT now()
);

-- name: make_ledger
-- what bodies wrote down about themselves, on a connection of their own: never rolled back with anything
CREATE TABLE redisjobs.ledger (
    order_id integer NOT NULL,
    run bigint NOT NULL,
    attempt smallint NOT NULL,
    pid integer NOT NULL,
    word text NOT NULL CHECK (word IN ('started', 'returned', 'raised')),
    at_ns bigint NOT NULL
);

-- name: place_order
-- the business write of a transaction
INSERT INTO redisjobs.orders (id, address, total) VALUES (%(id)s, %(address)s, %(total)s);

-- name: write
-- the entries that have come together, in one statement
INSERT INTO redisjobs.ledger (order_id, run, attempt, pid, word, at_ns)
SELECT * FROM unnest(%(order_id)s::int[], %(run)s::bigint[], %(attempt)s::int[], %(pid)s::int[], %(word)s::text[],
                     %(at_ns)s::bigint[]);

-- name: tally
-- how far the mails are: an order is done once a body returned, and dead once its last attempt raised
SELECT count(*) FILTER (WHERE done),
       count(*) FILTER (WHERE NOT done AND dead),
       count(*) FILTER (WHERE NOT done AND NOT dead AND began > coalesce(ended, 0)),
       count(*) FILTER (WHERE NOT done AND NOT dead AND began <= ended)
FROM (
    SELECT bool_or(word = 'returned') AS done,
           bool_or(word = 'raised' AND attempt >= %(max_attempts)s) AS dead,
           max(at_ns) FILTER (WHERE word = 'started') AS began,
           max(at_ns) FILTER (WHERE word <> 'started') AS ended
    FROM redisjobs.ledger GROUP BY order_id
) orders;

-- name: running_in
-- how many bodies a process is in the middle of
SELECT count(*) FROM redisjobs.ledger began
WHERE pid = %(pid)s AND word = 'started'
  AND NOT EXISTS (SELECT 1 FROM redisjobs.ledger ended WHERE ended.run = began.run AND ended.word <> 'started');

-- name: orders
-- the truth about what committed
SELECT id FROM redisjobs.orders;

-- name: entries
-- the whole ledger, for the verdict
SELECT order_id, run, attempt, pid, word, at_ns FROM redisjobs.ledger;

-- name: waiting
-- live jobs: as long as there is one, a body may still start
SELECT count(*) FROM redisjobs.outbox;
