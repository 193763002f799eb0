"""A client of the gRPC endpoint: `Client` for ordinary programs, `AsyncClient` for asyncio.

```python
with warmroute.client.Client("router:50051") as client:
    with client.route(tokens, model="llama", max_output_tokens=120) as reservation:
        reply = send(reservation.url, tokens)  # your own HTTP client
        reservation.first_token()
```
"""

from warmroute.client.aio import AsyncClient, AsyncReservation
from warmroute.client.aio_stream import AsyncStream
from warmroute.client.blocking import Client, Reservation
from warmroute.client.blocking_stream import Stream
from warmroute.client.generation import AsyncGeneration, Generation

__all__ = [
    "AsyncClient",
    "AsyncGeneration",
    "AsyncReservation",
    "AsyncStream",
    "Client",
    "Generation",
    "Reservation",
    "Stream",
]
