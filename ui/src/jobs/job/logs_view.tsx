// The lines that a job wrote, of all its nodes or of one, found by their words.

import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { Log } from "../../api/types";
import { Empty } from "../../components/controls";
import { CopyButton } from "../../components/copy_button";
import { LogLines } from "../../components/log_lines";
import { ProblemBox } from "../../components/query_result";
import { SearchField } from "../../components/search_field";
import { plainText } from "../../lib/ansi";
import { count, plural } from "../../lib/format";
import { Sieve } from "./incremental_filter";
import { LogStore } from "./log_store";

interface LogsProps {
  jobId: string;
  node: string | null;
  isLive: boolean;
  /** Grows when the job goes on after its end, and there may be more to follow. */
  round: number;
}

export function LogsView({ jobId, node, isLive, round }: LogsProps) {
  const [isAll, setAll] = useState(false);
  const [words, setWords] = useState("");
  const of = isAll ? null : node;
  const store = useLogs(jobId, of, round);
  const sieve = useMemo(() => new Sieve<Log>(lineTest(words)), [words]);
  const lines = sieve.of(store.lines);
  return (
    <div className="flex h-full flex-col rounded-lg border border-line bg-surface">
      <div className="flex flex-wrap items-center gap-2 border-b border-line px-3 py-2">
        <SearchField
          label="Search lines"
          placeholder="Find in lines"
          className="w-56"
          value={words}
          onSearch={setWords}
        />
        {node && (
          <label className="inline-flex items-center gap-1.5">
            <input
              type="checkbox"
              className="accent-accent"
              checked={!isAll}
              onChange={(event) => setAll(!event.target.checked)}
            />
            Only {node}
          </label>
        )}
        <span className="ml-auto text-xs text-muted tabular-nums">{plural(lines.length, "line")}</span>
        <CopyButton text={() => lines.map((line) => plainText(line.message)).join("\n")}>Copy lines</CopyButton>
      </div>
      {store.problem !== null && <ProblemBox error={store.problem} />}
      {store.dropped > 0 && (
        <p className="border-b border-line px-3 py-1 text-xs text-muted">
          The first {count(store.dropped)} lines are not shown. The command line has them all.
        </p>
      )}
      <Lines lines={lines} isFiltered={words !== ""} isLive={isLive} withNode={of === null} />
    </div>
  );
}

/** The lines of one node, in a small box. */
export function NodeLogs({ jobId, node, isLive, round }: LogsProps & { node: string }) {
  const store = useLogs(jobId, node, round);
  return (
    <div className={`flex flex-col rounded-md border border-line ${store.lines.length > 0 ? "h-64" : ""}`}>
      <Lines lines={store.lines} isFiltered={false} isLive={isLive} withNode={false} />
    </div>
  );
}

interface LinesProps {
  lines: readonly Log[];
  isFiltered: boolean;
  isLive: boolean;
  withNode: boolean;
}

function Lines({ lines, isFiltered, isLive, withNode }: LinesProps) {
  if (lines.length > 0) {
    return <LogLines lines={lines} isLive={isLive} withNode={withNode} />;
  }
  if (isFiltered) {
    return <Empty title="No line has these words" />;
  }
  return (
    <Empty title={isLive ? "No lines yet" : "Nothing was written"}>
      What handlers print or log stands here, line by line.
    </Empty>
  );
}

function useLogs(jobId: string, node: string | null, round: number): LogStore {
  const store = useMemo(() => new LogStore(jobId, node ?? undefined), [jobId, node]);
  useSyncExternalStore(store.batched.subscribe, store.batched.version);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another round of the job has more lines to follow
  useEffect(() => {
    const controller = new AbortController();
    void store.run(controller.signal);
    return () => controller.abort();
  }, [store, round]);
  return store;
}

function lineTest(words: string): (line: Log) => boolean {
  const wanted = words.trim().toLowerCase();
  return (line) => wanted === "" || plainText(line.message).toLowerCase().includes(wanted);
}
