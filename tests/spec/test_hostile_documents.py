"""Hostile documents are refused quickly and with little memory, in a child process with a memory limit."""

import json
import subprocess
import sys

SECONDS_MAX = 1.0
GROWTH_KB_MAX = 64 * 1024
ADDRESS_SPACE_BYTES = 1 << 30

ALIASES = "a0: &a0 [x, x]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}, *a{n}, *a{n}]\n" for n in range(12)
)
MERGES = "m0: &m0 {a: 1}\n" + "".join(
    f"m{n + 1}: &m{n + 1} {{<<: [*m{n}, *m{n}]}}\n" for n in range(30)
)
HEAD = "workflow_id: w\nnodes: {a: {handler: e}}\n"
DOCUMENT = '{"workflow_id": "w", "nodes": {"a": {"handler": "e", "params": {"x": %s}}}}'
BOMBS = {
    "aliases": ALIASES,
    "aliases in a workflow": ALIASES + "workflow_id: w\nnodes: {a: {handler: e, params: {x: *a12}}}\n",
    "merges": MERGES,
    "many aliases": "a: &a x\nb: [" + "*a, " * 50_000 + "x]\n",
    "brackets": "[" * 50_000,
    "braces": "{" * 50_000,
    "flow maps": "{a: " * 50_000,
    "dashes": "- " * 50_000,
    "question marks": "? " * 50_000,
    "colons": ": " * 50_000,
    "colons in flow": "[" + ":" * 50_000,
    "nested indentation": "".join(" " * n + "a:\n" for n in range(1_000)),
    "quotes": '"' * 50_001,
    "long scalar": "a: " + "x " * 200_000,
    "long key": "x" * 50_000 + ": 1\n",
    "anchors": "".join(f"- &a{n} x\n" for n in range(10_000)),
    "tags": "- !!set {}\n" * 10_000,
    "percent": "%TAG ! tag:x\n" * 10_000 + "---\na: 1\n",
    "documents": "---\n" * 10_000,
    "backslashes": '"' + "\\" * 50_000,
    "deep json": '{"a":' * 50_000,
    "deep json lists": DOCUMENT % ("[" * 50_000 + "]" * 50_000),
    "deep json params": DOCUMENT % ("[" * 500 + "]" * 500),
    "long number": DOCUMENT % ("9" * 100_000),
    "long exponent": DOCUMENT % ("1e" + "9" * 100_000),
    "long yaml number": "a: " + "9" * 100_000,
    "long yaml hex": "a: 0x" + "f" * 100_000,
    "unclosed json string": '{"a": "' + "x" * 100_000,
    "json backslashes": '{"a": "' + "\\" * 100_001,
    "json commas": "{" + "," * 100_000,
    "duplicates": "".join("a: 1\n" for _ in range(5_000)),
    "json duplicates": "{" + ",".join('"a": 1' for _ in range(20_000)) + "}",
    "template bomb": DOCUMENT % '"{{ 9**(9**9) }}"',
    "template braces": DOCUMENT % ('"' + "{{" * 15_000 + '"'),
    "schema depth": HEAD + 'input: {properties: ' + "{a: {not: " * 30 + "{}" + "}}" * 30 + "}",
    "schema pattern": HEAD + "input: {properties: {a: {pattern: '" + "(a{1,99}){1,99}" * 5 + "'}}}",
    "schema recursion": HEAD + "input: {$ref: '#'}",
    "cron": HEAD + "schedule: {cron: '" + "*/1," * 2_000 + "1 * * * *'}",
    "cron never": HEAD + "schedule: {cron: '0 0 31 2 *'}",
    "zone": HEAD + "schedule: {cron: '@daily', timezone: '" + "../" * 1_000 + "etc'}",
    "surrogates": "a: \ud800",
    "nothing but spaces": " " * 100_000,
    "tabs": "\t" * 50_000,
    "byte order marks": "\ufeff" * 10_000,
    "unknown keys": "workflow_id: w\nnodes: {a: {handler: e, " + ", ".join(f"key{n}: 1" for n in range(3_000)) + "}}",
    "unknown nodes": "workflow_id: w\nnodes:\n"
    + "".join(f"  n{n}: {{handler: e, needs: x{n}}}\n" for n in range(2_000)),
}  # fmt: skip

CHILD = """
import json, resource, sys, time
from windlass.core.errors import DefinitionInvalid
from windlass.spec import read_definition

read_definition("workflow_id: w\\nnodes: {a: {handler: e, params: {x: '{{ 1 + 1 }}'}}}\\nschedule: {cron: '@daily'}")
# Not getrusage: what a process is forked from counts there too, and hides what it grows by.
def peak_kb():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

resource.setrlimit(resource.RLIMIT_AS, (%d, %d))
before = peak_kb()
for name, text in json.load(sys.stdin).items():
    began = time.process_time()
    try:
        read_definition(text)
        outcome = "accepted"
    except DefinitionInvalid as error:
        outcome = "refused" if len(error.problems) <= 101 else "flooded"
    seconds = time.process_time() - began
    growth = peak_kb() - before
    print(json.dumps([name, outcome, seconds, growth]), flush=True)
"""


def test_bombs_are_refused_or_cheap() -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD % (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES)],
        input=json.dumps(BOMBS),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    reports = [json.loads(line) for line in child.stdout.splitlines()]

    assert child.returncode == 0, child.stderr[-2000:]
    assert [name for name, *_ in reports] == list(BOMBS)
    accepted = {name for name, outcome, *_ in reports if outcome != "refused"}
    assert accepted <= {
        "template bomb",
        "schema depth",
        "schema recursion",
        "cron never",
        "cron",
        "schema pattern",
    }
    assert [(name, seconds) for name, _, seconds, _ in reports if seconds > SECONDS_MAX] == []
    # The peak only grows, so the last figure covers all of them together.
    assert reports[-1][3] < GROWTH_KB_MAX
