"""Webhooks as Standard Webhooks has them: a delivery is a job, and committing its transaction is sending it."""

from redisjobs.webhooks.endpoint import Endpoint
from redisjobs.webhooks.failures import DeliveryFailed, DeliveryRefused
from redisjobs.webhooks.keys import generate_secret, public_key
from redisjobs.webhooks.schedule import over_days
from redisjobs.webhooks.signing import verify
from redisjobs.webhooks.webhook import deliverer_of, webhook

__all__ = [
    "DeliveryFailed",
    "DeliveryRefused",
    "Endpoint",
    "deliverer_of",
    "generate_secret",
    "over_days",
    "public_key",
    "verify",
    "webhook",
]
