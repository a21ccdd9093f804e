-- What `redisjobs doctor` reads of Postgres: catalogs and statistics, which every login may read. Nothing is written.

-- name: server
-- the server, this login, and the settings that hold for it; times in ms, 0 where a setting is off or unknown here
SELECT current_setting('server_version_num')::integer AS number, current_setting('server_version') AS version,
       pg_is_in_recovery() AS standby, current_user::text AS login, current_database()::text AS database,
       current_setting('default_transaction_read_only') = 'on' AS read_only,
       current_setting('default_transaction_isolation') AS isolation,
       coalesce((SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'), 0) AS statement_timeout_ms,
       coalesce((SELECT setting::bigint FROM pg_settings WHERE name = 'transaction_timeout'), 0) AS transaction_timeout_ms,
       coalesce((SELECT setting::bigint FROM pg_settings WHERE name = 'idle_session_timeout'), 0) AS idle_timeout_ms,
       current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on' AS autovacuum,
       current_setting('fsync') = 'on' AS fsync, current_setting('full_page_writes') = 'on' AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer AS places,
       (SELECT coalesce(sum(numbackends), 0)::integer FROM pg_stat_database) AS taken,
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user) AS login_limit,
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS database_limit,
       coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS encrypted,
       date_part('epoch', clock_timestamp()) AS now_s;

-- name: lacks
-- which rights this login lacks for the work of a relay, a producer and an operator
WITH ns AS (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s),
wanted (work, privilege, name) AS (VALUES
    ('relay', 'SELECT', 'outbox'), ('relay', 'UPDATE', 'outbox'), ('relay', 'DELETE', 'outbox'),
    ('relay', 'SELECT', 'queues'), ('relay', 'INSERT', 'queues'), ('relay', 'UPDATE', 'queues'),
    ('relay', 'SELECT', 'finished'), ('relay', 'INSERT', 'finished'),
    ('relay', 'SELECT', 'dead'), ('relay', 'INSERT', 'dead'), ('relay', 'UPDATE', 'dead'),
    ('relay', 'SELECT', 'migrations'), ('relay', 'EXECUTE', 'make_room'), ('relay', 'EXECUTE', 'drop_finished'),
    ('producer', 'INSERT', 'outbox'), ('producer', 'EXECUTE', 'enqueue'), ('producer', 'EXECUTE', 'new_id'),
    ('operator', 'SELECT', 'outbox'), ('operator', 'SELECT', 'queues'), ('operator', 'SELECT', 'finished'),
    ('operator', 'SELECT', 'dead'), ('operator', 'SELECT', 'migrations'), ('operator', 'DELETE', 'dead'),
    ('operator', 'EXECUTE', 'cancel'), ('operator', 'EXECUTE', 'pause'), ('operator', 'EXECUTE', 'redrive'),
    ('operator', 'EXECUTE', 'set_aside'))
SELECT work, privilege, name FROM wanted CROSS JOIN ns
WHERE CASE
    WHEN privilege = 'EXECUTE' THEN NOT coalesce((SELECT bool_and(has_function_privilege(p.oid, 'EXECUTE'))
        FROM pg_proc p WHERE p.pronamespace = ns.oid AND p.proname = wanted.name), false)
    WHEN work = 'producer' THEN NOT coalesce((SELECT has_column_privilege(c.oid, 'job', 'INSERT')
        FROM pg_class c WHERE c.relnamespace = ns.oid AND c.relname = wanted.name), false)
    ELSE NOT coalesce((SELECT has_table_privilege(c.oid, wanted.privilege)
        FROM pg_class c WHERE c.relnamespace = ns.oid AND c.relname = wanted.name), false) END
UNION ALL
SELECT work, 'USAGE', 'the schema' FROM (VALUES ('relay'), ('producer'), ('operator')) AS w (work) CROSS JOIN ns
WHERE NOT has_schema_privilege(ns.oid, 'USAGE')
ORDER BY 1, 2, 3;

-- name: hot_table
-- the state of the table that every job goes through
SELECT c.relpersistence = 'u' AS unlogged, row_security_active(c.oid) AS row_security,
       coalesce((SELECT NOT option_value::boolean FROM pg_options_to_table(c.reloptions)
                 WHERE option_name = 'autovacuum_enabled'), false) AS autovacuum_off,
       NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = 'wake' AND t.tgenabled IN ('O', 'A'))
           AS mute,
       coalesce(s.n_dead_tup, 0) AS dead_rows, coalesce(s.n_live_tup, 0) AS live_rows, pg_total_relation_size(c.oid) AS bytes
FROM pg_class c LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
WHERE c.relname = 'outbox' AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s);

-- name: holding
-- what keeps vacuum from its work in this database: old transactions, prepared ones, slots that nobody reads; and how
-- many sessions this login may not look into
SELECT 'transaction' AS kind, pid::text AS name, concat_ws(', ', nullif(application_name, ''), state) AS detail,
       date_part('epoch', clock_timestamp() - xact_start) AS age_s, 0::bigint AS bytes
FROM pg_stat_activity
WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
  AND datname = current_database()
UNION ALL
SELECT 'prepared', gid, owner::text, date_part('epoch', clock_timestamp() - prepared), 0 FROM pg_prepared_xacts
WHERE database = current_database()
UNION ALL
SELECT 'slot', slot_name::text, slot_type, 0,
       CASE WHEN pg_is_in_recovery() THEN 0
            ELSE coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint END
FROM pg_replication_slots WHERE NOT active
UNION ALL
SELECT 'hidden', count(*)::text, '', 0, 0 FROM pg_stat_activity
WHERE datname = current_database() AND backend_type IS NULL HAVING count(*) > 0;
