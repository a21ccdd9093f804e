"""What the shop does."""

from django.db import transaction

from shop.models import Order
from shop.tasks import pack, send_confirmation


class PaymentDeclinedError(Exception):
    """No money, no order."""


def place_order(email: str, *, declined: bool = False) -> Order:
    """An order with its two tasks: they are enqueued with the commit, or never were."""
    with transaction.atomic():
        order = Order.objects.create(email=email)
        send_confirmation.enqueue(order.pk)
        pack.enqueue(order.pk)
        if declined:
            raise PaymentDeclinedError(email)
    return order
