"""The job that the producers beside this file ask for. Only this side is Python."""

from redisjobs import App

app = App("producers")


@app.job(queue="mail")
async def send_confirmation(order_id: int, email: str) -> None:
    """Tell the customer that an order was taken."""
    print(f"mail to {email}: order {order_id} is confirmed", flush=True)
