"""Addresses that nodes must not reach, in all their spellings."""

import asyncio
import ipaddress
import socket
from typing import Any

import pytest
from handler_harness import answer, running, serving

from windlass.handlers.network_guard import refusal

# Spellings of loopback, private and other internal addresses. PORT is replaced by the port of a running server.
PRIVATE = [
    "http://127.0.0.1:PORT/",
    "http://127.0.0.1.:PORT/",
    "http://127.1:PORT/",
    "http://127.0.1:PORT/",
    "http://127.255.255.254:PORT/",
    "http://2130706433:PORT/",
    "http://0x7f000001:PORT/",
    "http://0x7f.1:PORT/",
    "http://0x7f.0x0.0x0.0x1:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://0177.0.0.01:PORT/",
    "http://017700000001:PORT/",
    "http://localhost:PORT/",
    "http://LOCALHOST:PORT/",
    "http://localhost.:PORT/",
    "http://user:pass@127.0.0.1:PORT/",
    "http://example.com@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT/#@example.com/",
    "http://127.0.0.1:PORT\\@example.com/",
    "http://%31%32%37.0.0.1:PORT/",
    "http://127。0。0。1:PORT/",
    "http://①②⑦.⓪.⓪.①:PORT/",
    "http://[::1]:PORT/",
    "http://[0:0:0:0:0:0:0:1]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:PORT/",
    "http://[::127.0.0.1]:PORT/",
    "http://[64:ff9b::127.0.0.1]:PORT/",
    "http://[64:ff9b::7f00:1]:PORT/",
    "http://[64:ff9b:1::7f00:1]:PORT/",
    "http://[2002:7f00:1::]:PORT/",
    "http://[2001:0:7f00:1::]:PORT/",
    "http://[fe80::1]:PORT/",
    "http://[fc00::1]:PORT/",
    "http://[fd12:3456::1]:PORT/",
    "http://[fec0::1]:PORT/",
    "http://[::]:PORT/",
    "http://[::ffff:0.0.0.0]:PORT/",
    "http://0.0.0.0:PORT/",
    "http://0:PORT/",
    "http://0.1.2.3:PORT/",
    "http://10.0.0.1:PORT/",
    "http://10.255.255.255:PORT/",
    "http://172.16.0.1:PORT/",
    "http://172.31.255.255:PORT/",
    "http://192.168.0.1:PORT/",
    "http://100.64.0.1:PORT/",
    "http://192.0.2.1:PORT/",
    "http://198.18.0.1:PORT/",
    "http://224.0.0.1:PORT/",
    "http://240.0.0.1:PORT/",
    "http://255.255.255.255:PORT/",
]
# Spellings of addresses that are refused whatever the settings say.
ALWAYS = [
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.169.254./",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[64:ff9b::169.254.169.254]/",
    "http://[::169.254.169.254]/",
    "http://[2002:a9fe:a9fe::]/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::a9fe:a9fe]/",
    "http://169.254.170.2/",
    "http://169.254.0.1/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://0.0.0.0/",
]


@pytest.mark.parametrize("url", PRIVATE + ALWAYS)
async def test_no_spelling_reaches_a_private_address(url: str) -> None:
    async with (
        serving(lambda request: answer(200, '"reached"')) as server,
        running(allow_private=False) as runner,
    ):
        error = await runner.error(
            "http", {"url": url.replace("PORT", server.url.rsplit(":", 1)[1]), "timeout": 5}
        )

    assert server.connections == 0
    # Some spellings are not valid URLs or host names; the others are recognized as private.
    assert error.type in {"address_refused", "params_invalid", "connection_failed"}
    if error.type == "connection_failed":
        assert "cannot be resolved" in error.message


@pytest.mark.parametrize("url", ALWAYS)
async def test_no_setting_permits_metadata_addresses(url: str) -> None:
    async with running(allow_private=True) as runner:
        error = await runner.error("http", {"url": url, "timeout": 5})

    assert (
        error.type in {"address_refused", "params_invalid"} or "cannot be resolved" in error.message
    )


async def test_a_redirect_to_a_private_address_is_rejected() -> None:
    async with (
        serving(lambda request: answer(302, location="http://169.254.169.254/")) as server,
        running() as runner,
    ):
        error = await runner.error("http", {"url": server.url})

    assert (error.type, error.retryable) == ("address_refused", False)
    assert len(server.requests) == 1


async def test_the_error_names_the_setting_that_permits_the_address() -> None:
    async with running(allow_private=False) as runner:
        error = await runner.error("http", {"url": "http://127.0.0.1/"})

    assert "is loopback" in error.message
    assert "http.allow_private" in error.message


async def test_a_name_with_one_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, ["93.184.216.34", "10.0.0.1"])
    async with running(allow_private=False) as runner:
        error = await runner.error("http", {"url": "http://mixed.test/"})

    assert error.type == "address_refused"


async def test_a_host_name_is_resolved_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(lambda request: answer(200, '"reached"')) as server, running() as runner:
        resolved = resolve_to(monkeypatch, ["127.0.0.1"])
        port = server.url.rsplit(":", 1)[1]
        assert await runner.output("http", {"url": f"http://rebinding.test:{port}/"}) == "reached"

    assert [host for host in resolved if host == "rebinding.test"] == ["rebinding.test"]
    assert server.requests[0].headers["host"] == f"rebinding.test:{port}"


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "2606:4700:4700::1111", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"]
)
def test_public_addresses_may_be_reached(text: str) -> None:
    assert refusal(ipaddress.ip_address(text), allow_private=False) is None


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "::1", "10.1.2.3", "192.168.1.1", "fd00::1", "100.64.0.1"]
)
def test_private_addresses_may_be_reached_when_allowed(text: str) -> None:
    assert refusal(ipaddress.ip_address(text), allow_private=False) is not None
    assert refusal(ipaddress.ip_address(text), allow_private=True) is None


def resolve_to(monkeypatch: pytest.MonkeyPatch, addresses: list[str]) -> list[str]:
    """Resolve names in .test to these addresses; return the list of resolved names."""
    resolved: list[str] = []
    genuine = asyncio.get_running_loop().getaddrinfo

    async def getaddrinfo(host: Any, port: Any, **rest: Any) -> Any:
        resolved.append(host)
        if not str(host).endswith(".test"):
            return await genuine(host, port, **rest)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses
        ]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    return resolved
