// The progress of a loop as a ring: what is done, what failed, what is under way.

import type { LoopCounts } from "../model/state";

const RADIUS = 15;
const AROUND = 2 * Math.PI * RADIUS;

export function Ring({ loop }: { loop: LoopCounts }) {
  const total = Math.max(1, loop.total);
  const arcs = [
    { name: "completed", colour: "stroke-completed", share: (loop.completed + loop.skipped) / total },
    { name: "failed", colour: "stroke-failed", share: (loop.failed + loop.cancelled) / total },
    { name: "running", colour: "stroke-running", share: (loop.running + loop.waiting) / total },
  ];
  const ended = loop.total === 0 ? 1 : (loop.completed + loop.failed + loop.skipped) / total;
  let from = 0;
  return (
    <svg viewBox="0 0 38 38" width="42" height="42" className="-ml-1 shrink-0" aria-hidden="true">
      <circle cx="19" cy="19" r={RADIUS} fill="none" className="stroke-line" strokeWidth="4" />
      {arcs.map(({ name, colour, share }) => {
        const begin = from;
        from += share;
        return share === 0 ? null : (
          <circle
            key={name}
            cx="19"
            cy="19"
            r={RADIUS}
            fill="none"
            className={colour}
            strokeWidth="4"
            strokeDasharray={`${share * AROUND} ${AROUND}`}
            strokeDashoffset={-begin * AROUND}
            transform="rotate(-90 19 19)"
          />
        );
      })}
      <text x="19" y="22" textAnchor="middle" className="fill-ink text-[8.5px] font-semibold tabular-nums">
        {Math.floor(ended * 100)}%
      </text>
    </svg>
  );
}
