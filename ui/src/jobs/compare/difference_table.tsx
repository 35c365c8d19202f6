// A table of differences. The first cell of each row is its header.

import type { ReactNode } from "react";
import { ScrollBox } from "../../components/scroll_box";

interface TableProps {
  label: string;
  headers: string[];
  rows: ReactNode[][];
}

export function DifferenceTable({ label, headers, rows }: TableProps) {
  return (
    <ScrollBox label={label} className="max-h-96 overflow-auto">
      <table className="w-full text-left">
        <thead className="sticky top-0 bg-surface text-xs text-muted">
          <tr>
            {headers.map((header) => (
              <th key={header} scope="col" className="px-4 py-2 font-medium">
                {header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([first, ...rest], index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the rows of a comparison never change
            <tr key={index} className="border-t border-line/60 align-top">
              <th scope="row" className="px-4 py-1.5 font-medium">
                {first}
              </th>
              {rest.map((cell, column) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: columns never change
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
