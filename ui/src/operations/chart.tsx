// A line chart over time by uPlot, in the colors of the theme.

import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { ChartData } from "./chart_data";

const HEIGHT = 190;
const FONT = "11px ui-sans-serif, system-ui, sans-serif";

export default function Chart({ data, format }: { data: ChartData; format(value: number): string }) {
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(data);
  latest.current = data;
  // A chart is created again only for other series; new values are set on the existing one.
  const seriesNames = data.series.map(({ name }) => name).join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the chart is created again for other series
  useEffect(() => {
    const element = container.current;
    if (!element) {
      return;
    }
    const create = () => {
      plot.current?.destroy();
      plot.current = new uPlot(
        createOptions(latest.current, element.clientWidth, format),
        toUplotData(latest.current),
        element,
      );
    };
    create();
    const themeObserver = new MutationObserver(create);
    themeObserver.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const sizeObserver = new ResizeObserver(() =>
      plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    sizeObserver.observe(element);
    return () => {
      themeObserver.disconnect();
      sizeObserver.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [seriesNames]);
  useEffect(() => plot.current?.setData(toUplotData(data)), [data]);
  return <div ref={container} aria-hidden="true" className="w-full overflow-hidden" style={{ height: HEIGHT }} />;
}

function toUplotData(data: ChartData): uPlot.AlignedData {
  return [data.times, ...data.series.map(({ values }) => values)];
}

function createOptions(data: ChartData, width: number, format: (value: number) => string): uPlot.Options {
  const styles = getComputedStyle(document.documentElement);
  const color = (token: string) => styles.getPropertyValue(token).trim();
  const axis = {
    stroke: color("--muted"),
    font: FONT,
    grid: { stroke: color("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 8, 0, 0],
    scales: { y: { range: (_, __, max) => [0, Math.max(max, Number.EPSILON) * 1.1] } },
    axes: [
      { ...axis, size: 28, values: (_, times) => times.map(formatTime) },
      { ...axis, size: 64, values: (_, values) => values.map(format) },
    ],
    series: [
      {},
      ...data.series.map((series) => ({
        label: series.name,
        stroke: color(series.color),
        dash: series.dash,
        width: 1.5,
        spanGaps: true,
        points: { show: false },
      })),
    ],
  };
}

function formatTime(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}
