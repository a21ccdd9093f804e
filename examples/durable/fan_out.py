"""A report over many parts: a child for each, side by side on all workers, and one that adds up."""

from shop import app

from redisjobs import Context


@app.job(queue="parts", retry=[0.1])
async def count_words(part: int) -> int:
    """One part. Children are jobs like any other: with retries, dead letters and a queue of their own."""
    return part % 10


@app.job()
async def report(ctx: Context, parts: int) -> int:
    """The sum over all parts. It holds no slot while they run, and none of them is started twice."""
    counts = await ctx.gather(*(ctx.call(count_words.call(part), name=f"part-{part}") for part in range(parts)))
    total = sum(counts)
    print(f"{parts} parts, {total} words", flush=True)
    return total
