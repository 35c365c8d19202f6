// Differences in a table, the first cell of each row as its head.

import type { ReactNode } from "react";
import { ScrollBox } from "../../components/scroll_box";

interface TableProps {
  label: string;
  heads: string[];
  rows: ReactNode[][];
}

export function DifferenceTable({ label, heads, rows }: TableProps) {
  return (
    <ScrollBox label={label} className="max-h-96 overflow-auto">
      <table className="w-full text-left">
        <thead className="sticky top-0 bg-surface text-xs text-muted">
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col" className="px-4 py-2 font-medium">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([first, ...rest], place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a comparison is made anew as a whole
            <tr key={place} className="border-t border-line/60 align-top">
              <th scope="row" className="px-4 py-1.5 font-medium">
                {first}
              </th>
              {rest.map((cell, column) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: columns never change their places
                <td key={column} className="max-w-96 break-words px-4 py-1.5 font-mono text-xs">
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollBox>
  );
}
