// Throughput and durations over time, as charts and as tables.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useMemo } from "react";
import { Panel, Select } from "../components/controls";
import { ErrorAlert, QueryResult } from "../components/query_result";
import { Cell, RowHeader, Table } from "../components/table";
import { formatCount, formatDuration, formatTimestamp } from "../lib/format";
import { type ChartData, durationData, sumBuckets, throughputData } from "./chart_data";
import { activityQuery } from "./queries";
import { parseOperationsSearch, TIME_RANGE_DEFAULT, TIME_RANGES, timeRangeText } from "./search";
import type { Activity } from "./types";

const Chart = lazy(() => import("./chart"));

const route = getRouteApi("/operations");

export function ActivityCharts() {
  const { minutes = TIME_RANGE_DEFAULT } = route.useSearch();
  const navigate = route.useNavigate();
  const activity = useQuery(activityQuery(minutes));
  return (
    <section aria-labelledby="activity-title" className="space-y-3">
      <header className="flex flex-wrap items-center justify-between gap-2">
        <h2 id="activity-title" className="text-base font-semibold">
          Activity
        </h2>
        <Select
          label="Time range"
          hideLabel
          value={String(minutes)}
          options={TIME_RANGES.map((range) => [String(range), `Last ${timeRangeText(range)}`] as const)}
          onChange={(event) =>
            void navigate({
              search: parseOperationsSearch({ minutes: event.target.value }),
              replace: true,
              resetScroll: false,
            })
          }
        />
      </header>
      {activity.isRefetchError && <ErrorAlert error={activity.error} title="Refresh failed" />}
      <QueryResult query={activity}>{(loaded) => <Charts activity={loaded} />}</QueryResult>
    </section>
  );
}

function Charts({ activity }: { activity: Activity }) {
  const throughput = useMemo(() => throughputData(activity), [activity]);
  const durations = useMemo(() => durationData(activity), [activity]);
  const totals = sumBuckets(activity);
  return (
    <>
      <p className="text-muted">
        {formatCount(totals.submitted)} submitted, {formatCount(totals.completed)} completed,{" "}
        {formatCount(totals.failed)} failed, {formatCount(totals.cancelled)} cancelled;{" "}
        {formatCount(activity.unfinished)} active
        {activity.truncated && " (limit reached, some jobs are not counted)"}
      </p>
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <ChartPanel title="Jobs per minute" data={throughput} format={formatRate} />
        <ChartPanel title="Job duration" data={durations} format={formatSeconds} />
      </div>
    </>
  );
}

function formatSeconds(value: number): string {
  return value === 0 ? "0" : formatDuration(value);
}

function formatRate(value: number): string {
  return value >= 10 || Number.isInteger(value) ? formatCount(Math.round(value)) : value.toFixed(1);
}

function ChartPanel({ title, data, format }: { title: string; data: ChartData; format(value: number): string }) {
  return (
    <Panel title={title} actions={<Legend data={data} />}>
      <div className="px-2 pb-1 pt-2">
        <Suspense fallback={<div className="h-[190px]" />}>
          <Chart data={data} format={format} />
        </Suspense>
      </div>
      <details className="border-t border-line">
        <summary className="px-4 py-1.5 text-xs text-muted">Table</summary>
        <NumbersTable title={title} data={data} format={format} />
      </details>
    </Panel>
  );
}

function Legend({ data }: { data: ChartData }) {
  return (
    <span className="flex flex-wrap gap-x-3 text-xs text-muted">
      {data.series.map((series) => (
        <span key={series.name} className="inline-flex items-center gap-1.5">
          <svg width="20" height="6" aria-hidden="true">
            <path
              d="M0 3h20"
              strokeWidth="2"
              style={{ stroke: `var(${series.color})`, strokeDasharray: series.dash.join(" ") }}
            />
          </svg>
          {series.name}
        </span>
      ))}
    </span>
  );
}

function NumbersTable({ title, data, format }: { title: string; data: ChartData; format(value: number): string }) {
  return (
    <div className="max-h-64 overflow-y-auto">
      <Table label={title} columns={[{ name: "Time" }, ...data.series.map(({ name }) => ({ name, right: true }))]}>
        {data.times
          .map((seconds, index) => (
            <tr key={seconds}>
              <RowHeader className="tabular-nums">{formatTimestamp(new Date(seconds * 1000).toISOString())}</RowHeader>
              {data.series.map((series) => {
                const value = series.values[index] ?? null;
                return (
                  <Cell key={series.name} right>
                    {value === null ? "–" : format(value)}
                  </Cell>
                );
              })}
            </tr>
          ))
          .reverse()}
      </Table>
    </div>
  );
}
