// What a submit may say beside its input, folded away.

import { type ComponentProps, useId } from "react";
import { Field } from "../../components/controls";
import type { Extras } from "./submission";

export function AdvancedFold({
  extras,
  onChange,
  wrong,
}: {
  extras: Extras;
  onChange(extras: Extras): void;
  wrong: ReadonlyMap<string, string[]>;
}) {
  return (
    <details className="rounded-md border border-line">
      <summary className="px-3 py-2 text-sm font-medium">Advanced</summary>
      <div className="grid gap-3 border-t border-line p-3 sm:grid-cols-3">
        <Extra
          label="Idempotency key"
          about="The same key gives the same job back"
          problems={wrong.get("idempotency_key")}
          value={extras.idempotencyKey}
          onChange={(event) => onChange({ ...extras, idempotencyKey: event.target.value })}
        />
        <Extra
          label="Priority"
          about="-1000 to 1000, higher first"
          inputMode="numeric"
          placeholder="0"
          problems={wrong.get("priority")}
          value={extras.priority}
          onChange={(event) => onChange({ ...extras, priority: event.target.value })}
        />
        <Extra
          label="Not before"
          about="On your clock"
          type="datetime-local"
          problems={wrong.get("scheduled_at")}
          value={extras.scheduledAt}
          onChange={(event) => onChange({ ...extras, scheduledAt: event.target.value })}
        />
      </div>
    </details>
  );
}

function Extra({
  about,
  problems,
  ...rest
}: ComponentProps<typeof Field> & { about: string; problems: string[] | undefined }) {
  const id = useId();
  return (
    <div className="flex min-w-0 flex-col">
      <Field
        {...rest}
        autoComplete="off"
        aria-describedby={id}
        aria-invalid={problems !== undefined}
        className="w-full min-w-0 aria-invalid:border-failed"
      />
      <p id={id} className={`mt-0.5 text-xs ${problems ? "font-medium text-failed" : "text-muted"}`}>
        {problems?.join("; ") ?? about}
      </p>
    </div>
  );
}
