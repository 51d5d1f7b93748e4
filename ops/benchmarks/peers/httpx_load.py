"""Pushes through httpx over HTTP/2: PORT CA BEARER PUSHES IN_FLIGHT. Prints JSON. Runs in the peers' environment."""

import asyncio
import hashlib
import json
import ssl
import sys
import time
import uuid

import httpx

from push_body import BODY


async def main():
    port, ca, bearer, pushes, in_flight = sys.argv[1:]
    accepted = 0
    async with httpx.AsyncClient(
        http1=False, http2=True, verify=ssl.create_default_context(cafile=ca), timeout=30,
        limits=httpx.Limits(max_connections=1),
    ) as client:

        async def send(numbers):
            nonlocal accepted
            for number in numbers:
                token = hashlib.sha256(str(number).encode()).hexdigest()
                answer = await client.post(
                    f"https://localhost:{port}/3/device/{token}", content=json.dumps(BODY).encode(),
                    headers={
                        "authorization": bearer, "apns-topic": "com.example.shop", "apns-push-type": "alert",
                        "apns-priority": "10", "apns-expiration": str(int(time.time()) + 3600),
                        "apns-collapse-id": "sale-1", "apns-id": str(uuid.uuid4()),
                    },
                )
                accepted += answer.status_code == 200

        await send([0])
        accepted = 0
        numbers = iter(range(int(pushes)))
        wall, cpu = time.monotonic(), time.process_time()
        await asyncio.gather(*(send(numbers) for _ in range(int(in_flight))))
        print(json.dumps({
            "accepted": accepted, "seconds": time.monotonic() - wall, "cpu_seconds": time.process_time() - cpu,
        }))


asyncio.run(main())
