// Asks redisjobs for jobs, on a `pg` client of yours: whatever transaction it is in, the job is part of it.

const OPTIONS = new Set([
  'queue', 'run_at', 'delay', 'idempotency_key', 'key_window', 'priority', 'max_attempts',
  'expires_at', 'tenant_id', 'traceparent', 'enqueued_by', 'headers', 'id',
  'version', 'lane', 'share_key', 'key_policy', 'key_wait', 'key_longest', 'result_ttl',
]);

/** Asks for one job; resolves to its id. `input` is an object of arguments, or JSON text. */
export async function enqueue(client, job, input = {}, options = {}) {
  const names = Object.keys(options).filter((name) => options[name] !== undefined);
  const unknown = names.find((name) => !OPTIONS.has(name));
  if (unknown) throw new TypeError(`${unknown} is no option of a job: pass one of ${[...OPTIONS].join(', ')}`);

  const given = names.map((name, at) => `, ${name} => $${at + 3}`).join('');
  const values = names.map((name) => (name === 'headers' ? toJson(options[name]) : options[name]));
  const { rows } = await client.query(`SELECT redisjobs.enqueue($1, $2${given}) AS id`, [job, toJson(input), ...values]);
  return rows[0].id;
}

/** Asks for many jobs of one kind in one statement, in this order; resolves to how many. */
export async function enqueueMany(client, job, inputs, { queue = 'default' } = {}) {
  const { rowCount } = await client.query(
    'INSERT INTO redisjobs.outbox (job, queue, input) SELECT $1, $2, value FROM json_array_elements($3::json)',
    [job, queue, toJson(inputs)],
  );
  return rowCount;
}

// JSON.stringify makes null of NaN, refuses a BigInt, and lets half a character pass that no reader can print.
function toJson(value) {
  if (typeof value === 'string') return value;
  return JSON.stringify(value, (key, each) => {
    if (typeof each === 'bigint') return JSON.rawJSON(each.toString());
    if (typeof each === 'number' && !Number.isFinite(each)) throw new TypeError(`${key} is ${each}, which JSON has not`);
    if (!key.isWellFormed() || (typeof each === 'string' && !each.isWellFormed())) {
      throw new TypeError(`${key.toWellFormed()} has a lone surrogate, which is no character`);
    }
    return each;
  });
}
