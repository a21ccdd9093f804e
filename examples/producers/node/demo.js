// node demo.js ada@example.com: places an order; its mail goes out if, and only if, the order is committed.
import pg from 'pg';
import { enqueue } from './redisjobs.js';

const client = new pg.Client(); // PGHOST, PGDATABASE, PGUSER, … say where
await client.connect();
const email = process.argv[2] ?? 'ada@example.com';

await client.query('BEGIN');
try {
  const { rows } = await client.query('INSERT INTO orders (email) VALUES ($1) RETURNING id', [email]);
  await enqueue(client, 'send_confirmation', { order_id: rows[0].id, email }, { queue: 'mail' });
  await client.query('COMMIT');
  console.log(`order ${rows[0].id} is committed, and with it its mail`);
} catch (error) {
  await client.query('ROLLBACK');
  throw error;
} finally {
  await client.end();
}
