// Lines of a log in their colours, as many as there are, kept at the end while they come.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef } from "react";
import type { Log } from "../api/shapes";
import { ansiPieces } from "./ansi";
import { clock } from "./clock";
import { useFollowing } from "./following";
import { ScrollBox } from "./scroll_box";

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
  const box = useRef<HTMLElement>(null);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PX,
    getItemKey: (place) => lines[place]?.log_id ?? place,
    overscan: 20,
  });
  const [isFollowing, setFollowing] = useFollowing(box, rows, lines.length, isLive);
  return (
    <>
      <ScrollBox ref={box} label="Log lines" className="min-h-0 flex-1 overflow-auto py-1">
        <ol className="relative font-mono text-xs leading-5" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((item) => {
            const line = lines[item.index];
            return line ? (
              <li
                key={item.key}
                ref={rows.measureElement}
                data-index={item.index}
                className="absolute left-0 top-0 flex w-full gap-3 px-3 hover:bg-sunken/60"
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <Line line={line} withNode={withNode} />
              </li>
            ) : null;
          })}
        </ol>
      </ScrollBox>
      <label className="flex items-center gap-1.5 border-t border-line px-3 py-1 text-xs">
        <input
          type="checkbox"
          className="accent-accent"
          checked={isFollowing}
          onChange={(event) => setFollowing(event.target.checked)}
        />
        Follow the newest
      </label>
    </>
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
