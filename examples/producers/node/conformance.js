// Does what the lines on stdin say, and answers each with a line: how the tests drive every language alike.
import { createInterface } from 'node:readline';
import pg from 'pg';
import { enqueue, enqueueMany } from './redisjobs.js';

const client = new pg.Client();
await client.connect();

// 2 ** 53 and more are no Numbers of this language: they are read as BigInt.
function exact(_, value, { source } = {}) {
  return Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? BigInt(source) : value;
}

function times({ run_at, ...options }) {
  return run_at === undefined ? options : { ...options, run_at: new Date(run_at) };
}

const commands = {
  begin: () => client.query('BEGIN'),
  commit: () => client.query('COMMIT'),
  rollback: () => client.query('ROLLBACK'),
  savepoint: ({ name }) => client.query(`SAVEPOINT ${name}`),
  rollback_to: ({ name }) => client.query(`ROLLBACK TO SAVEPOINT ${name}`),
  sql: ({ text }) => client.query(text),
  enqueue: ({ job, input, options = {} }) => enqueue(client, job, input, times(options)),
  enqueue_many: ({ job, input, options }) => enqueueMany(client, job, input, options),
  enqueue_no_text: ({ job }) => enqueue(client, job, { text: '\ud800' }),
  enqueue_nan: ({ job }) => enqueue(client, job, { number: NaN }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line, exact);
  try {
    const answer = await commands[command.do](command);
    console.log(JSON.stringify({ answer: typeof answer === 'object' ? null : answer }));
  } catch (error) {
    console.log(JSON.stringify({ error: error.message, sqlstate: error.code ?? null, constraint: error.constraint ?? null }));
  }
}
await client.end();
