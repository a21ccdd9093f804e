CREATE TABLE IF NOT EXISTS orders (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    address text NOT NULL,
    item text NOT NULL,
    quantity integer NOT NULL
);

CREATE TABLE IF NOT EXISTS reservations (
    order_id integer PRIMARY KEY REFERENCES orders (id),
    item text NOT NULL,
    quantity integer NOT NULL
);
