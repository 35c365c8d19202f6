"""Constants of encoded JSON."""

from msgspec import Raw

NULL = Raw(b"null")
