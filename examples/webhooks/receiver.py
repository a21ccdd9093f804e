"""Receives webhooks on port 8021, and believes only what was signed with the secret: pip install standardwebhooks."""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["SHOP_SECRET"])
seen = set()  # in a program of yours a table, written in the transaction that does the work


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 to what it believes, and 400 to all else."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))  # as it came: it is what was signed
        try:
            event = webhook.verify(body, dict(self.headers))
        except WebhookVerificationError:
            self.send_response(400)
            self.end_headers()
            return
        message = self.headers["webhook-id"]
        if message not in seen:  # a delivery may come twice
            seen.add(message)
            print(f"python: {event['type']} {event['data']['order']} for {event['data']['email']}", flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8021"))), Receiver).serve_forever()
