// Converts between form values and JSON, and validates form values.

import type { Json } from "../../api/types";
import { type Field, type GroupField, isObject, type ListField, type NumberField, type TextField } from "./schema_form";

/** Text, the index of an option, a list with stable keys, or a group by field name. */
export type FormValue = string | Entry[] | { [name: string]: FormValue };

export interface Entry {
  key: number;
  value: FormValue;
}

export interface FieldError {
  path: string;
  message: string;
}

let lastKey = 0;

/** The initial value of a field, from the defaults of the schema. */
export function initialValue(field: Field): FormValue {
  if (field.default !== undefined) {
    const value = toFormValue(field, field.default);
    if (value !== null) {
      return value;
    }
  }
  switch (field.kind) {
    case "group":
      return Object.fromEntries(field.fields.map((child) => [child.name, initialValue(child)]));
    case "list":
      return Array.from({ length: field.required ? field.itemsMin : 0 }, () => createEntry(initialValue(field.item)));
    case "choice":
      return field.required && field.options.length === 1 ? "0" : "";
    default:
      return "";
  }
}

export function createEntry(value: FormValue): Entry {
  lastKey += 1;
  return { key: lastKey, value };
}

/** Convert JSON to a form value; null if the fields cannot show it. */
export function toFormValue(field: Field, value: Json | undefined): FormValue | null {
  if (value === undefined) {
    return field.kind === "group"
      ? Object.fromEntries(field.fields.map((child) => [child.name, toFormValue(child, undefined) ?? ""]))
      : field.kind === "list"
        ? []
        : "";
  }
  switch (field.kind) {
    case "text":
      // An empty field means that there is no value.
      return typeof value === "string" && value !== "" ? value : null;
    case "number":
      return typeof value === "number" ? String(value) : null;
    case "switch":
      return typeof value === "boolean" ? String(value) : null;
    case "choice": {
      const index = field.options.findIndex((option) => canonical(option) === canonical(value));
      return index < 0 ? null : String(index);
    }
    case "list": {
      const values = Array.isArray(value) ? value.map((item) => toFormValue(field.item, item)) : [null];
      return values.some((item) => item === null) ? null : values.map((item) => createEntry(item as FormValue));
    }
    case "group":
      return toGroupValue(field, value);
    case "json":
      return JSON.stringify(value, null, 2);
  }
}

function toGroupValue(field: GroupField, value: Json): FormValue | null {
  if (!isObject(value) || Object.keys(value).some((name) => !field.fields.some((child) => child.name === name))) {
    return null;
  }
  const values = field.fields.map((child): [string, FormValue | null] => [
    child.name,
    toFormValue(child, value[child.name]),
  ]);
  const isComplete = values.every(([, child]) => child !== null);
  return isComplete ? (Object.fromEntries(values) as { [name: string]: FormValue }) : null;
}

/** Convert a form value to JSON (undefined if empty) and validate it. */
export function toJson(
  field: Field,
  formValue: FormValue,
  path = "",
): { value: Json | undefined; errors: FieldError[] } {
  if (field.kind === "group") {
    return groupToJson(field, formValue as { [name: string]: FormValue }, path);
  }
  if (field.kind === "list") {
    return listToJson(field, formValue as Entry[], path);
  }
  const text = String(formValue);
  if (text.trim() === "") {
    return { value: undefined, errors: field.required ? [{ path, message: "is required" }] : [] };
  }
  const [value, message] = leafToJson(field, text);
  return { value, errors: message === null ? [] : [{ path, message }] };
}

function groupToJson(field: GroupField, formValue: { [name: string]: FormValue }, path: string) {
  const value: { [name: string]: Json } = {};
  const errors: FieldError[] = [];
  for (const child of field.fields) {
    const result = toJson(child, formValue[child.name] ?? "", path ? `${path}.${child.name}` : child.name);
    if (result.value !== undefined) {
      value[child.name] = result.value;
    }
    errors.push(...result.errors);
  }
  // An empty optional group is omitted, and its required fields may be missing.
  const isOmitted = !field.required && Object.keys(value).length === 0;
  return isOmitted ? { value: undefined, errors: errors.filter(isNotMissing) } : { value, errors };
}

function isNotMissing(error: FieldError): boolean {
  return error.message !== "is required";
}

function listToJson(field: ListField, entries: Entry[], path: string) {
  const results = entries.map((entry, index) => toJson(field.item, entry.value, `${path}[${index}]`));
  const errors = results.flatMap((result) => result.errors);
  if (entries.length === 0 && !field.required) {
    return { value: undefined, errors };
  }
  if (entries.length < field.itemsMin) {
    errors.push({ path, message: `must have at least ${field.itemsMin} entries` });
  } else if (field.itemsMax !== null && entries.length > field.itemsMax) {
    errors.push({ path, message: `must have at most ${field.itemsMax} entries` });
  }
  return { value: results.map((result) => result.value ?? null), errors };
}

function leafToJson(field: Exclude<Field, GroupField | ListField>, text: string): [Json | undefined, string | null] {
  switch (field.kind) {
    case "text":
      return [text, validateText(field, text)];
    case "number": {
      const number = Number(text);
      return [number, Number.isFinite(number) ? validateNumber(field, number) : "must be a number"];
    }
    case "switch":
      return [text === "true", null];
    case "choice":
      return [field.options[Number(text)], null];
    case "json":
      try {
        return [JSON.parse(text) as Json, null];
      } catch (error) {
        return [undefined, `invalid JSON: ${(error as Error).message}`];
      }
  }
}

function validateText(field: TextField, text: string): string | null {
  const length = [...text].length;
  if (field.lengthMin !== null && length < field.lengthMin) {
    return `must have at least ${field.lengthMin} characters`;
  }
  if (field.lengthMax !== null && length > field.lengthMax) {
    return `must have at most ${field.lengthMax} characters`;
  }
  const pattern = field.pattern === null ? null : compilePattern(field.pattern);
  return pattern?.test(text) === false ? `must match ${field.pattern}` : null;
}

function validateNumber(field: NumberField, number: number): string | null {
  if (field.isInteger && !Number.isInteger(number)) {
    return "must be an integer";
  }
  if (field.minimum !== null && number < field.minimum) {
    return `must be at least ${field.minimum}`;
  }
  if (field.maximum !== null && number > field.maximum) {
    return `must be at most ${field.maximum}`;
  }
  if (field.above !== null && number <= field.above) {
    return `must be more than ${field.above}`;
  }
  return field.below !== null && number >= field.below ? `must be less than ${field.below}` : null;
}

/** Group error messages by the path of their field. */
export function groupByField(errors: readonly FieldError[]): Map<string, string[]> {
  const grouped = new Map<string, string[]>();
  for (const { path, message } of errors) {
    // The server reports a missing property at its object.
    const missing = /^"(.+)" is a required property$/.exec(message)?.[1];
    let target = path;
    if (missing !== undefined) {
      target = path ? `${path}.${missing}` : missing;
    }
    grouped.set(target, [...(grouped.get(target) ?? []), missing === undefined ? message : "is required"]);
  }
  return grouped;
}

/** Describe the values that a field accepts. */
export function describeBounds(field: Field): string | null {
  if (field.kind === "number") {
    const kind = field.isInteger ? "integer" : "number";
    const range = describeRange(field);
    return range === null ? kind : `${kind}, ${range}`;
  }
  if (field.kind === "text") {
    const parts = [
      field.format,
      field.lengthMin === null ? null : `at least ${field.lengthMin} characters`,
      field.lengthMax === null ? null : `at most ${field.lengthMax} characters`,
      field.pattern === null ? null : `matches ${field.pattern}`,
    ].filter((part) => part !== null);
    return parts.length > 0 ? parts.join(", ") : null;
  }
  return field.kind === "json" ? "JSON" : null;
}

function describeRange({ minimum, maximum, above, below }: NumberField): string | null {
  if (minimum !== null && maximum !== null) {
    return `${minimum} to ${maximum}`;
  }
  const bounds = [
    minimum !== null && `at least ${minimum}`,
    above !== null && `more than ${above}`,
    maximum !== null && `at most ${maximum}`,
    below !== null && `less than ${below}`,
  ];
  return bounds.filter(Boolean).join(", ") || null;
}

/** Null for a pattern that the browser cannot compile; the server validates it. */
function compilePattern(pattern: string): RegExp | null {
  try {
    return new RegExp(pattern, "u");
  } catch {
    return null;
  }
}

function canonical(value: Json): string {
  return JSON.stringify(value, (_, part: Json) =>
    isObject(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  );
}
