# frozen_string_literal: true

# ruby demo.rb ada@example.com: places an order; its mail goes out if, and only if, the order is committed.
require "pg"
require_relative "redisjobs"

connection = PG.connect # PGHOST, PGDATABASE, PGUSER, … say where
email = ARGV.fetch(0, "ada@example.com")

order_id = connection.transaction do
  id = connection.exec_params("INSERT INTO orders (email) VALUES ($1) RETURNING id", [email]).getvalue(0, 0).to_i
  Redisjobs.enqueue(connection, "send_confirmation", { order_id: id, email: email }, queue: "mail")
  id
end
puts "order #{order_id} is committed, and with it its mail"
