CREATE TABLE IF NOT EXISTS accounts (id integer PRIMARY KEY, cents bigint NOT NULL CHECK (cents >= 0));
CREATE TABLE IF NOT EXISTS statements (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account integer NOT NULL, text text NOT NULL);
INSERT INTO accounts SELECT n, 10000 FROM generate_series(1, 10) AS n ON CONFLICT DO NOTHING;
