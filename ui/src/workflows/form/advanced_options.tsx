// Options of a job beside its input, collapsed by default.

import { type ComponentProps, useId } from "react";
import { Field } from "../../components/controls";
import type { JobOptions } from "./submission";

interface AdvancedOptionsProps {
  value: JobOptions;
  onChange(value: JobOptions): void;
  /** Error messages by field. */
  errors: ReadonlyMap<string, string[]>;
}

export function AdvancedOptions({ value, onChange, errors }: AdvancedOptionsProps) {
  return (
    <details className="rounded-md border border-line">
      <summary className="px-3 py-2 text-sm font-medium">Advanced</summary>
      <div className="grid gap-3 border-t border-line p-3 sm:grid-cols-3">
        <OptionField
          label="Idempotency key"
          help="Same key, same job"
          errors={errors.get("idempotency_key")}
          value={value.idempotencyKey}
          onChange={(event) => onChange({ ...value, idempotencyKey: event.target.value })}
        />
        <OptionField
          label="Priority"
          help="-1000 to 1000, highest first"
          inputMode="numeric"
          placeholder="0"
          errors={errors.get("priority")}
          value={value.priority}
          onChange={(event) => onChange({ ...value, priority: event.target.value })}
        />
        <OptionField
          label="Start time"
          help="Local time"
          type="datetime-local"
          errors={errors.get("scheduled_at")}
          value={value.scheduledAt}
          onChange={(event) => onChange({ ...value, scheduledAt: event.target.value })}
        />
      </div>
    </details>
  );
}

function OptionField({
  help,
  errors,
  ...rest
}: ComponentProps<typeof Field> & { help: string; errors: string[] | undefined }) {
  const id = useId();
  return (
    <div className="flex min-w-0 flex-col">
      <Field
        {...rest}
        autoComplete="off"
        aria-describedby={id}
        aria-invalid={errors !== undefined}
        className="w-full min-w-0 aria-invalid:border-failed"
      />
      <p id={id} className={`mt-0.5 text-xs ${errors ? "font-medium text-failed" : "text-muted"}`}>
        {errors?.join("; ") ?? help}
      </p>
    </div>
  );
}
