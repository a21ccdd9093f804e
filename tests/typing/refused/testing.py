"""What the test kit refuses."""

from redisjobs import App
from redisjobs.testing import AsyncMemoryConnection, Inline, MemoryConnection, capture, run

app = App("shop")


@app.job
async def count(text: str, times: int = 1) -> int:
    return len(text) * times


async def bodies() -> None:
    await run(count, 1)  # refused
    await run(count, "a", often=2)  # refused
    await Inline().run(count)  # refused
    text: str = (await Inline(raises=True).run(count, "a")).value  # refused
    print(text)


def calls() -> None:
    with capture(app) as enqueued:
        count.enqueue(MemoryConnection(), 1)  # refused
        print(count.enqueue(AsyncMemoryConnection(), "a").id)  # refused
    enqueued("count")  # refused
