// Lines of a log in their colours, as many as there are, kept at the end while they come.

import type { Log } from "../api/types";
import { ansiPieces } from "../lib/ansi";
import { clock } from "../lib/clock";
import { GrowingList } from "./virtual_list";

const LINE_PX = 20;
const LEVELS: Record<string, string> = {
  error: "text-failed",
  critical: "text-failed",
  warning: "text-waiting",
  debug: "text-muted",
};

interface LogLinesProps {
  lines: readonly Log[];
  isLive: boolean;
  /** Whether each line says whose it is. */
  withNode: boolean;
}

export function LogLines({ lines, isLive, withNode }: LogLinesProps) {
  return (
    <GrowingList
      label="Log lines"
      items={lines}
      keyOf={(line) => line.log_id}
      rowPx={LINE_PX}
      isLive={isLive}
      listClass="font-mono text-xs leading-5"
      rowClass="flex gap-3 px-3 hover:bg-sunken/60"
    >
      {(line) => <Line line={line} withNode={withNode} />}
    </GrowingList>
  );
}

function Line({ line, withNode }: { line: Log; withNode: boolean }) {
  return (
    <>
      <time dateTime={line.timestamp} title={line.timestamp} className="hidden shrink-0 text-muted sm:inline">
        {clock(line.timestamp)}
      </time>
      <span className={`w-8 shrink-0 truncate ${LEVELS[line.level] ?? "text-muted"}`} title={line.level}>
        {line.level.slice(0, 4)}
      </span>
      {withNode && (
        <span className="w-24 shrink-0 truncate text-muted" title={`${line.node_id}, attempt ${line.attempt}`}>
          {line.node_id}
          {line.index > 0 && `[${line.index}]`}
        </span>
      )}
      <span className="min-w-0 flex-1 whitespace-pre-wrap break-words">
        {ansiPieces(line.message).map((piece, place) => (
          <span
            // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a line never change their places
            key={place}
            className={piece.style?.className}
            style={piece.style ? { color: piece.style.color, background: piece.style.background } : undefined}
          >
            {piece.text}
          </span>
        ))}
      </span>
    </>
  );
}
