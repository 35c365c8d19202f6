"""Built-in handlers: every module of this package declares one or more with `@handler`; nothing else lists them."""
