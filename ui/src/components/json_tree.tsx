// Any JSON as a tree that opens level by level; large lists show their beginning first.

import { useState } from "react";
import type { Json } from "../api/types";
import { count } from "../lib/format";
import { Button } from "./controls";

const SHOWN_FIRST = 50;
const OPEN_DEPTH = 2;

export function JsonTree({ value, name }: { value: Json; name?: string }) {
  return (
    <div className="overflow-x-auto font-mono text-xs leading-5">
      <Branch value={value} name={name} depth={0} />
    </div>
  );
}

function Branch({ value, name, depth }: { value: Json; name: string | undefined; depth: number }) {
  if (value === null || typeof value !== "object") {
    return (
      <div className="whitespace-pre-wrap break-words pl-4">
        <Name name={name} />
        <Leaf value={value} />
      </div>
    );
  }
  const entries = Object.entries(value);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (entries.length === 0) {
    return (
      <div className="pl-4">
        <Name name={name} />
        {open}
        {close}
      </div>
    );
  }
  return (
    <details open={depth < OPEN_DEPTH && entries.length <= SHOWN_FIRST} className="pl-4">
      <summary className="-ml-4 list-inside marker:text-muted">
        <Name name={name} />
        <span className="text-muted">
          {open} {count(entries.length)} {close}
        </span>
      </summary>
      <Entries entries={entries} depth={depth + 1} />
    </details>
  );
}

function Entries({ entries, depth }: { entries: [string, Json][]; depth: number }) {
  const [shown, setShown] = useState(SHOWN_FIRST);
  return (
    <>
      {entries.slice(0, shown).map(([key, value]) => (
        <Branch key={key} name={key} value={value} depth={depth} />
      ))}
      {entries.length > shown && (
        <Button look="quiet" className="ml-3" onClick={() => setShown(shown + 10 * SHOWN_FIRST)}>
          {count(entries.length - shown)} more
        </Button>
      )}
    </>
  );
}

function Name({ name }: { name: string | undefined }) {
  return name === undefined ? null : <span className="text-muted">{name}: </span>;
}

function Leaf({ value }: { value: null | boolean | number | string }) {
  if (typeof value === "string") {
    return <span className="text-completed">"{value}"</span>;
  }
  return <span className="text-running">{String(value)}</span>;
}
