// A JSON value as a collapsible tree. Large lists show their first entries.

import { useState } from "react";
import type { Json } from "../api/types";
import { formatCount } from "../lib/format";
import { Button } from "./controls";

const PAGE_SIZE = 50;
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
    <details open={depth < OPEN_DEPTH && entries.length <= PAGE_SIZE} className="pl-4">
      <summary className="-ml-4 list-inside marker:text-muted">
        <Name name={name} />
        <span className="text-muted">
          {open} {formatCount(entries.length)} {close}
        </span>
      </summary>
      <Entries entries={entries} depth={depth + 1} />
    </details>
  );
}

function Entries({ entries, depth }: { entries: [string, Json][]; depth: number }) {
  const [visibleCount, setVisibleCount] = useState(PAGE_SIZE);
  return (
    <>
      {entries.slice(0, visibleCount).map(([key, value]) => (
        <Branch key={key} name={key} value={value} depth={depth} />
      ))}
      {entries.length > visibleCount && (
        <Button variant="ghost" className="ml-3" onClick={() => setVisibleCount(visibleCount + 10 * PAGE_SIZE)}>
          {formatCount(entries.length - visibleCount)} more
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
