// Names and what they are, beside each other.

import type { ReactNode } from "react";

export function Facts({ children }: { children: ReactNode }) {
  return <dl className="grid grid-cols-[max-content_minmax(0,1fr)] gap-x-4 gap-y-2 px-4 py-3">{children}</dl>;
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="contents">
      <dt className="text-muted">{name}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </div>
  );
}

/** A number that stands out, with what it counts. */
export function Figure({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="rounded-lg border border-line bg-surface px-4 py-3">
      <dt className="text-xs text-muted">{name}</dt>
      <dd className="mt-0.5 text-xl font-semibold tabular-nums tracking-tight">{children}</dd>
    </div>
  );
}
