"""An order over three services, each of which can fail: what was done is undone, newest first."""

from shop import app

from redisjobs import Context, Dead, StepFailed

STOCK = {"lamp": 100, "chair": 100}


class CardDeclinedError(Exception):
    """The bank says no, and will say so again."""


async def reserve(item: str, quantity: int) -> str:
    """Reserve stock; answers what `release` needs."""
    print(f"reserved {quantity} {item}", flush=True)
    return f"{item}:{quantity}"


async def release(reservation: str) -> None:
    """Undo `reserve`."""
    print(f"released {reservation}", flush=True)


async def charge(customer: int, amount: int) -> str:
    """Charge a card; every seventh customer's is declined."""
    if customer % 7 == 0:
        raise CardDeclinedError(f"customer {customer}")
    print(f"charged {amount} to {customer}", flush=True)
    return f"payment-{customer}"


async def refund(payment: str) -> None:
    """Undo `charge`."""
    print(f"refunded {payment}", flush=True)


async def ship(item: str, quantity: int) -> str:
    """Hand over to the carrier."""
    print(f"shipped {quantity} {item}", flush=True)
    return f"parcel with {quantity} {item}"


@app.job(max_attempts=3, retry=[0.2], give_up_on=CardDeclinedError)
async def place_order(ctx: Context, customer: int, item: str, quantity: int) -> str:
    """Reserve, charge, ship. If it ends dead or is cancelled, what was done is undone, newest first."""
    await ctx.step("reserve", reserve, item, quantity, undo=release)
    try:
        await ctx.step("charge", charge, customer, 10 * quantity, undo=refund)
    except StepFailed as error:
        raise Dead(f"no money, no order: {error.error}") from error
    return await ctx.step("ship", ship, item, quantity, tries=5, retry=[0.5, 1, 2])
