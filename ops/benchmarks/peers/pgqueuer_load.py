"""No-op jobs through pgqueuer: URL JOBS BATCH. Prints JSON. Runs in the peers' environment."""

import asyncio
import json
import sys
import time

import asyncpg
from pgqueuer import AsyncpgDriver, QueueManager, Queries
from pgqueuer.types import QueueExecutionMode


async def main():
    url, jobs, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    connection = await asyncpg.connect(url)
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    await queries.install()
    await queries.enqueue(["noop"] * jobs, [None] * jobs, [0] * jobs)
    await connection.execute("ANALYZE")
    manager = QueueManager(queries)
    done = 0

    @manager.entrypoint("noop")
    async def noop(job):
        nonlocal done
        done += 1

    wall, cpu = time.monotonic(), time.process_time()
    await manager.run(batch_size=batch, mode=QueueExecutionMode.drain)
    print(json.dumps({
        "done": done, "seconds": time.monotonic() - wall, "cpu_seconds": time.process_time() - cpu,
    }))
    await connection.close()


asyncio.run(main())
