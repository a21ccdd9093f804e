# frozen_string_literal: true

# Does what the lines on stdin say, and answers each with a line: how the tests drive every language alike.
require "pg"
require_relative "redisjobs"

CONNECTION = PG.connect
CONNECTION.set_notice_processor { |notice| warn notice }

def enqueue(job, input, options)
  options = options.transform_keys(&:to_sym)
  options[:run_at] &&= Time.iso8601(options[:run_at])
  Redisjobs.enqueue(CONNECTION, job, input, **options)
end

def carry_out(command)
  job, input, options = command.values_at("job", "input", "options")
  case command["do"]
  when "begin", "commit", "rollback" then CONNECTION.exec(command["do"]) && nil
  when "savepoint" then CONNECTION.exec("SAVEPOINT #{command["name"]}") && nil
  when "rollback_to" then CONNECTION.exec("ROLLBACK TO SAVEPOINT #{command["name"]}") && nil
  when "sql" then CONNECTION.exec(command["text"]) && nil
  when "enqueue" then enqueue(job, input || {}, options || {})
  when "enqueue_many" then Redisjobs.enqueue_many(CONNECTION, job, input, queue: options["queue"])
  when "enqueue_no_text" then enqueue(job, { text: "\xED\xA0\x80" }, {})
  when "enqueue_nan" then enqueue(job, { number: Float::NAN }, {})
  end
end

$stdout.sync = true
$stdin.each_line do |line|
  puts JSON.generate(answer: carry_out(JSON.parse(line)))
rescue PG::Error => e
  field = ->(code) { e.result&.error_field(code) }
  sqlstate, constraint = field.call(PG::PG_DIAG_SQLSTATE), field.call(PG::PG_DIAG_CONSTRAINT_NAME)
  puts JSON.generate(error: e.message, sqlstate: sqlstate, constraint: constraint)
rescue StandardError => e
  puts JSON.generate(error: e.message, sqlstate: nil, constraint: nil)
end
