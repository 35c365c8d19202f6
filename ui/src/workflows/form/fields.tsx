// The fields of a form as they are seen: labels, what each takes, and what is wrong with it.

import { type ReactNode, useId } from "react";
import { Button } from "../../components/controls";
import { boundsInWords, type Draft, type Entry, entry, initial } from "./form_values";
import type { ChoiceField, Field, GroupField, ListField } from "./schema_form";

interface Shown<F extends Field> {
  field: F;
  path: string;
  draft: Draft;
  onChange(draft: Draft): void;
  /** What is wrong, by path. */
  wrong: ReadonlyMap<string, string[]>;
}

const INPUT =
  "w-full rounded-md border border-line bg-surface px-2.5 text-sm aria-invalid:border-failed aria-invalid:bg-failed/5";

export function Group({ field, path, draft, onChange, wrong }: Shown<GroupField>) {
  const drafts = draft as { [name: string]: Draft };
  return (
    <div className="space-y-4">
      {field.fields.map((one) => (
        <One
          key={one.name}
          field={one}
          path={path ? `${path}.${one.name}` : one.name}
          draft={drafts[one.name] ?? ""}
          onChange={(changed) => onChange({ ...drafts, [one.name]: changed })}
          wrong={wrong}
        />
      ))}
    </div>
  );
}

function One(shown: Shown<Field>) {
  const { field } = shown;
  if (field.kind === "group") {
    return (
      <Nested field={field} problems={shown.wrong.get(shown.path)}>
        <Group {...shown} field={field} />
      </Nested>
    );
  }
  if (field.kind === "list") {
    return (
      <Nested field={field} problems={shown.wrong.get(shown.path)}>
        <List {...shown} field={field} />
      </Nested>
    );
  }
  return <Labelled {...shown} />;
}

function Nested({ field, problems, children }: { field: Field; problems: string[] | undefined; children: ReactNode }) {
  return (
    <fieldset className="min-w-0">
      <legend className="text-sm font-medium">
        {field.title}
        <Needed field={field} />
      </legend>
      {field.description && <p className="text-xs text-muted">{field.description}</p>}
      <Wrong problems={problems} />
      <div className="mt-2 border-l-2 border-line pl-3">{children}</div>
    </fieldset>
  );
}

function List({ field, path, draft, onChange, wrong }: Shown<ListField>) {
  const entries = draft as Entry[];
  const isFull = field.itemsMax !== null && entries.length >= field.itemsMax;
  return (
    <div className="space-y-2">
      {entries.map((one, place) => (
        <div key={one.key} className="flex items-start gap-2">
          <div className="min-w-0 flex-1">
            <One
              field={{ ...field.item, title: `${field.title} ${place + 1}` }}
              path={`${path}[${place}]`}
              draft={one.draft}
              onChange={(changed) => onChange(entries.with(place, { ...one, draft: changed }))}
              wrong={wrong}
            />
          </div>
          <Button
            look="quiet"
            aria-label={`Remove ${field.title} ${place + 1}`}
            onClick={() => onChange(entries.filter((other) => other.key !== one.key))}
          >
            ✕
          </Button>
        </div>
      ))}
      <Button disabled={isFull} onClick={() => onChange([...entries, entry(initial(field.item))])}>
        Add to {field.title}
      </Button>
    </div>
  );
}

function Labelled({ field, path, draft, onChange, wrong }: Shown<Field>) {
  const id = useId();
  const problems = wrong.get(path);
  const bounds = boundsInWords(field);
  const told = [problems && `${id}-wrong`, (field.description || bounds) && `${id}-about`].filter(Boolean).join(" ");
  return (
    <div>
      <label htmlFor={id} className="mb-1 block text-sm font-medium">
        {field.title}
        <Needed field={field} />
      </label>
      <Input
        field={field}
        value={String(draft)}
        onChange={onChange}
        id={id}
        aria-invalid={problems !== undefined}
        aria-required={field.required}
        aria-describedby={told || undefined}
      />
      {(field.description || bounds) && (
        <p id={`${id}-about`} className="mt-0.5 break-words text-xs text-muted">
          {[field.description, bounds].filter(Boolean).join(" · ")}
        </p>
      )}
      <Wrong id={`${id}-wrong`} problems={problems} />
    </div>
  );
}

interface InputProps {
  field: Field;
  value: string;
  onChange(value: string): void;
  id: string;
  "aria-invalid": boolean;
  "aria-required": boolean;
  "aria-describedby": string | undefined;
}

function Input({ field, onChange, ...rest }: InputProps) {
  switch (field.kind) {
    case "switch":
      return (
        <Select
          {...rest}
          onChange={onChange}
          options={[
            ["true", "true"],
            ["false", "false"],
          ]}
          unset={!field.required}
        />
      );
    case "choice":
      return (
        <Select {...rest} onChange={onChange} options={optionsOf(field)} unset={!field.required || rest.value === ""} />
      );
    case "json":
      return (
        <textarea
          {...rest}
          rows={3}
          spellCheck={false}
          className={`${INPUT} py-1.5 font-mono`}
          onChange={(event) => onChange(event.target.value)}
        />
      );
    default:
      return (
        <input
          {...rest}
          type="text"
          inputMode={field.kind === "number" ? (field.isInteger ? "numeric" : "decimal") : undefined}
          autoComplete="off"
          className={`${INPUT} h-8`}
          onChange={(event) => onChange(event.target.value)}
        />
      );
  }
}

function Select({
  options,
  unset,
  onChange,
  ...rest
}: Omit<InputProps, "field"> & { options: [string, string][]; unset: boolean }) {
  return (
    <select {...rest} className={`${INPUT} h-8`} onChange={(event) => onChange(event.target.value)}>
      {unset && <option value="">not set</option>}
      {options.map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}

function optionsOf(field: ChoiceField): [string, string][] {
  return field.options.map((option, place) => [
    String(place),
    typeof option === "string" ? option : JSON.stringify(option),
  ]);
}

function Needed({ field }: { field: Field }) {
  return field.required ? null : <span className="ml-1.5 text-xs font-normal text-muted">optional</span>;
}

function Wrong({ id, problems }: { id?: string; problems: string[] | undefined }) {
  return problems ? (
    <p id={id} className="mt-0.5 break-words text-xs font-medium text-failed">
      {problems.join("; ")}
    </p>
  ) : null;
}
