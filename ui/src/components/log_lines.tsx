// Log lines with ANSI colors.

import type { Log } from "../api/types";
import { ansiSpans } from "../lib/ansi";
import { formatClock } from "../lib/clock";
import { VirtualList } from "./virtual_list";

const LINE_PX = 20;
const LEVEL_CLASSES: Record<string, string> = {
  error: "text-failed",
  critical: "text-failed",
  warning: "text-waiting",
  debug: "text-muted",
};

interface LogLinesProps {
  lines: readonly Log[];
  isLive: boolean;
  /** Whether to show the node of each line. */
  showNode: boolean;
}

export function LogLines({ lines, isLive, showNode }: LogLinesProps) {
  return (
    <VirtualList
      label="Log lines"
      items={lines}
      keyOf={(line) => line.log_id}
      rowPx={LINE_PX}
      isLive={isLive}
      listClass="font-mono text-xs leading-5"
      rowClass="flex gap-3 px-3 hover:bg-sunken/60"
    >
      {(line) => <Line line={line} showNode={showNode} />}
    </VirtualList>
  );
}

function Line({ line, showNode }: { line: Log; showNode: boolean }) {
  return (
    <>
      <time dateTime={line.timestamp} title={line.timestamp} className="hidden shrink-0 text-muted sm:inline">
        {formatClock(line.timestamp)}
      </time>
      <span className={`w-8 shrink-0 truncate ${LEVEL_CLASSES[line.level] ?? "text-muted"}`} title={line.level}>
        {line.level.slice(0, 4)}
      </span>
      {showNode && (
        <span className="w-24 shrink-0 truncate text-muted" title={`${line.node_id}, attempt ${line.attempt}`}>
          {line.node_id}
          {line.index > 0 && `[${line.index}]`}
        </span>
      )}
      <span className="min-w-0 flex-1 whitespace-pre-wrap break-words">
        {ansiSpans(line.message).map((span, index) => (
          <span
            // biome-ignore lint/suspicious/noArrayIndexKey: the spans of a line never change
            key={index}
            className={span.style?.className}
            style={span.style ? { color: span.style.color, background: span.style.background } : undefined}
          >
            {span.text}
          </span>
        ))}
      </span>
    </>
  );
}
