// A run's way through its states, drawn as steps: one row for each attempt.

import type { Run } from "../api/types";
import { StatusIcon, TEXT, toneOf } from "../components/status";
import { useNow } from "../components/time";
import { duration, moment } from "../lib/format";
import { ABOUT, isFinal, lifecycleOf, type Step } from "./lifecycle";
import { runStatus } from "./links";

const MARKS: Record<Step["mark"], string> = {
  left: "done",
  current: "now",
  end: "the end",
  passed_over: "not needed",
  not_reached: "not reached",
};

export function LifecyclePath({ run }: { run: Run }) {
  const now = useNow(isFinal(run.state) ? null : 1_000);
  const attempts = lifecycleOf(run, now);
  return (
    <div className="space-y-5 px-4 py-4">
      {attempts.map((attempt) => (
        <div key={attempt.number}>
          {attempts.length > 1 && <h3 className="mb-2 text-sm font-medium text-muted">Attempt {attempt.number}</h3>}
          <ol className="flex flex-col lg:flex-row">
            {attempt.steps.map((step, place) => (
              <StepOf
                key={step.state}
                step={step}
                status={step.mark === "end" ? runStatus(run) : step.state}
                isLast={place === attempt.steps.length - 1}
              />
            ))}
          </ol>
        </div>
      ))}
    </div>
  );
}

/** A dot on a line, downwards on a narrow screen and to the right on a wide one. */
function StepOf({ step, status, isLast }: { step: Step; status: string; isLast: boolean }) {
  const isReached = step.at !== null;
  const tone = isReached ? TEXT[toneOf(iconOf(step, status))] : "text-muted";
  return (
    <li
      aria-current={step.mark === "current" ? "step" : undefined}
      title={ABOUT[step.state]}
      className="relative flex min-w-0 flex-1 gap-3 pb-4 last:pb-0 lg:block lg:pb-0 lg:pr-3"
    >
      {!isLast && (
        <span
          aria-hidden="true"
          className={`absolute bottom-0 left-[9px] top-6 border-l-2 lg:bottom-auto lg:left-7 lg:right-1 lg:top-[9px] lg:border-l-0 lg:border-t-2 ${
            isReached && step.mark === "left" ? "border-completed/60" : "border-dashed border-line"
          }`}
        />
      )}
      <span className={`flex size-5 shrink-0 items-center justify-center ${tone}`}>
        {isReached ? <StatusIcon status={iconOf(step, status)} size={18} /> : <Faint />}
      </span>
      <span className="block min-w-0 lg:mt-1.5">
        <span className={`block text-sm ${isReached ? "font-medium" : "text-muted"}`}>
          {status.replaceAll("_", " ")}
          <span className="sr-only">: {MARKS[step.mark]}</span>
        </span>
        {step.at !== null && (
          <time dateTime={step.at} title={step.at} className="block whitespace-nowrap text-xs tabular-nums text-muted">
            {moment(step.at)}
          </time>
        )}
        <span className="block text-xs tabular-nums text-muted">
          {step.seconds === null ? (isReached ? null : MARKS[step.mark]) : duration(step.seconds)}
        </span>
      </span>
    </li>
  );
}

/** States that were left are done, whatever they were. */
function iconOf(step: Step, status: string): string {
  return step.mark === "left" ? "completed" : status;
}

function Faint() {
  return (
    <svg viewBox="0 0 16 16" width="18" height="18" fill="none" stroke="currentColor" aria-hidden="true">
      <circle cx="8" cy="8" r="4.5" strokeDasharray="1.5 2" />
    </svg>
  );
}
