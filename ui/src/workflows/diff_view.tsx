// A difference of two texts: side by side where there is room, one below the other where there is not.

import { Fragment, useMemo, useState } from "react";
import { Button } from "../components/controls";
import { ScrollBox } from "../components/scroll_box";
import { count, plural } from "../lib/format";
import { useMedia } from "../lib/use_media_query";
import { type Block, folded, type Line, type Pair, sideBySide } from "./diff";

// What is unfolded, and what is shown of long changes, comes in steps that a browser draws at once.
const ROWS_STEP = 1_000;

const TINT = { same: "", removed: "bg-failed/10", added: "bg-completed/10" };
const SIGN = { same: " ", removed: "−", added: "+" };

export function DiffView({ lines, leftName, rightName }: { lines: Line[]; leftName: string; rightName: string }) {
  const isWide = useMedia("(min-width: 64rem)");
  const blocks = useMemo(() => folded(lines), [lines]);
  return (
    <ScrollBox label="Difference by lines" className="relative overflow-x-auto">
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
            <Part key={keyOf(block.lines[0])} block={block} isWide={isWide} />
          ))}
        </tbody>
      </table>
    </ScrollBox>
  );
}

function Part({ block, isWide }: { block: Block; isWide: boolean }) {
  const [shown, setShown] = useState(block.folded ? 0 : ROWS_STEP);
  const rows = useMemo(() => (isWide ? sideBySide(block.lines) : block.lines), [block, isWide]);
  const rest = rows.length - shown;
  return (
    <>
      {rows
        .slice(0, shown)
        .map((row) =>
          "text" in row ? (
            <OneRow key={keyOf(row)} line={row} />
          ) : (
            <PairRow key={keyOf(row.left ?? row.right ?? undefined)} pair={row} />
          ),
        )}
      {rest > 0 && (
        <tr className="bg-sunken/60">
          <td colSpan={4} className="px-2 py-0.5 text-center">
            <Button look="quiet" className="!h-6 text-xs text-muted" onClick={() => setShown(shown + ROWS_STEP)}>
              {block.folded && shown === 0 ? plural(rest, "unchanged line") : `${count(rest)} more`}
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
            className={`w-1/2 whitespace-pre-wrap break-all py-0 pr-2 align-top ${line ? TINT[line.kind] : "bg-sunken/40"} ${side === 0 ? "border-r border-line" : ""}`}
          >
            {line && <Text line={line} />}
          </td>
        </Fragment>
      ))}
    </tr>
  );
}

function OneRow({ line }: { line: Line }) {
  return (
    <tr>
      <LineNumber number={line.left} kind={line.kind} />
      <LineNumber number={line.right} kind={line.kind} />
      <td className={`w-full whitespace-pre-wrap break-all py-0 pr-2 ${TINT[line.kind]}`}>
        <Text line={line} />
      </td>
    </tr>
  );
}

/** The sign says what the colour says. */
function Text({ line }: { line: Line }) {
  return (
    <>
      <span className={line.kind === "removed" ? "text-failed" : "text-completed"}>{SIGN[line.kind]}</span> {line.text}
    </>
  );
}

function LineNumber({ number, kind }: { number: number | null; kind: Line["kind"] }) {
  return (
    <td className={`select-none px-2 py-0 text-right align-top tabular-nums text-muted ${TINT[kind]}`}>{number}</td>
  );
}

function keyOf(line: Line | undefined): string {
  return `${line?.left ?? ""}:${line?.right ?? ""}`;
}
