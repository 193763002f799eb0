"""A DNS server on the loopback interface that answers what a test says."""

from __future__ import annotations

import asyncio
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset


class DnsServer(asyncio.DatagramProtocol):
    """Zones are `records[(name, kind)] = [text, ...]`; use it as an async context manager.

    `silent` answers nothing, `rcode` makes every answer an error.
    """

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[str]] = {}
        self.ttl = 1
        self.silent = False
        self.rcode: int | None = None
        self.questions = 0
        self.port = 0
        self._transport: Any = None

    @property
    def address(self) -> str:
        """Where it listens, as `IP:PORT`."""
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> DnsServer:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, ("127.0.0.1", 0))
        self.port = self._transport.get_extra_info("sockname")[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._transport.close()

    def service(self, name: str, workers: dict[str, int]) -> None:
        """`name` has an SRV record for each host and port, and each host is at 127.0.0.1."""
        self.records[(name, "SRV")] = [f"0 0 {port} {host}." for host, port in workers.items()]
        for host in workers:
            self.records[(host, "A")] = ["127.0.0.1"]

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.questions += 1
        if self.silent:
            return
        query = dns.message.from_wire(data)
        (question,) = query.question
        reply = dns.message.make_response(query)
        reply.flags |= dns.flags.RA
        name, kind = question.name.to_text(omit_final_dot=True), dns.rdatatype.to_text(question.rdtype)
        if self.rcode is not None:
            reply.set_rcode(dns.rcode.Rcode(self.rcode))
        elif records := self.records.get((name, kind)):
            reply.answer.append(dns.rrset.from_text(question.name, self.ttl, "IN", kind, *records))
        elif not any(known == name for known, _ in self.records):
            reply.set_rcode(dns.rcode.NXDOMAIN)
        self._transport.sendto(reply.to_wire(), addr)
