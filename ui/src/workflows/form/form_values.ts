// What is typed into the fields of a form as JSON, and what is plainly wrong with it.

import type { Json } from "../../api/types";
import { type Field, type GroupField, isObject, type ListField, type NumberField, type TextField } from "./schema_form";

/** What stands in the fields: text as typed, the number of an option, a list with lasting keys, a group by name. */
export type Draft = string | Entry[] | { [name: string]: Draft };

export interface Entry {
  key: number;
  draft: Draft;
}

export interface Wrong {
  path: string;
  message: string;
}

let keys = 0;

/** What a fresh form shows: the defaults. */
export function initial(field: Field): Draft {
  if (field.preset !== undefined) {
    const shown = draftOf(field, field.preset);
    if (shown !== null) {
      return shown;
    }
  }
  switch (field.kind) {
    case "group":
      return Object.fromEntries(field.fields.map((one) => [one.name, initial(one)]));
    case "list":
      return Array.from({ length: field.required ? field.itemsMin : 0 }, () => entry(initial(field.item)));
    case "choice":
      return field.required && field.options.length === 1 ? "0" : "";
    default:
      return "";
  }
}

export function entry(draft: Draft): Entry {
  keys += 1;
  return { key: keys, draft };
}

/** A value as it stands in the fields; null when the fields can not show it. */
export function draftOf(field: Field, value: Json | undefined): Draft | null {
  if (value === undefined) {
    return field.kind === "group"
      ? Object.fromEntries(field.fields.map((one) => [one.name, draftOf(one, undefined) ?? ""]))
      : field.kind === "list"
        ? []
        : "";
  }
  switch (field.kind) {
    case "text":
      // An empty field says that there is no value.
      return typeof value === "string" && value !== "" ? value : null;
    case "number":
      return typeof value === "number" ? String(value) : null;
    case "switch":
      return typeof value === "boolean" ? String(value) : null;
    case "choice": {
      const place = field.options.findIndex((option) => canonical(option) === canonical(value));
      return place < 0 ? null : String(place);
    }
    case "list": {
      const drafts = Array.isArray(value) ? value.map((one) => draftOf(field.item, one)) : [null];
      return drafts.some((one) => one === null) ? null : drafts.map((one) => entry(one as Draft));
    }
    case "group":
      return groupDraft(field, value);
    case "json":
      return JSON.stringify(value, null, 2);
  }
}

function groupDraft(field: GroupField, value: Json): Draft | null {
  if (!isObject(value) || Object.keys(value).some((name) => !field.fields.some((one) => one.name === name))) {
    return null;
  }
  const drafts = field.fields.map((one): [string, Draft | null] => [one.name, draftOf(one, value[one.name])]);
  return drafts.some(([, draft]) => draft === null) ? null : (Object.fromEntries(drafts) as { [name: string]: Draft });
}

/** The JSON of what stands in the fields (undefined: nothing), and what is plainly wrong with it. */
export function jsonOf(field: Field, draft: Draft, path = ""): { value: Json | undefined; wrong: Wrong[] } {
  if (field.kind === "group") {
    return groupValue(field, draft as { [name: string]: Draft }, path);
  }
  if (field.kind === "list") {
    return listValue(field, draft as Entry[], path);
  }
  const typed = String(draft);
  if (typed.trim() === "") {
    return { value: undefined, wrong: field.required ? [{ path, message: "is required" }] : [] };
  }
  const [value, message] = leafValue(field, typed);
  return { value, wrong: message === null ? [] : [{ path, message }] };
}

function groupValue(field: GroupField, draft: { [name: string]: Draft }, path: string) {
  const value: { [name: string]: Json } = {};
  const wrong: Wrong[] = [];
  for (const one of field.fields) {
    const made = jsonOf(one, draft[one.name] ?? "", path ? `${path}.${one.name}` : one.name);
    if (made.value !== undefined) {
      value[one.name] = made.value;
    }
    wrong.push(...made.wrong);
  }
  // An optional group that nobody touched is left out, and lacks nothing.
  const isLeftOut = !field.required && Object.keys(value).length === 0;
  return isLeftOut ? { value: undefined, wrong: wrong.filter(isTyped) } : { value, wrong };
}

function isTyped(wrong: Wrong): boolean {
  return wrong.message !== "is required";
}

function listValue(field: ListField, draft: Entry[], path: string) {
  const made = draft.map((one, place) => jsonOf(field.item, one.draft, `${path}[${place}]`));
  const wrong = made.flatMap((one) => one.wrong);
  if (draft.length === 0 && !field.required) {
    return { value: undefined, wrong };
  }
  if (draft.length < field.itemsMin) {
    wrong.push({ path, message: `needs at least ${field.itemsMin} entries` });
  } else if (field.itemsMax !== null && draft.length > field.itemsMax) {
    wrong.push({ path, message: `has more than ${field.itemsMax} entries` });
  }
  return { value: made.map((one) => one.value ?? null), wrong };
}

function leafValue(field: Exclude<Field, GroupField | ListField>, typed: string): [Json | undefined, string | null] {
  switch (field.kind) {
    case "text":
      return [typed, wrongText(field, typed)];
    case "number": {
      const number = Number(typed);
      return [number, Number.isFinite(number) ? wrongNumber(field, number) : "is not a number"];
    }
    case "switch":
      return [typed === "true", null];
    case "choice":
      return [field.options[Number(typed)], null];
    case "json":
      try {
        return [JSON.parse(typed) as Json, null];
      } catch (error) {
        return [undefined, `is not JSON: ${(error as Error).message}`];
      }
  }
}

function wrongText(field: TextField, typed: string): string | null {
  const length = [...typed].length;
  if (field.lengthMin !== null && length < field.lengthMin) {
    return `has fewer than ${field.lengthMin} characters`;
  }
  if (field.lengthMax !== null && length > field.lengthMax) {
    return `has more than ${field.lengthMax} characters`;
  }
  const pattern = field.pattern === null ? null : patternOf(field.pattern);
  return pattern?.test(typed) === false ? `does not match ${field.pattern}` : null;
}

function wrongNumber(field: NumberField, number: number): string | null {
  if (field.isInteger && !Number.isInteger(number)) {
    return "is not a whole number";
  }
  if (field.minimum !== null && number < field.minimum) {
    return `is less than ${field.minimum}`;
  }
  if (field.maximum !== null && number > field.maximum) {
    return `is more than ${field.maximum}`;
  }
  if (field.above !== null && number <= field.above) {
    return `must be more than ${field.above}`;
  }
  return field.below !== null && number >= field.below ? `must be less than ${field.below}` : null;
}

/** The server's problems by the path of the field that they are about. */
export function byField(problems: readonly Wrong[]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const { path, message } of problems) {
    // What is missing is told of the object that should have it.
    const missing = /^"(.+)" is a required property$/.exec(message)?.[1];
    const place = missing === undefined ? path : path ? `${path}.${missing}` : missing;
    found.set(place, [...(found.get(place) ?? []), missing === undefined ? message : "is required"]);
  }
  return found;
}

/** What a field takes, in a few words. */
export function boundsInWords(field: Field): string | null {
  if (field.kind === "number") {
    const least =
      field.minimum === null ? (field.above === null ? null : `more than ${field.above}`) : `${field.minimum}`;
    const most =
      field.maximum === null ? (field.below === null ? null : `less than ${field.below}`) : `${field.maximum}`;
    const kind = field.isInteger ? "whole number" : "number";
    return least && most
      ? `${kind}, ${least} to ${most}`
      : least
        ? `${kind}, from ${least}`
        : most
          ? `${kind}, up to ${most}`
          : kind;
  }
  if (field.kind === "text") {
    const told = [
      field.format,
      field.lengthMin === null ? null : `at least ${field.lengthMin} characters`,
      field.lengthMax === null ? null : `at most ${field.lengthMax} characters`,
      field.pattern === null ? null : `matches ${field.pattern}`,
    ].filter((one) => one !== null);
    return told.length > 0 ? told.join(", ") : null;
  }
  return field.kind === "json" ? "JSON" : null;
}

/** A pattern that this browser reads otherwise than the server is left to the server. */
function patternOf(pattern: string): RegExp | null {
  try {
    return new RegExp(pattern, "u");
  } catch {
    return null;
  }
}

function canonical(value: Json): string {
  return JSON.stringify(value, (_, one: Json) =>
    isObject(one) ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one,
  );
}
