// A diff of two texts: side by side on wide screens, unified on narrow ones.

import { Fragment, useMemo, useState } from "react";
import { Button } from "../components/controls";
import { ScrollBox } from "../components/scroll_box";
import { formatCount, pluralize } from "../lib/format";
import { useMediaQuery } from "../lib/use_media_query";
import { type Block, type Line, type Pair, sideBySide, toBlocks } from "./diff";

// Collapsed lines and long changes are shown in steps, to keep the page responsive.
const ROWS_PER_STEP = 1_000;

const BACKGROUNDS = { same: "", removed: "bg-failed/10", added: "bg-completed/10" };
const SIGNS = { same: " ", removed: "−", added: "+" };

export function DiffView({ lines, leftName, rightName }: { lines: Line[]; leftName: string; rightName: string }) {
  const isWide = useMediaQuery("(min-width: 64rem)");
  const blocks = useMemo(() => toBlocks(lines), [lines]);
  return (
    <ScrollBox label="Line diff" className="relative overflow-x-auto">
      <table className="w-full border-collapse font-mono text-xs leading-5">
        <thead className="sr-only">
          <tr>
            <th scope="col">Line of {leftName}</th>
            {isWide && <th scope="col">{leftName}</th>}
            <th scope="col">Line of {rightName}</th>
            <th scope="col">{isWide ? rightName : "Text"}</th>
          </tr>
        </thead>
        <tbody>
          {blocks.map((block) => (
            <BlockRows key={keyOf(block.lines[0])} block={block} isWide={isWide} />
          ))}
        </tbody>
      </table>
    </ScrollBox>
  );
}

function BlockRows({ block, isWide }: { block: Block; isWide: boolean }) {
  const [visibleCount, setVisibleCount] = useState(block.isCollapsed ? 0 : ROWS_PER_STEP);
  const rows = useMemo(() => (isWide ? sideBySide(block.lines) : block.lines), [block, isWide]);
  const hiddenCount = rows.length - visibleCount;
  return (
    <>
      {rows
        .slice(0, visibleCount)
        .map((row) =>
          "text" in row ? (
            <UnifiedRow key={keyOf(row)} line={row} />
          ) : (
            <PairRow key={keyOf(row.left ?? row.right ?? undefined)} pair={row} />
          ),
        )}
      {hiddenCount > 0 && (
        <tr className="bg-sunken/60">
          <td colSpan={4} className="px-2 py-0.5 text-center">
            <Button
              variant="ghost"
              className="!h-6 text-xs text-muted"
              onClick={() => setVisibleCount(visibleCount + ROWS_PER_STEP)}
            >
              {block.isCollapsed && visibleCount === 0
                ? pluralize(hiddenCount, "unchanged line")
                : `${formatCount(hiddenCount)} more`}
            </Button>
          </td>
        </tr>
      )}
    </>
  );
}

function PairRow({ pair }: { pair: Pair }) {
  const sides = [
    [pair.left, pair.left?.left],
    [pair.right, pair.right?.right],
  ] as const;
  return (
    <tr>
      {sides.map(([line, number], side) => (
        <Fragment key={side === 0 ? "left" : "right"}>
          <LineNumber number={number ?? null} kind={line?.kind ?? "same"} />
          <td
            className={`w-1/2 whitespace-pre-wrap break-all py-0 pr-2 align-top ${line ? BACKGROUNDS[line.kind] : "bg-sunken/40"} ${side === 0 ? "border-r border-line" : ""}`}
          >
            {line && <Text line={line} />}
          </td>
        </Fragment>
      ))}
    </tr>
  );
}

function UnifiedRow({ line }: { line: Line }) {
  return (
    <tr>
      <LineNumber number={line.left} kind={line.kind} />
      <LineNumber number={line.right} kind={line.kind} />
      <td className={`w-full whitespace-pre-wrap break-all py-0 pr-2 ${BACKGROUNDS[line.kind]}`}>
        <Text line={line} />
      </td>
    </tr>
  );
}

/** The sign makes the difference visible without color. */
function Text({ line }: { line: Line }) {
  return (
    <>
      <span className={line.kind === "removed" ? "text-failed" : "text-completed"}>{SIGNS[line.kind]}</span> {line.text}
    </>
  );
}

function LineNumber({ number, kind }: { number: number | null; kind: Line["kind"] }) {
  return (
    <td className={`select-none px-2 py-0 text-right align-top tabular-nums text-muted ${BACKGROUNDS[kind]}`}>
      {number}
    </td>
  );
}

function keyOf(line: Line | undefined): string {
  return `${line?.left ?? ""}:${line?.right ?? ""}`;
}
