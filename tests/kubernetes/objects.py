"""The objects of an API server: versions, watches' history, finalizers, deletion, as the real one has them."""

import asyncio
import copy
import re
import uuid
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]
Key = tuple[str, str, str]

NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
KINDS = {"jobs": ("batch/v1", "Job"), "pods": ("v1", "Pod"), "events": ("v1", "Event")}
FOREGROUND = "foregroundDeletion"
GRACE_SECONDS = 30


class Refused(Exception):
    """An error response of the server."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Objects:
    """All objects, and their history since the last compaction."""

    def __init__(self) -> None:
        self.version = 1
        self.oldest = 0
        self.history: list[tuple[int, str, str, Object]] = []
        self.changed = asyncio.Event()
        # How many objects of a kind a namespace may have.
        self.quota: dict[str, int] = {}
        self._held: dict[Key, Object] = {}

    def get(self, kind: str, namespace: str, name: str) -> Object:
        try:
            return self._held[kind, namespace, name]
        except KeyError:
            raise Refused(404, "NotFound", f'{kind} "{name}" not found') from None

    def select(
        self, kind: str, namespace: str, selector: str, field_selector: str = ""
    ) -> list[Object]:
        held = [
            found for (k, n, _), found in sorted(self._held.items()) if (k, n) == (kind, namespace)
        ]
        wanted = [part.split("=", 1) for part in field_selector.split(",") if part]
        return [
            found
            for found in held
            if matches(found, selector)
            and all(_field(found, path) == value for path, value in wanted)
        ]

    def create(self, kind: str, namespace: str, given: Object) -> Object:
        created = copy.deepcopy(given)
        meta = created.setdefault("metadata", {})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = f"{meta['generateName']}{uuid.uuid4().hex[:5]}"
        name = str(meta.get("name") or "")
        _check(kind, name, created)
        if (kind, namespace, name) in self._held:
            raise Refused(409, "AlreadyExists", f'{kind} "{name}" already exists')
        used = len(self.select(kind, namespace, ""))
        if used >= self.quota.get(kind, used + 1):
            raise Refused(
                403,
                "Forbidden",
                f'{kind} "{name}" is forbidden: exceeded quota: small, requested: count/{kind}=1, '
                f"used: count/{kind}={used}, limited: count/{kind}={self.quota[kind]}",
            )
        meta |= {
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": now(),
            "generation": 1,
        }
        created["apiVersion"], created["kind"] = KINDS[kind]
        if kind != "events":
            created["status"] = {"phase": "Pending"} if kind == "pods" else {}
        if kind == "jobs":
            labels = {"controller-uid": meta["uid"], "job-name": name}
            created["spec"].setdefault("selector", {"matchLabels": {"controller-uid": meta["uid"]}})
            template = created["spec"]["template"].setdefault("metadata", {})
            template["labels"] = {**(template.get("labels") or {}), **labels}
        return self._put("ADDED", (kind, namespace, name), created)

    def patch(
        self, kind: str, namespace: str, name: str, change: Object, *, status: bool
    ) -> Object:
        held = copy.deepcopy(self.get(kind, namespace, name))
        if status:
            held["status"] = merged(held.get("status") or {}, change.get("status") or {})
        else:
            held = merged(held, {key: value for key, value in change.items() if key != "status"})
        key = (kind, namespace, name)
        if (
            held["metadata"].get("deletionTimestamp")
            and not held["metadata"].get("finalizers")
            and kind != "pods"
        ):
            return self._remove(key, held)
        return self._put("MODIFIED", key, held)

    def delete(self, kind: str, namespace: str, name: str, options: Object) -> Object:
        held = copy.deepcopy(self.get(kind, namespace, name))
        meta, key = held["metadata"], (kind, namespace, name)
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted is not None and wanted != meta["uid"]:
            raise Refused(
                409, "Conflict", f"the UID in the precondition ({wanted}) is not the UID of {name}"
            )
        version = (options.get("preconditions") or {}).get("resourceVersion")
        if version is not None and version != meta["resourceVersion"]:
            raise Refused(
                409,
                "Conflict",
                f"the ResourceVersion in the precondition ({version}) is not that of {name}",
            )
        if kind == "pods":
            grace = options.get("gracePeriodSeconds", GRACE_SECONDS)
            if grace == 0 or not held["spec"].get("nodeName"):
                return self._remove(key, held)
            meta.setdefault("deletionTimestamp", now())
            return self._put("MODIFIED", key, held)
        if options.get("propagationPolicy") != "Foreground":
            return self._remove(key, held)
        if meta.get("deletionTimestamp"):
            return held
        meta |= {
            "deletionTimestamp": now(),
            "finalizers": [*(meta.get("finalizers") or []), FOREGROUND],
        }
        return self._put("MODIFIED", key, held)

    def compact(self) -> None:
        """Discard the history, as etcd does periodically; watches of older versions get an error."""
        self.version += 1
        self.oldest = self.version
        self.history.clear()
        self._notify()

    def _put(self, event: str, key: Key, stored: Object) -> Object:
        self.version += 1
        stored["metadata"]["resourceVersion"] = str(self.version)
        self._held[key] = stored
        self._record(event, key, stored)
        return stored

    def _remove(self, key: Key, held: Object) -> Object:
        self.version += 1
        held["metadata"]["resourceVersion"] = str(self.version)
        del self._held[key]
        self._record("DELETED", key, held)
        return held

    def _record(self, event: str, key: Key, stored: Object) -> None:
        self.history.append((self.version, event, f"{key[0]}/{key[1]}", copy.deepcopy(stored)))
        self._notify()

    def _notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


def matches(found: Object, selector: str) -> bool:
    labels = found["metadata"].get("labels") or {}
    wanted = [part.split("=", 1) for part in selector.split(",") if part]
    return all(labels.get(name) == value for name, value in wanted)


def _field(found: Object, path: str) -> Any:
    value: Any = found
    for name in path.split("."):
        value = value.get(name)
    return value


def merged(held: Object, change: Object) -> Object:
    """Apply a JSON merge patch."""
    result = dict(held)
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = merged(result[name], value)
        else:
            result[name] = value
    return result


def _check(kind: str, name: str, stored: Object) -> None:
    if kind == "events":
        return
    faults: list[str] = []
    if not NAME.fullmatch(name) or len(name) > (63 if kind == "jobs" else 253):
        faults.append(
            f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 subdomain is needed'
        )
    for label, value in (stored["metadata"].get("labels") or {}).items():
        if not LABEL_VALUE.fullmatch(value) or len(value) > 63:
            faults.append(f'metadata.labels: Invalid value: "{value}" of {label}')
    spec = stored.get("spec") or {}
    pod = ((spec.get("template") or {}).get("spec") or {}) if kind == "jobs" else spec
    if kind == "jobs" and pod.get("restartPolicy") not in ("Never", "OnFailure"):
        faults.append(
            'spec.template.spec.restartPolicy: Unsupported value: supported values: "OnFailure", "Never"'
        )
    if not pod.get("containers"):
        faults.append("spec.template.spec.containers: Required value")
    for at, container in enumerate(pod.get("containers") or []):
        if not container.get("image"):
            faults.append(f"spec.template.spec.containers[{at}].image: Required value")
        known = {volume["name"] for volume in pod.get("volumes") or []}
        place = f"spec.template.spec.containers[{at}].volumeMounts.name"
        mounts = [mount["name"] for mount in container.get("volumeMounts") or []]
        faults += [f'{place}: Not found: "{name}"' for name in mounts if name not in known]
    volumes = [volume["name"] for volume in pod.get("volumes") or []]
    faults += [
        f'spec.volumes: Invalid value: "{one}"' for one in volumes if not NAME.fullmatch(one)
    ]
    if faults:
        raise Refused(422, "Invalid", f'{KINDS[kind][1]} "{name}" is invalid: {"; ".join(faults)}')
