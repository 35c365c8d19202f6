"""The guard of outgoing requests: a name is resolved once, every address is checked, and a checked one is used."""

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

# Addresses where clouds provide credentials; some lie in public or private ranges.
METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
    )
)
# An IPv6 address in this network stands for the IPv4 address in its last 32 bits.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Obsolete forms of IPv6 addresses that contain an IPv4 address.
_IPV4_IN_IPV6 = tuple(
    map(ipaddress.IPv6Network, ("::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16"))
)
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
    """A request to an address that nodes may not reach."""

    type = "address_refused"


def refusal(address: Address, allow_private: bool) -> str | None:
    """Return why an address may not be reached; None if it may."""
    embedded = _embedded_ipv4(address)
    if embedded is not None:
        return refusal(embedded, allow_private)
    reason = _always_refused(address)
    if reason is not None or allow_private:
        return reason
    if address.is_loopback:
        return "is loopback"
    if _is_private(address):
        return "is private"
    return None


def _embedded_ipv4(address: Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for."""
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped


def _always_refused(address: Address) -> str | None:
    if address in METADATA:
        return "is a cloud's metadata address"
    if address.is_link_local:
        return "is link-local"
    if address.is_multicast:
        return "is a multicast address"
    if address.is_unspecified or _is_in(address, (_THIS_NETWORK,)):
        return "is not the address of a host"
    # The loopback address ::1 lies in a reserved range.
    if not address.is_loopback and (address.is_reserved or _is_in(address, _IPV4_IN_IPV6)):
        return "is reserved"
    return None


def _is_private(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address.is_site_local:
        return True
    return not address.is_global


def _is_in(
    address: Address, networks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network]
) -> bool:
    return any(address in network for network in networks)


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects only to addresses that were checked, so that a name cannot resolve to another one afterwards."""

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
        """Connect to the first address that answers; raise AddressRefused if any address of the host is not allowed."""
        addresses = await self._resolve(host, port)
        failure: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in addresses[:ADDRESSES_TRIED_MAX]:
            try:
                return await self._network.connect_tcp(
                    str(address),
                    port,
                    timeout=timeout,
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse every local socket."""
        raise AddressRefused(f"local sockets are not allowed: {path!r}")

    async def sleep(self, seconds: float) -> None:
        """Wait between attempts to connect."""
        await asyncio.sleep(seconds)

    async def _resolve(self, host: str, port: int) -> list[Address]:
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                found = await asyncio.get_running_loop().getaddrinfo(
                    host, port, type=socket.SOCK_STREAM
                )
        except TimeoutError:
            raise httpcore2.ConnectTimeout(
                f"host name not resolved within {RESOLVE_SECONDS:g} s: {host!r}"
            ) from None
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(
                f"host name cannot be resolved: {host!r}: {error}"
            ) from error
        addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
        for address in addresses:
            if (reason := refusal(address, self._allow_private)) is not None:
                message = f"address not allowed: {host} is {address}, which {reason}"
                if refusal(address, allow_private=True) is None:
                    message += "; the setting http.allow_private permits it"
                raise AddressRefused(message)
        return list(dict.fromkeys(addresses))


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests through a pool of checked connections, never through a proxy."""

    def __init__(self, allow_private: bool, ssl_context: ssl.SSLContext) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context,
            max_connections=CONNECTIONS_MAX,
            keepalive_expiry=KEEPALIVE_SECONDS,
            network_backend=GuardedBackend(allow_private),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request and return its response, whose body is streamed."""
        url = request.url
        outgoing = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
            ),
            headers=request.headers.raw,
            content=cast("httpx2.AsyncByteStream", request.stream),
            extensions=request.extensions,
        )
        with _translate_errors():
            response = await self._pool.handle_async_request(outgoing)
        return httpx2.Response(
            status_code=response.status,
            headers=response.headers,
            stream=TranslatedErrorStream(response),
            extensions=cast("dict[str, Any]", response.extensions),
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class TranslatedErrorStream(httpx2.AsyncByteStream):
    """The body of a response; errors of the pool are raised as errors of the client."""

    def __init__(self, response: httpcore2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translate_errors():
            async for part in cast("AsyncIterator[bytes]", self._response.stream):
                yield part

    async def aclose(self) -> None:
        """Release the connection, or close it if the body was not read to its end."""
        await self._response.aclose()


@contextmanager
def _translate_errors() -> Generator[None]:
    try:
        yield
    except tuple(pool_error for pool_error, _ in _ERRORS) as error:
        for pool_error, client_error in _ERRORS:
            if isinstance(error, pool_error):
                raise client_error(str(error) or type(error).__name__) from error
