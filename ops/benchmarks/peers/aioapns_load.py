"""Pushes through aioapns: PORT CA KEY KEY_ID TEAM_ID PUSHES IN_FLIGHT. Prints JSON. Runs in the peers' environment."""

import asyncio
import hashlib
import json
import logging
import ssl
import sys
import time

from aioapns import APNs, NotificationRequest, PushType
from aioapns.connection import APNsProductionClientProtocol
from push_body import BODY


async def main():
    port, ca, key, key_id, team_id, pushes, in_flight = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    # Its host and port are constants of a class.
    APNsProductionClientProtocol.APNS_SERVER = "localhost"
    APNsProductionClientProtocol.APNS_PORT = int(port)
    context = ssl.create_default_context(cafile=ca)
    context.set_alpn_protocols(["h2"])
    with open(key) as file:
        client = APNs(
            key=file.read(), key_id=key_id, team_id=team_id, topic="com.example.shop", max_connections=1,
            ssl_context=context,
        )
    accepted = 0

    async def send(numbers):
        nonlocal accepted
        for number in numbers:
            result = await client.send_notification(NotificationRequest(
                device_token=hashlib.sha256(str(number).encode()).hexdigest(), message=BODY, time_to_live=3600,
                priority=10, collapse_key="sale-1", push_type=PushType.ALERT,
            ))
            accepted += result.is_successful

    # The first opens the connection.
    await send([0])
    accepted = 0
    numbers = iter(range(int(pushes)))
    wall, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*(send(numbers) for _ in range(int(in_flight))))
    print(json.dumps({
        "accepted": accepted, "seconds": time.monotonic() - wall, "cpu_seconds": time.process_time() - cpu,
    }))


asyncio.run(main())
