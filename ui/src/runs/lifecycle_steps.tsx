// The lifecycle of a run as steps, with a row per attempt.

import type { Run } from "../api/types";
import { StatusIcon, statusText, TEXT_CLASSES, toneOf } from "../components/status";
import { useNow } from "../components/time";
import { formatDuration, formatTimestamp } from "../lib/format";
import { isFinal, lifecycleOf, STATE_DESCRIPTIONS, type Step } from "./lifecycle";
import { runStatus } from "./links";

const PROGRESS_TEXT: Record<Step["progress"], string> = {
  done: "Done",
  current: "Current",
  final: "Final",
  skipped: "Skipped",
  not_reached: "Not reached",
};

export function LifecycleSteps({ run }: { run: Run }) {
  const now = useNow(isFinal(run.state) ? null : 1_000);
  const attempts = lifecycleOf(run, now);
  return (
    <div className="space-y-5 px-4 py-4">
      {attempts.map((attempt) => (
        <div key={attempt.number}>
          {attempts.length > 1 && <h3 className="mb-2 text-sm font-medium text-muted">Attempt {attempt.number}</h3>}
          <ol className="flex flex-col lg:flex-row">
            {attempt.steps.map((step, index) => (
              <StepView
                key={step.state}
                step={step}
                status={step.progress === "final" ? runStatus(run) : step.state}
                isLast={index === attempt.steps.length - 1}
              />
            ))}
          </ol>
        </div>
      ))}
    </div>
  );
}

/** A dot on a line: vertical on narrow screens, horizontal on wide ones. */
function StepView({ step, status, isLast }: { step: Step; status: string; isLast: boolean }) {
  const isEntered = step.at !== null;
  const tone = isEntered ? TEXT_CLASSES[toneOf(iconOf(step, status))] : "text-muted";
  return (
    <li
      aria-current={step.progress === "current" ? "step" : undefined}
      title={STATE_DESCRIPTIONS[step.state]}
      className="relative flex min-w-0 flex-1 gap-3 pb-4 last:pb-0 lg:block lg:pb-0 lg:pr-3"
    >
      {!isLast && (
        <span
          aria-hidden="true"
          className={`absolute bottom-0 left-[9px] top-6 border-l-2 lg:bottom-auto lg:left-7 lg:right-1 lg:top-[9px] lg:border-l-0 lg:border-t-2 ${
            isEntered && step.progress === "done" ? "border-completed/60" : "border-dashed border-line"
          }`}
        />
      )}
      <span className={`flex size-5 shrink-0 items-center justify-center ${tone}`}>
        {isEntered ? <StatusIcon status={iconOf(step, status)} size={18} /> : <EmptyDot />}
      </span>
      <span className="block min-w-0 lg:mt-1.5">
        <span className={`block text-sm ${isEntered ? "font-medium" : "text-muted"}`}>
          {statusText(status)}
          <span className="sr-only">: {PROGRESS_TEXT[step.progress]}</span>
        </span>
        {step.at !== null && (
          <time dateTime={step.at} title={step.at} className="block whitespace-nowrap text-xs tabular-nums text-muted">
            {formatTimestamp(step.at)}
          </time>
        )}
        <span className="block text-xs tabular-nums text-muted">
          {step.seconds === null ? (isEntered ? null : PROGRESS_TEXT[step.progress]) : formatDuration(step.seconds)}
        </span>
      </span>
    </li>
  );
}

/** States that are done have the icon of completed ones. */
function iconOf(step: Step, status: string): string {
  return step.progress === "done" ? "completed" : status;
}

function EmptyDot() {
  return (
    <svg viewBox="0 0 16 16" width="18" height="18" fill="none" stroke="currentColor" aria-hidden="true">
      <circle cx="8" cy="8" r="4.5" strokeDasharray="1.5 2" />
    </svg>
  );
}
