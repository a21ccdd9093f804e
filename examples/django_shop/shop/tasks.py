"""The tasks of the shop. A worker imports this module, and so does whoever enqueues."""

from django.db.models import F
from django.utils import timezone

from redisjobs.integrations.django import task
from shop.models import Order


@task(queue_name="mail", max_attempts=5, timeout=30)
def send_confirmation(order_id: int) -> str:
    """Tell the customer. A task may run more than once, so a second run finds what the first one did."""
    order = Order.objects.get(pk=order_id, confirmed_at=None)
    print(f"order {order_id} is confirmed to {order.email}", flush=True)
    Order.objects.filter(pk=order_id).update(confirmed_at=timezone.now())
    return order.email


@task(takes_context=True)
async def pack(context, order_id: int) -> None:
    """Pack the order; an async task runs in the worker's event loop."""
    await Order.objects.filter(pk=order_id, packed=0).aupdate(packed=F("packed") + 1)
    print(f"order {order_id} is packed, attempt {context.attempt}", flush=True)
