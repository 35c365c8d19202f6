// The input fields of a form with labels, help and error messages.

import { type ReactNode, useId } from "react";
import { Button } from "../../components/controls";
import { createEntry, describeBounds, type Entry, type FormValue, initialValue } from "./form_values";
import type { ChoiceField, Field, GroupField, ListField } from "./schema_form";

interface FieldProps<F extends Field> {
  field: F;
  path: string;
  value: FormValue;
  onChange(value: FormValue): void;
  /** Error messages by path. */
  errors: ReadonlyMap<string, string[]>;
}

const INPUT_CLASS =
  "w-full rounded-md border border-line bg-surface px-2.5 text-sm aria-invalid:border-failed aria-invalid:bg-failed/5";

export function Group({ field, path, value, onChange, errors }: FieldProps<GroupField>) {
  const values = value as { [name: string]: FormValue };
  return (
    <div className="space-y-4">
      {field.fields.map((child) => (
        <FormField
          key={child.name}
          field={child}
          path={path ? `${path}.${child.name}` : child.name}
          value={values[child.name] ?? ""}
          onChange={(changed) => onChange({ ...values, [child.name]: changed })}
          errors={errors}
        />
      ))}
    </div>
  );
}

function FormField(props: FieldProps<Field>) {
  const { field } = props;
  if (field.kind === "group") {
    return (
      <Nested field={field} errors={props.errors.get(props.path)}>
        <Group {...props} field={field} />
      </Nested>
    );
  }
  if (field.kind === "list") {
    return (
      <Nested field={field} errors={props.errors.get(props.path)}>
        <List {...props} field={field} />
      </Nested>
    );
  }
  return <LabeledInput {...props} />;
}

function Nested({ field, errors, children }: { field: Field; errors: string[] | undefined; children: ReactNode }) {
  return (
    <fieldset className="min-w-0">
      <legend className="text-sm font-medium">
        {field.title}
        <OptionalMark field={field} />
      </legend>
      {field.description && <p className="text-xs text-muted">{field.description}</p>}
      <ErrorText errors={errors} />
      <div className="mt-2 border-l-2 border-line pl-3">{children}</div>
    </fieldset>
  );
}

function List({ field, path, value, onChange, errors }: FieldProps<ListField>) {
  const entries = value as Entry[];
  const isFull = field.itemsMax !== null && entries.length >= field.itemsMax;
  return (
    <div className="space-y-2">
      {entries.map((entry, index) => (
        <div key={entry.key} className="flex items-start gap-2">
          <div className="min-w-0 flex-1">
            <FormField
              field={{ ...field.item, title: `${field.title} ${index + 1}` }}
              path={`${path}[${index}]`}
              value={entry.value}
              onChange={(changed) => onChange(entries.with(index, { ...entry, value: changed }))}
              errors={errors}
            />
          </div>
          <Button
            variant="ghost"
            aria-label={`Remove ${field.title} ${index + 1}`}
            onClick={() => onChange(entries.filter((other) => other.key !== entry.key))}
          >
            ✕
          </Button>
        </div>
      ))}
      <Button disabled={isFull} onClick={() => onChange([...entries, createEntry(initialValue(field.item))])}>
        Add {field.title}
      </Button>
    </div>
  );
}

function LabeledInput({ field, path, value, onChange, errors }: FieldProps<Field>) {
  const id = useId();
  const messages = errors.get(path);
  const bounds = describeBounds(field);
  const describedBy = [messages && `${id}-errors`, (field.description || bounds) && `${id}-help`]
    .filter(Boolean)
    .join(" ");
  return (
    <div>
      <label htmlFor={id} className="mb-1 block text-sm font-medium">
        {field.title}
        <OptionalMark field={field} />
      </label>
      <Input
        field={field}
        value={String(value)}
        onChange={onChange}
        id={id}
        aria-invalid={messages !== undefined}
        aria-required={field.required}
        aria-describedby={describedBy || undefined}
      />
      {(field.description || bounds) && (
        <p id={`${id}-help`} className="mt-0.5 break-words text-xs text-muted">
          {[field.description, bounds].filter(Boolean).join(" · ")}
        </p>
      )}
      <ErrorText id={`${id}-errors`} errors={messages} />
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
          hasEmptyOption={!field.required}
        />
      );
    case "choice":
      return (
        <Select
          {...rest}
          onChange={onChange}
          options={toOptions(field)}
          hasEmptyOption={!field.required || rest.value === ""}
        />
      );
    case "json":
      return (
        <textarea
          {...rest}
          rows={3}
          spellCheck={false}
          className={`${INPUT_CLASS} py-1.5 font-mono`}
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
          className={`${INPUT_CLASS} h-8`}
          onChange={(event) => onChange(event.target.value)}
        />
      );
  }
}

function Select({
  options,
  hasEmptyOption,
  onChange,
  ...rest
}: Omit<InputProps, "field"> & { options: [string, string][]; hasEmptyOption: boolean }) {
  return (
    <select {...rest} className={`${INPUT_CLASS} h-8`} onChange={(event) => onChange(event.target.value)}>
      {hasEmptyOption && <option value="">Not set</option>}
      {options.map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}

function toOptions(field: ChoiceField): [string, string][] {
  return field.options.map((option, index) => [
    String(index),
    typeof option === "string" ? option : JSON.stringify(option),
  ]);
}

function OptionalMark({ field }: { field: Field }) {
  return field.required ? null : <span className="ml-1.5 text-xs font-normal text-muted">optional</span>;
}

function ErrorText({ id, errors }: { id?: string; errors: string[] | undefined }) {
  return errors ? (
    <p id={id} className="mt-0.5 break-words text-xs font-medium text-failed">
      {errors.join("; ")}
    </p>
  ) : null;
}
