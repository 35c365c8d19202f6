// Lines over time, drawn by uPlot in the colours of the theme; it is loaded with the first chart.

import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Columns } from "./chart_data";

const HEIGHT = 190;
const FONT = "11px ui-sans-serif, system-ui, sans-serif";

export default function Chart({ columns, unit }: { columns: Columns; unit(value: number): string }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(columns);
  latest.current = columns;
  // Names and tones decide how it is drawn; new values are only told.
  const kind = columns.lines.map((line) => line.name).join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is made anew when there are other lines
  useEffect(() => {
    const box = place.current;
    if (!box) {
      return;
    }
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(latest.current, box.clientWidth, unit), dataOf(latest.current), box);
    };
    make();
    const themes = new MutationObserver(make);
    themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const sizes = new ResizeObserver(() => plot.current?.setSize({ width: box.clientWidth, height: HEIGHT }));
    sizes.observe(box);
    return () => {
      themes.disconnect();
      sizes.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [kind]);
  useEffect(() => plot.current?.setData(dataOf(columns)), [columns]);
  return <div ref={place} aria-hidden="true" className="w-full overflow-hidden" style={{ height: HEIGHT }} />;
}

function dataOf(columns: Columns): uPlot.AlignedData {
  return [columns.at, ...columns.lines.map((line) => line.values)];
}

function optionsOf(columns: Columns, width: number, unit: (value: number) => string): uPlot.Options {
  const styles = getComputedStyle(document.documentElement);
  const colour = (token: string) => styles.getPropertyValue(token).trim();
  const axis = {
    stroke: colour("--muted"),
    font: FONT,
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 8, 0, 0],
    scales: { y: { range: (_, __, most) => [0, Math.max(most, Number.EPSILON) * 1.1] } },
    axes: [
      { ...axis, size: 28, values: (_, instants) => instants.map(timeOf) },
      { ...axis, size: 64, values: (_, values) => values.map(unit) },
    ],
    series: [
      {},
      ...columns.lines.map((line) => ({
        label: line.name,
        stroke: colour(line.tone),
        dash: line.dash,
        width: 1.5,
        spanGaps: true,
        points: { show: false },
      })),
    ],
  };
}

function timeOf(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}
