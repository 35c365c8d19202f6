"""The guard of outgoing requests: names are resolved once, every address is checked, the checked one is used."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

import httpcore2
import httpx2

from windlass.core.errors import FatalError

CONNECTIONS_MAX = 100
KEEPALIVE_SECONDS = 30.0
RESOLVE_SECONDS = 10.0
ADDRESSES_TRIED_MAX = 4

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Addresses where clouds hand out credentials; some of them lie in ranges that are public or merely private.
METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254")
)
# An IPv6 address in it stands for the IPv4 address in its last 32 bits.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Forms that hide an IPv4 address and that no host of today needs.
_HIDING = tuple(map(ipaddress.IPv6Network, ("::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16")))
_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")
_ERRORS: tuple[tuple[type[Exception], type[httpx2.TransportError]], ...] = (
    (httpcore2.ConnectTimeout, httpx2.ConnectTimeout),
    (httpcore2.ReadTimeout, httpx2.ReadTimeout),
    (httpcore2.WriteTimeout, httpx2.WriteTimeout),
    (httpcore2.PoolTimeout, httpx2.PoolTimeout),
    (httpcore2.TimeoutException, httpx2.TimeoutException),
    (httpcore2.ConnectError, httpx2.ConnectError),
    (httpcore2.ReadError, httpx2.ReadError),
    (httpcore2.WriteError, httpx2.WriteError),
    (httpcore2.NetworkError, httpx2.NetworkError),
    (httpcore2.LocalProtocolError, httpx2.LocalProtocolError),
    (httpcore2.RemoteProtocolError, httpx2.RemoteProtocolError),
    (httpcore2.ProtocolError, httpx2.ProtocolError),
    (httpcore2.UnsupportedProtocol, httpx2.UnsupportedProtocol),
)


class AddressRefused(FatalError):
    """A request would reach an address that nodes may not reach."""

    type = "address_refused"


def refusal(address: Address, allow_private: bool) -> str | None:
    """Why an address may not be reached; None when it may."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or (ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None)
        if inner is not None:
            return refusal(inner, allow_private)
    if address in METADATA:
        return "is a cloud's metadata address"
    if address.is_link_local:
        return "is link-local"
    if address.is_multicast:
        return "is a multicast address"
    if address.is_unspecified or (isinstance(address, ipaddress.IPv4Address) and address in _THIS_NETWORK):
        return "is no address of a host"
    if address.is_loopback:
        return None if allow_private else "is loopback"
    if address.is_reserved or any(address in network for network in _HIDING):
        return "is reserved"
    if isinstance(address, ipaddress.IPv6Address) and address.is_site_local:
        return None if allow_private else "is private"
    return None if address.is_global or allow_private else "is private"


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects only to addresses that were checked, so a name cannot mean another one a moment later."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._network = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address of the host that answers; AddressRefused when any of them is out of bounds."""
        addresses = await self._resolve(host, port)
        failure: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in addresses[:ADDRESSES_TRIED_MAX]:
            try:
                return await self._network.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse: nodes speak to hosts."""
        raise AddressRefused(f"a request may not use the local socket {path!r}")

    async def sleep(self, seconds: float) -> None:
        """Wait between attempts to connect."""
        await asyncio.sleep(seconds)

    async def _resolve(self, host: str, port: int) -> list[Address]:
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"the name {host!r} was not resolved within {RESOLVE_SECONDS:g} s") from None
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"the name {host!r} cannot be resolved: {error}") from error
        addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
        for address in addresses:
            if (why := refusal(address, self._allow_private)) is not None:
                way_out = "" if refusal(address, True) else "; the setting http.allow_private permits it"
                raise AddressRefused(f"{host} is {address}, which {why}: nodes may not reach it{way_out}")
        return list(dict.fromkeys(addresses))


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests through a pool of checked connections, and never through a proxy."""

    def __init__(self, allow_private: bool, ssl_context: ssl.SSLContext) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context,
            max_connections=CONNECTIONS_MAX,
            keepalive_expiry=KEEPALIVE_SECONDS,
            network_backend=GuardedBackend(allow_private),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; its body streams."""
        url = request.url
        outgoing = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=cast("httpx2.AsyncByteStream", request.stream),
            extensions=request.extensions,
        )
        with _translated():
            response = await self._pool.handle_async_request(outgoing)
        return httpx2.Response(
            status_code=response.status,
            headers=response.headers,
            stream=TranslatedStream(response),
            extensions=cast("dict[str, Any]", response.extensions),
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class TranslatedStream(httpx2.AsyncByteStream):
    """The body of a response, with the client's errors instead of the pool's."""

    def __init__(self, response: httpcore2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for part in cast("AsyncIterator[bytes]", self._response.stream):
                yield part

    async def aclose(self) -> None:
        """Give the connection back, or close it when the body was not read to its end."""
        await self._response.aclose()


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except tuple(known for known, _ in _ERRORS) as error:
        translated = next(ours for known, ours in _ERRORS if isinstance(error, known))
        raise translated(str(error) or type(error).__name__) from error
