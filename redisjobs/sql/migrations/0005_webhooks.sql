-- Endpoints of webhooks.
--
-- A delivery is a job like any other. What is kept here is where it goes and how that place behaves: `webhook_endpoints`
-- has one row an endpoint, stored (with its url) or declared by a program (without one: only its state is here).
-- `webhook_secrets` has what a stored endpoint signs with, and the values of its headers: as they were given, or
-- encrypted by the program that wrote them. Row level security without a policy shows them to nobody but the owner of
-- the tables, whoever may read "all tables": deliverers get them from `webhook_target`, and nobody else does.

CREATE TABLE redisjobs.webhook_endpoints (
    name text PRIMARY KEY CHECK (char_length(name) <= 200 AND name ~ '[^[:space:]]' AND name !~ '[[:cntrl:]]'),
    url text CHECK (char_length(url) <= 2048 AND url ~ '^https?://[!-~]+$'),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- deliveries in a row that ended without being accepted; a retry that may still come counts nothing
    failures integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    -- the first attempt since the last success that was not accepted
    failing_since timestamptz,
    last_error text,
    -- exact to a minute: a healthy endpoint costs a write a minute, and not one a delivery
    last_delivered_at timestamptz,
    disabled_at timestamptz,
    disabled_why text,
    CONSTRAINT who_is_disabled_says_why CHECK ((disabled_at IS NULL) = (disabled_why IS NULL))
);

CREATE TABLE redisjobs.webhook_secrets (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint text NOT NULL REFERENCES redisjobs.webhook_endpoints (name) ON DELETE CASCADE,
    -- of a header, in lower case; NULL: it signs
    header text CHECK (header ~ '^[!-~]+$' AND header = lower(header)),
    value text NOT NULL CHECK (char_length(value) <= 4096),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- what was rotated away signs beside its successor until then
    expires_at timestamptz
);
CREATE INDEX webhook_secrets_endpoint ON redisjobs.webhook_secrets (endpoint, id);
CREATE UNIQUE INDEX webhook_secrets_header ON redisjobs.webhook_secrets (endpoint, header) WHERE header IS NOT NULL;
ALTER TABLE redisjobs.webhook_secrets ENABLE ROW LEVEL SECURITY;

-- An endpoint as a delivery needs it: where it goes, what signs it (the youngest secret first), and how it behaves.
CREATE FUNCTION redisjobs.webhook_target(endpoint_name text)
RETURNS TABLE (url text, secrets text[], headers json, failures integer, failing_since timestamptz, last_error text,
               last_delivered_at timestamptz, disabled_at timestamptz, disabled_why text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT e.url,
           ARRAY(SELECT s.value FROM redisjobs.webhook_secrets s
                 WHERE s.endpoint = e.name AND s.header IS NULL AND coalesce(s.expires_at > now(), true) ORDER BY s.id DESC),
           coalesce((SELECT json_object_agg(s.header, s.value) FROM redisjobs.webhook_secrets s
                     WHERE s.endpoint = e.name AND s.header IS NOT NULL), '{}'),
           e.failures, e.failing_since, e.last_error, e.last_delivered_at, e.disabled_at, e.disabled_why
    FROM redisjobs.webhook_endpoints e WHERE e.name = endpoint_name
$$;

-- Notes an attempt that was not accepted. `final`: no retry follows. `disable_after`: so many final ones in a row disable
-- the endpoint; 0: none do. `declared`: make the row where there is none. Answers the endpoint's failures and why it is disabled.
CREATE FUNCTION redisjobs.webhook_failed(endpoint_name text, error text, final boolean, gone boolean, disable_after integer,
                                         declared boolean)
RETURNS TABLE (failures integer, disabled_why text)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO redisjobs.webhook_endpoints (name) SELECT endpoint_name WHERE declared ON CONFLICT DO NOTHING;
    WITH judged AS (
        SELECT e.name, e.failures + final::integer AS failures,
               CASE WHEN gone THEN 'it answered 410: gone for good'
                    WHEN final AND disable_after > 0 AND e.failures + 1 >= disable_after
                    THEN format('%s deliveries in a row were not accepted, the last one because: %s', e.failures + 1, left(error, 300))
               END AS why
        FROM redisjobs.webhook_endpoints e WHERE e.name = endpoint_name FOR UPDATE)
    UPDATE redisjobs.webhook_endpoints e
    SET failures = j.failures, failing_since = coalesce(e.failing_since, clock_timestamp()), last_error = left(error, 500),
        disabled_at = CASE WHEN e.disabled_at IS NULL AND j.why IS NOT NULL THEN clock_timestamp() ELSE e.disabled_at END,
        disabled_why = coalesce(e.disabled_why, j.why)
    FROM judged j WHERE e.name = j.name
    RETURNING e.failures, e.disabled_why
$$;

-- Notes an attempt that was accepted. Writes nothing where it would change nothing worth knowing.
CREATE FUNCTION redisjobs.webhook_delivered(endpoint_name text, declared boolean) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO redisjobs.webhook_endpoints (name) SELECT endpoint_name WHERE declared ON CONFLICT DO NOTHING;
    UPDATE redisjobs.webhook_endpoints e
    SET failures = 0, failing_since = NULL, last_error = NULL, last_delivered_at = clock_timestamp()
    WHERE e.name = endpoint_name
      AND (e.failures > 0 OR e.failing_since IS NOT NULL OR coalesce(e.last_delivered_at < now() - interval '1 minute', true));
$$;

-- Stores an endpoint with its first secret and its headers; answers whether: false, where one of this name is stored.
CREATE FUNCTION redisjobs.webhook_add(endpoint_name text, endpoint_url text, secret text, headers json) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO redisjobs.webhook_endpoints AS e (name, url) VALUES (endpoint_name, endpoint_url)
    ON CONFLICT (name) DO UPDATE SET url = excluded.url WHERE e.url IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO redisjobs.webhook_secrets (endpoint, value) VALUES (endpoint_name, secret);
    INSERT INTO redisjobs.webhook_secrets (endpoint, header, value)
    SELECT endpoint_name, h.key, h.value FROM json_each_text(headers) h;
    RETURN true;
END $$;

-- Gives a stored endpoint a new secret. Those before it sign beside it for the grace, and leave then.
CREATE FUNCTION redisjobs.webhook_rotate(endpoint_name text, secret text, grace interval) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM 1 FROM redisjobs.webhook_endpoints e WHERE e.name = endpoint_name AND e.url IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE redisjobs.webhook_secrets s SET expires_at = least(s.expires_at, now() + grace)
    WHERE s.endpoint = endpoint_name AND s.header IS NULL;
    DELETE FROM redisjobs.webhook_secrets s WHERE s.endpoint = endpoint_name AND s.expires_at <= now();
    INSERT INTO redisjobs.webhook_secrets (endpoint, value) VALUES (endpoint_name, secret);
    RETURN true;
END $$;

-- Disables an endpoint, or with no reason enables it and forgets its failures; answers whether there is one.
CREATE FUNCTION redisjobs.webhook_switch(endpoint_name text, why text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE redisjobs.webhook_endpoints e
    SET disabled_at = CASE WHEN why IS NOT NULL THEN coalesce(e.disabled_at, clock_timestamp()) END, disabled_why = why,
        failures = CASE WHEN why IS NULL THEN 0 ELSE e.failures END,
        failing_since = CASE WHEN why IS NOT NULL THEN e.failing_since END,
        last_error = CASE WHEN why IS NOT NULL THEN e.last_error END
    WHERE e.name = endpoint_name;
    RETURN FOUND;
END $$;

-- Forgets an endpoint with its secrets; answers whether there was one.
CREATE FUNCTION redisjobs.webhook_delete(endpoint_name text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM redisjobs.webhook_endpoints e WHERE e.name = endpoint_name;
    RETURN FOUND;
END $$;

-- What an endpoint has of secrets and headers, without any value.
CREATE FUNCTION redisjobs.webhook_keys(endpoint_name text)
RETURNS TABLE (header text, created_at timestamptz, expires_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.header, s.created_at, s.expires_at FROM redisjobs.webhook_secrets s
    WHERE s.endpoint = endpoint_name AND coalesce(s.expires_at > now(), true) ORDER BY s.header NULLS FIRST, s.id DESC
$$;

-- A worker that delivers reads endpoints with their secrets, and notes how they behave.
CREATE FUNCTION redisjobs.grant_webhooks(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.webhook_target, redisjobs.webhook_failed, redisjobs.webhook_delivered
                    TO %I', grantee);
END $$;

-- Who manages endpoints writes secrets and reads none.
CREATE FUNCTION redisjobs.grant_webhook_admin(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA redisjobs TO %I', grantee);
    EXECUTE format('GRANT SELECT ON redisjobs.webhook_endpoints TO %I', grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION redisjobs.webhook_add, redisjobs.webhook_rotate, redisjobs.webhook_switch,
                    redisjobs.webhook_delete, redisjobs.webhook_keys TO %I', grantee);
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redisjobs FROM PUBLIC;
