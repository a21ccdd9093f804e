"""`manage.py place_orders 20`: every fifth payment is declined, and its tasks never run."""

from django.core.management.base import BaseCommand

from shop.orders import PaymentDeclinedError, place_order


class Command(BaseCommand):
    """Places orders."""

    help = "Place so many orders."

    def add_arguments(self, parser):
        """How many."""
        parser.add_argument("count", type=int, nargs="?", default=20)

    def handle(self, *, count: int, **options):
        """A transaction for each."""
        for number in range(1, count + 1):
            email = f"customer{number}@example.com"
            try:
                order = place_order(email, declined=number % 5 == 0)
            except PaymentDeclinedError:
                self.stdout.write(f"{email}: payment declined, so no order and no task")
            else:
                self.stdout.write(f"{order} is committed, and with it its tasks")
