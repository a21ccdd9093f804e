# frozen_string_literal: true

require "json"
require "time"

# Asks redisjobs for jobs, on a PG::Connection of yours: whatever transaction it is in, the job is part of it.
module Redisjobs
  OPTIONS = %i[
    queue run_at delay idempotency_key key_window priority max_attempts
    expires_at tenant_id traceparent enqueued_by headers id
    version lane share_key key_policy key_wait key_longest result_ttl
  ].freeze

  MANY = "INSERT INTO redisjobs.outbox (job, queue, input) SELECT $1, $2, value FROM json_array_elements($3::json)"

  module_function

  # Asks for one job; answers its id. `input` is a Hash of arguments, or JSON text.
  def enqueue(connection, job, input = {}, **options)
    unknown = options.keys - OPTIONS
    raise ArgumentError, "#{unknown.first} is no option of a job: pass one of #{OPTIONS.join(", ")}" if unknown.any?

    given = options.keys.each_with_index.map { |name, at| ", #{name} => $#{at + 3}" }.join
    values = options.map { |name, value| name == :headers ? to_json(value) : to_text(value) }
    row = connection.exec_params("SELECT redisjobs.enqueue($1, $2#{given})", [job, to_json(input), *values])
    row.getvalue(0, 0)
  end

  # Asks for many jobs of one kind in one statement, in this order; answers how many.
  def enqueue_many(connection, job, inputs, queue: "default")
    connection.exec_params(MANY, [job, queue, to_json(inputs)]).cmd_tuples
  end

  # JSON.generate refuses NaN, and text that is no UTF-8.
  def to_json(value)
    value.is_a?(String) ? value : JSON.generate(value)
  end

  # A Time goes with its offset: what it means does not depend on the session's time zone.
  def to_text(value)
    value.is_a?(Time) ? value.iso8601(6) : value
  end
end
