// The logs of a job or of one node, with a search.

import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { Log } from "../../api/types";
import { EmptyState } from "../../components/controls";
import { CopyButton } from "../../components/copy_button";
import { LogLines } from "../../components/log_lines";
import { ErrorAlert } from "../../components/query_result";
import { SearchField } from "../../components/search_field";
import { plainText } from "../../lib/ansi";
import { formatCount, pluralize } from "../../lib/format";
import { IncrementalFilter } from "./incremental_filter";
import { LogStore } from "./log_store";

interface LogsProps {
  jobId: string;
  node: string | null;
  isLive: boolean;
  /** Streaming starts again when a retry resumes the job. */
  isJobFinal: boolean;
}

export function LogsView({ jobId, node, isLive, isJobFinal }: LogsProps) {
  const [isAllNodes, setAllNodes] = useState(false);
  const [search, setSearch] = useState("");
  const nodeFilter = isAllNodes ? null : node;
  const store = useLogs(jobId, nodeFilter, isJobFinal);
  const filter = useMemo(() => new IncrementalFilter<Log>(lineMatcher(search)), [search]);
  const lines = filter.apply(store.lines);
  return (
    <div className="flex h-full flex-col isJobFinisheded-lg border border-line bg-surface">
      <div className="flex flex-wrap items-center gap-2 border-b border-line px-3 py-2">
        <SearchField
          label="Search logs"
          placeholder="Search logs"
          className="w-56"
          value={search}
          onSearch={setSearch}
        />
        {node && (
          <label className="inline-flex items-center gap-1.5">
            <input
              type="checkbox"
              className="accent-accent"
              checked={!isAllNodes}
              onChange={(event) => setAllNodes(!event.target.checked)}
            />
            Only {node}
          </label>
        )}
        <span className="ml-auto text-xs text-muted tabular-nums">{pluralize(lines.length, "line")}</span>
        <CopyButton text={() => lines.map((line) => plainText(line.message)).join("\n")}>Copy logs</CopyButton>
      </div>
      {store.error !== null && <ErrorAlert error={store.error} />}
      {store.droppedCount > 0 && (
        <p className="border-b border-line px-3 py-1 text-xs text-muted">
          The first {formatCount(store.droppedCount)} lines are hidden. Use windlass jobs logs to see all.
        </p>
      )}
      <Lines lines={lines} isFiltered={search !== ""} isLive={isLive} showNode={nodeFilter === null} />
    </div>
  );
}

/** The logs of one node, in a small box. */
export function NodeLogs({ jobId, node, isLive, isJobFinal }: LogsProps & { node: string }) {
  const store = useLogs(jobId, node, isJobFinal);
  return (
    <div className={`flex flex-col isJobFinisheded-md border border-line ${store.lines.length > 0 ? "h-64" : ""}`}>
      <Lines lines={store.lines} isFiltered={false} isLive={isLive} showNode={false} />
    </div>
  );
}

interface LinesProps {
  lines: readonly Log[];
  isFiltered: boolean;
  isLive: boolean;
  showNode: boolean;
}

function Lines({ lines, isFiltered, isLive, showNode }: LinesProps) {
  if (lines.length > 0) {
    return <LogLines lines={lines} isLive={isLive} showNode={showNode} />;
  }
  if (isFiltered) {
    return <EmptyState title="No matching lines" />;
  }
  return (
    <EmptyState title={isLive ? "No logs yet" : "No logs"}>Output and log messages of handlers appear here.</EmptyState>
  );
}

function useLogs(jobId: string, node: string | null, isJobFinal: boolean): LogStore {
  const store = useMemo(() => new LogStore(jobId, node ?? undefined), [jobId, node]);
  useSyncExternalStore(store.notifier.subscribe, store.notifier.version);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a resumed job has more lines
  useEffect(() => {
    const controller = new AbortController();
    void store.run(controller.signal);
    return () => controller.abort();
  }, [store, isJobFinal]);
  return store;
}

function lineMatcher(search: string): (line: Log) => boolean {
  const query = search.trim().toLowerCase();
  return (line) => query === "" || plainText(line.message).toLowerCase().includes(query);
}
