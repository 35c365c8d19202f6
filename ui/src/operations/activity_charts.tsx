// Throughput and latency over time, as charts, and as tables for those who do not see charts.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useMemo } from "react";
import { Choice, Panel } from "../components/controls";
import { Loaded, ProblemBox } from "../components/query_result";
import { Cell, RowHead, Table } from "../components/table";
import { count, duration, moment } from "../lib/format";
import { type Columns, latencyOf, throughputOf, totalsOf } from "./chart_data";
import { activityQuery } from "./queries";
import { operationsSearchOf, SPAN_USUAL, SPANS, spanInWords } from "./search";
import type { Activity } from "./types";

const Chart = lazy(() => import("./chart"));

const route = getRouteApi("/operations");

export function ActivityCharts() {
  const { minutes = SPAN_USUAL } = route.useSearch();
  const navigate = route.useNavigate();
  const activity = useQuery(activityQuery(minutes));
  return (
    <section aria-labelledby="activity-title" className="space-y-3">
      <header className="flex flex-wrap items-center justify-between gap-2">
        <h2 id="activity-title" className="text-base font-semibold">
          Activity
        </h2>
        <Choice
          label="How far back"
          hidden
          value={String(minutes)}
          options={SPANS.map((span) => [String(span), `Last ${spanInWords(span)}`] as const)}
          onChange={(event) =>
            void navigate({
              search: operationsSearchOf({ minutes: event.target.value }),
              replace: true,
              resetScroll: false,
            })
          }
        />
      </header>
      {activity.isRefetchError && <ProblemBox error={activity.error} title="The charts may be out of date" />}
      <Loaded query={activity}>{(found) => <Charts activity={found} />}</Loaded>
    </section>
  );
}

function Charts({ activity }: { activity: Activity }) {
  const throughput = useMemo(() => throughputOf(activity), [activity]);
  const latency = useMemo(() => latencyOf(activity), [activity]);
  const totals = totalsOf(activity);
  return (
    <>
      <p className="text-muted">
        {count(totals.submitted)} submitted, {count(totals.completed)} completed, {count(totals.failed)} failed,{" "}
        {count(totals.cancelled)} cancelled; {count(activity.unfinished)} under way.
        {activity.truncated && " There were more jobs than are counted here."}
      </p>
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <ChartPanel title="Jobs a minute" columns={throughput} unit={rate} />
        <ChartPanel title="Time that jobs took" columns={latency} unit={seconds} />
      </div>
    </>
  );
}

function seconds(value: number): string {
  return value === 0 ? "0" : duration(value);
}

function rate(value: number): string {
  return value >= 10 || Number.isInteger(value) ? count(Math.round(value)) : value.toFixed(1);
}

function ChartPanel({ title, columns, unit }: { title: string; columns: Columns; unit(value: number): string }) {
  return (
    <Panel title={title} actions={<Legend columns={columns} />}>
      <div className="px-2 pb-1 pt-2">
        <Suspense fallback={<div className="h-[190px]" />}>
          <Chart columns={columns} unit={unit} />
        </Suspense>
      </div>
      <details className="border-t border-line">
        <summary className="px-4 py-1.5 text-xs text-muted">{title} as a table</summary>
        <NumbersTable title={title} columns={columns} unit={unit} />
      </details>
    </Panel>
  );
}

function Legend({ columns }: { columns: Columns }) {
  return (
    <span className="flex flex-wrap gap-x-3 text-xs text-muted">
      {columns.lines.map((line) => (
        <span key={line.name} className="inline-flex items-center gap-1.5">
          <svg width="20" height="6" aria-hidden="true">
            <path
              d="M0 3h20"
              strokeWidth="2"
              style={{ stroke: `var(${line.tone})`, strokeDasharray: line.dash.join(" ") }}
            />
          </svg>
          {line.name}
        </span>
      ))}
    </span>
  );
}

function NumbersTable({ title, columns, unit }: { title: string; columns: Columns; unit(value: number): string }) {
  return (
    <div className="max-h-64 overflow-y-auto">
      <Table
        label={`${title}, by time`}
        columns={[{ name: "From" }, ...columns.lines.map((line) => ({ name: line.name, right: true }))]}
      >
        {columns.at
          .map((seconds, place) => (
            <tr key={seconds}>
              <RowHead className="tabular-nums">{moment(new Date(seconds * 1000).toISOString())}</RowHead>
              {columns.lines.map((line) => {
                const value = line.values[place] ?? null;
                return (
                  <Cell key={line.name} right>
                    {value === null ? "–" : unit(value)}
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
