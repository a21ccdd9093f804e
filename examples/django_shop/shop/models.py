"""The tables of the shop."""

from django.db import models


class Order(models.Model):
    """What somebody ordered."""

    email = models.EmailField()
    confirmed_at = models.DateTimeField(null=True)
    packed = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"order {self.pk}"
