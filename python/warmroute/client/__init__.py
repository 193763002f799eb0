"""A client of the gRPC endpoint: `Client` for ordinary programs, `AsyncClient` for asyncio.

```python
with warmroute.client.Client("router:50051") as client:
    with client.route(tokens, model="llama", max_output_tokens=120) as reservation:
        reply = send(reservation.url, tokens)  # your own HTTP client
        reservation.first_token()
```
"""

from warmroute.client.aio import AsyncClient
from warmroute.client.aio_stream import AsyncStream
from warmroute.client.blocking import Client
from warmroute.client.blocking_stream import Stream
from warmroute.client.generation import AsyncGeneration, Generation
from warmroute.client.messages import Terms
from warmroute.client.reservations import AsyncReservation, Reservation

__all__ = [
    "AsyncClient",
    "AsyncGeneration",
    "AsyncReservation",
    "AsyncStream",
    "Client",
    "Generation",
    "Reservation",
    "Stream",
    "Terms",
]
