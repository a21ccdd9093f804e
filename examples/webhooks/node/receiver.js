// Receives webhooks on port 8022, and believes only what was signed with the secret: npm install
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.SHOP_SECRET);
const seen = new Set(); // in a program of yours a table, written in the transaction that does the work

createServer(async (request, response) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  let event;
  try {
    event = webhook.verify(Buffer.concat(pieces).toString(), request.headers);
  } catch {
    response.writeHead(400).end();
    return;
  }
  const message = request.headers["webhook-id"];
  if (!seen.has(message)) { // a delivery may come twice
    seen.add(message);
    console.log(`node: ${event.type} ${event.data.order} for ${event.data.email}`);
  }
  response.writeHead(204).end();
}).listen(Number(process.env.PORT ?? 8022), "127.0.0.1");
