"""Reading settings from defaults, `windlass.toml`, environment variables and flags.

Later sources override earlier ones, and each effective value records its origin. Only this module reads the
environment.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeGuard

import msgspec
from msgspec import Struct

from windlass.core.errors import Problem, SettingsInvalid
from windlass.core.redaction import MASK, redact_url
from windlass.core.templates.json_values import nearest
from windlass.core.type_errors import problem_of
from windlass.settings import (
    SERVER_KEY,
    SERVER_VARIABLE,
    VARIABLE_PREFIX,
    Declaration,
    Settings,
    declarations,
    variable_name,
)

FILE_NAME = "windlass.toml"
FILE_BYTES_MAX = 1 << 20
DEFAULT_ORIGIN = "default"
FLAG_ORIGIN = "flag"
# Values of settings with these names, and of all settings in this section, are never displayed.
SECRET_NAMES = frozenset({"api_key"})
SECRET_SECTION = "secrets"


class EffectiveSetting(Struct, frozen=True):
    """A value and its origin."""

    key: str
    value: object
    origin: str


class LoadedSettings(Struct, frozen=True):
    """The effective settings, as a whole and one by one."""

    settings: Settings
    effective: tuple[EffectiveSetting, ...]
    # Of all sources; the settings that have one keep their defaults.
    problems: tuple[Problem, ...] = ()


def load_settings(
    flags: Mapping[str, object] | None = None,
    *,
    preset: Mapping[str, object] | None = None,
    preset_origin: str = DEFAULT_ORIGIN,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Read all sources, as `read_settings` does. SettingsInvalid lists all problems of all of them."""
    loaded = read_settings(
        flags, preset=preset, preset_origin=preset_origin, folder=folder, environ=environ
    )
    if loaded.problems:
        raise SettingsInvalid(loaded.problems)
    return loaded


def read_settings(
    flags: Mapping[str, object] | None = None,
    *,
    preset: Mapping[str, object] | None = None,
    preset_origin: str = DEFAULT_ORIGIN,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Read all sources, with their problems.

    Keys of `flags` and `preset` are dotted names. Flags that are None were not given. `preset` holds the defaults of a
    command, which every other source overrides.
    """
    problems: list[Problem] = []
    given = _from_mapping(preset or {}, preset_origin)
    given += _from_file((folder or Path()) / FILE_NAME, problems)
    given += _from_environment(os.environ if environ is None else environ)
    given += _from_mapping(flags or {}, FLAG_ORIGIN)
    values: dict[str, EffectiveSetting] = {}
    for setting in given:
        if setting.value is None:
            continue
        checked = _check(setting, problems)
        if checked is not None:
            values[setting.key] = checked
    settings = msgspec.convert(_nested(values.values()), Settings)
    return LoadedSettings(settings, tuple(_effective(settings, values)), tuple(problems))


def process_environment() -> dict[str, str]:
    """Return the environment variables of this process; workers pass a safe part of them on to user code."""
    return dict(os.environ)


def mask_secrets(value: object, key: str = "") -> object:
    """Replace the password in a URL, or the whole value if the setting is a secret."""
    section, _, name = key.rpartition(".")
    is_secret = name in SECRET_NAMES or section == SECRET_SECTION
    if is_secret and value is not None:
        return MASK
    if isinstance(value, str):
        return redact_url(value)
    return value


def _from_mapping(values: Mapping[str, object], origin: str) -> list[EffectiveSetting]:
    return [EffectiveSetting(key, value, origin) for key, value in values.items()]


def _from_file(path: Path, problems: list[Problem]) -> list[EffectiveSetting]:
    if not path.is_file():
        return []
    if path.stat().st_size > FILE_BYTES_MAX:
        problems.append(
            Problem(path=path.name, message=f"file too large: more than {FILE_BYTES_MAX} bytes")
        )
        return []
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(Problem(path=path.name, message=f"invalid TOML: {error}"))
        return []
    return [EffectiveSetting(key, value, path.name) for key, value in _flatten(document)]


def _flatten(document: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in document.items():
        key = f"{prefix}{name}"
        if not _is_table(value):
            yield key, value
        elif key in declarations():
            for entry, entry_value in value.items():
                yield f"{key}.{entry}", entry_value
        else:
            yield from _flatten(value, f"{key}.")


def _is_table(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _from_environment(environ: Mapping[str, str]) -> list[EffectiveSetting]:
    return [
        EffectiveSetting(_key_of(variable), environ[variable], variable)
        for variable in sorted(environ)
        if variable.startswith(VARIABLE_PREFIX)
    ]


def _key_of(variable: str) -> str:
    if variable == SERVER_VARIABLE:
        return SERVER_KEY
    return variable.removeprefix(VARIABLE_PREFIX).lower().replace("__", ".")


def _check(setting: EffectiveSetting, problems: list[Problem]) -> EffectiveSetting | None:
    """Convert a value to its declared type, or add a problem and return None."""
    section, _, name = setting.key.partition(".")
    declaration = declarations().get(setting.key)
    table = declarations().get(section)
    if name and table is not None and table.is_table:
        expected: object = str
    elif declaration is not None:
        expected = declaration.annotation
    else:
        problems.append(_unknown(setting))
        return None
    try:
        value = msgspec.convert(_split_list(setting.value, declaration), expected, strict=False)
    except msgspec.ValidationError as error:
        problems.append(_invalid(setting, problem_of(error, expected).message))
        return None
    return EffectiveSetting(setting.key, value, setting.origin)


def _split_list(value: object, declaration: Declaration | None) -> object:
    """Read a list from a variable: `a,b`."""
    if declaration is None or not declaration.is_list or not isinstance(value, str):
        return value
    return [part.strip() for part in value.split(",") if part.strip()]


def _unknown(setting: EffectiveSetting) -> Problem:
    similar = nearest(setting.key, list(declarations()))
    if similar is None:
        hint = "`windlass config` lists all settings"
    elif setting.origin.startswith(VARIABLE_PREFIX):
        hint = f"did you mean {variable_name(similar)}?"
    else:
        hint = f"did you mean '{similar}'?"
    return Problem(path=_place(setting), message=f"unknown setting '{setting.key}'", hint=hint)


def _invalid(setting: EffectiveSetting, reason: str) -> Problem:
    shown = mask_secrets(setting.value, setting.key)
    return Problem(path=_place(setting), message=f"invalid value {shown!r}: {reason}")


def _place(setting: EffectiveSetting) -> str:
    if setting.origin in (FILE_NAME, FLAG_ORIGIN):
        return f"{setting.origin}: {setting.key}"
    return setting.origin


def _nested(values: Iterable[EffectiveSetting]) -> dict[str, object]:
    plain: dict[str, object] = {}
    tables: dict[str, dict[str, object]] = {}
    for setting in values:
        section, _, name = setting.key.partition(".")
        if name:
            tables.setdefault(section, {})[name] = setting.value
        else:
            plain[section] = setting.value
    return {**plain, **tables}


def _effective(
    settings: Settings, given: Mapping[str, EffectiveSetting]
) -> Iterator[EffectiveSetting]:
    """Yield every effective value in the order of declaration."""
    document = _table(msgspec.to_builtins(settings))
    for key, declaration in declarations().items():
        section, _, name = key.partition(".")
        if declaration.is_table:
            for entry in _table(document[section]):
                yield given[f"{section}.{entry}"]
        elif key in given:
            yield given[key]
        elif name:
            yield EffectiveSetting(key, _table(document[section])[name], DEFAULT_ORIGIN)
        else:
            yield EffectiveSetting(key, document[section], DEFAULT_ORIGIN)


def _table(value: object) -> dict[str, object]:
    return msgspec.convert(value, dict[str, object])
