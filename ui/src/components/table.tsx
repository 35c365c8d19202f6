// A table that scrolls horizontally on narrow screens.

import type { ReactNode } from "react";
import { ScrollBox } from "./scroll_box";

export interface Column {
  name: string;
  /** Show the heading to screen readers only. */
  isHidden?: boolean;
  right?: boolean;
  className?: string;
}

export function Table({
  label,
  columns,
  children,
}: {
  label: string;
  columns: readonly Column[];
  children: ReactNode;
}) {
  return (
    // Positioned, so that visually hidden headings do not widen the page.
    <ScrollBox label={label} className="relative overflow-x-auto">
      <table className="w-full text-left text-sm">
        <thead className="border-b border-line text-xs text-muted">
          <tr>
            {columns.map((column) => (
              <th
                key={column.name}
                scope="col"
                className={`whitespace-nowrap px-3 py-2 font-medium first:pl-4 last:pr-4 ${column.right ? "text-right" : ""} ${column.className ?? ""}`}
              >
                {column.isHidden ? <span className="sr-only">{column.name}</span> : column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="divide-y divide-line">{children}</tbody>
      </table>
    </ScrollBox>
  );
}

export function Cell({
  children,
  right = false,
  className = "",
}: {
  children?: ReactNode;
  right?: boolean;
  className?: string;
}) {
  return (
    <td
      className={`px-3 py-2 align-middle *:align-middle first:pl-4 last:pr-4 ${right ? "text-right tabular-nums" : ""} ${className}`}
    >
      {children}
    </td>
  );
}

/** The heading cell of a row. */
export function RowHeader({ children, className = "" }: { children: ReactNode; className?: string }) {
  return (
    <th scope="row" className={`px-3 py-2 text-left align-middle font-medium first:pl-4 ${className}`}>
      {children}
    </th>
  );
}
