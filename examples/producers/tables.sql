CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, email text NOT NULL);
