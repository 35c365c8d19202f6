// Sections of the node panel. The content of a collapsible one is rendered when it is opened.

import { type ReactNode, useState } from "react";

export function Section({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <section>
      <div className="mb-1 flex min-h-6 items-center justify-between gap-2">
        <h3 className="text-xs font-medium text-muted">{title}</h3>
        {actions}
      </div>
      {children}
    </section>
  );
}

export function Collapsible({ title, children }: { title: string; children: ReactNode }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="text-xs font-medium text-muted">{title}</summary>
      {isOpen && <div className="mt-1">{children}</div>}
    </details>
  );
}
