// The progress of a loop as a ring.

import type { LoopCounts } from "../model/state";

const RADIUS = 15;
const CIRCUMFERENCE = 2 * Math.PI * RADIUS;

export function ProgressRing({ loop }: { loop: LoopCounts }) {
  const total = Math.max(1, loop.total);
  const arcs = [
    { name: "completed", color: "stroke-completed", share: (loop.completed + loop.skipped) / total },
    { name: "failed", color: "stroke-failed", share: (loop.failed + loop.cancelled) / total },
    { name: "running", color: "stroke-running", share: (loop.running + loop.waiting) / total },
  ];
  const done = loop.total === 0 ? 1 : (loop.completed + loop.failed + loop.skipped) / total;
  let start = 0;
  return (
    <svg viewBox="0 0 38 38" width="42" height="42" className="-ml-1 shrink-0" aria-hidden="true">
      <circle cx="19" cy="19" r={RADIUS} fill="none" className="stroke-line" strokeWidth="4" />
      {arcs.map(({ name, color, share }) => {
        const offset = start;
        start += share;
        return share === 0 ? null : (
          <circle
            key={name}
            cx="19"
            cy="19"
            r={RADIUS}
            fill="none"
            className={color}
            strokeWidth="4"
            strokeDasharray={`${share * CIRCUMFERENCE} ${CIRCUMFERENCE}`}
            strokeDashoffset={-offset * CIRCUMFERENCE}
            transform="rotate(-90 19 19)"
          />
        );
      })}
      <text x="19" y="22" textAnchor="middle" className="fill-ink text-[8.5px] font-semibold tabular-nums">
        {Math.floor(done * 100)}%
      </text>
    </svg>
  );
}
