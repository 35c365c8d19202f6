"""Texts for people."""


def shortened(text: str, chars_max: int) -> str:
    """Return the beginning of a text, at most `chars_max` characters; an ellipsis stands for the rest."""
    if len(text) <= chars_max:
        return text
    return text[: chars_max - 1] + "…"
