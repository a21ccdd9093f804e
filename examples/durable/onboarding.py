"""A welcome that takes days: a step, a wait for an event, a sleep and a timeout, in one function."""

from dataclasses import dataclass

from shop import app

from redisjobs import Context


@dataclass
class Confirmation:
    """What the event of the address brings along."""

    address: str


async def send_mail(address: str, template: str) -> str:
    """Stands for a mail provider."""
    print(f"mail to {address}: {template}", flush=True)
    return f"{template}-{address}"


@app.job()
async def onboard(ctx: Context, user: int, address: str, patience: float = 3 * 86_400, pause: float = 86_400) -> str:
    """Welcome somebody who signed up.

    While it waits or sleeps it holds no slot and nothing in Redis; a deploy, a crash or a lost Redis changes nothing.

    Args:
        patience: seconds to wait for the confirmation.
        pause: seconds until the tips follow.
    """
    await ctx.step("welcome", send_mail, address, "welcome")
    confirmed = await ctx.wait_for_event("address-confirmed", str(user), timeout=patience, of=Confirmation)
    if confirmed is None:
        await ctx.step("remind", send_mail, address, "reminder")
        return "never confirmed"
    await ctx.sleep("let them look around", pause)
    await ctx.step("tips", send_mail, confirmed.data.address, "tips")
    return "on board"
