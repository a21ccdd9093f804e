-- psql -v email=ada@example.com -f demo.sql: places an order; its mail goes out if, and only if, the order is committed.
\set ON_ERROR_STOP on
\if :{?email}
\else
    \set email ada@example.com
\endif

BEGIN;
INSERT INTO orders (email) VALUES (:'email') RETURNING id AS order_id \gset
SELECT redisjobs.enqueue('send_confirmation', json_build_object('order_id', :order_id, 'email', :'email'), queue => 'mail');
COMMIT;
\echo order :order_id is committed, and with it its mail
