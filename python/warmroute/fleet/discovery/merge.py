"""One fleet of what several sources list. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from warmroute.fleet.discovery.listing import PRECEDENCE, Key, Listing
from warmroute.logs import get

log = get("discovery")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A worker that the fleet is to have: the listing that is believed, and whose it is."""

    listing: Listing
    source: str


def merge(sets: Mapping[str, Sequence[Listing]]) -> dict[str, Wanted]:
    """The workers by the name that they have in the fleet.

    One URL is one worker: the first source of `PRECEDENCE` that lists it gives its name and terms, and it
    drains where any source says so. A name that an earlier worker has gives way to host and port.
    """
    wanted: dict[str, Wanted] = {}
    for source, listing in _believed(sets):
        name = next((name for name in _names(listing) if name not in wanted), None)
        if name is None:
            log.once(listing.key, "two workers have one name: the later one is left out", worker=listing.name)
            continue
        if name != listing.name:
            log.once(
                listing.key, "two workers have one name: the later one is called by its address", worker=name
            )
            listing = replace(listing, worker=replace(listing.worker, name=name))  # noqa: PLW2901
        wanted[name] = Wanted(listing, source)
    return wanted


def _believed(sets: Mapping[str, Sequence[Listing]]) -> Iterator[tuple[str, Listing]]:
    found: dict[Key, tuple[str, Listing]] = {}
    for source in PRECEDENCE:
        for listing in sets.get(source, ()):
            first = found.setdefault(listing.key, (source, listing))
            if first[0] == source and first[1].name != listing.name:
                log.once(listing.key, "one source lists a URL twice: the first counts", worker=listing.name)
            if listing.draining and not first[1].draining:
                found[listing.key] = (first[0], replace(first[1], draining=True))
    yield from found.values()


def _names(listing: Listing) -> Iterator[str]:
    yield listing.name
    url, rank = listing.key
    address = urlsplit(url).netloc
    yield address if rank is None else f"{address}@{rank}"
