"""The only place that decides what of a credential may be shown: in events, errors, logs and settings."""

import re
from collections.abc import Iterable

MASK = "***"
# Shorter secrets are placeholders; replacing them would damage ordinary words.
SECRET_CHARS_MIN = 8
URL_CHARS_MAX = 500

# Names are compared without case, underscores and dashes.
_CREDENTIAL_NAME = re.compile(
    "password|passwd|passphrase|passcode|secret|token|apikey|authorization|accesskey|privatekey|signingkey"
    "|encryptionkey|credential|cookie|session|^(auth|pass|pwd|pin|otp|jwt|bearer|dsn)$"
)
# Numbers with such names are counts or durations: max_tokens, session_count.
_MEASURES = ("tokens", "count", "seconds")
_SEPARATORS = re.compile(r"[\W_]+")
_USER_IN_URL = re.compile(r"(://)[^/@\s]+@")
# Up to the last '@': a password may contain any other character.
_PASSWORD_IN_URL = re.compile(r"(://[^/@:]*):.*@")
_AUTHORIZATION = re.compile(r"^(bearer|basic|token)\s+\S.*$", re.IGNORECASE | re.DOTALL)


def is_credential(name: str, value: object) -> bool:
    """Whether a value with this name is likely to be a credential."""
    if value is None or isinstance(value, bool):
        return False
    normalized = _SEPARATORS.sub("", name.lower())
    if _CREDENTIAL_NAME.search(normalized) is None:
        return False
    is_measure = isinstance(value, int | float) and normalized.endswith(_MEASURES)
    return not is_measure


def redact_text(text: str) -> str:
    """Mask the user part of URLs, or the value of an Authorization header."""
    if "://" in text:
        return _USER_IN_URL.sub(rf"\1{MASK}@", text)
    return _AUTHORIZATION.sub(rf"\1 {MASK}", text)


def redact_url(url: str) -> str:
    """Mask the password of a URL."""
    return _PASSWORD_IN_URL.sub(rf"\1:{MASK}@", url)


def public_url(url: str) -> str:
    """Return a URL without user, query and fragment, which may all contain secrets."""
    without_user = re.sub(r"//[^/@?#]*@", "//", url)
    return re.split(r"[?#]", without_user, maxsplit=1)[0][:URL_CHARS_MAX]


class SecretRedactor:
    """Masks known secrets in texts of other programs: servers often repeat keys in their error messages."""

    def __init__(self, secrets: Iterable[str], chars_min: int = SECRET_CHARS_MIN) -> None:
        self._secrets = [secret for secret in secrets if len(secret) >= chars_min]

    def __call__(self, text: str) -> str:
        """Return the text with every known secret masked."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text
