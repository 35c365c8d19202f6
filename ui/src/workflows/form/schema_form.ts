// A JSON Schema as the fields of a form.

import type { Json } from "../../api/types";

type Schema = { [key: string]: Json };

interface Common {
  name: string;
  title: string;
  description: string | null;
  required: boolean;
  /** undefined: there is none. */
  preset: Json | undefined;
}

export interface TextField extends Common {
  kind: "text";
  lengthMin: number | null;
  lengthMax: number | null;
  pattern: string | null;
  format: string | null;
}

export interface NumberField extends Common {
  kind: "number";
  isInteger: boolean;
  minimum: number | null;
  maximum: number | null;
  above: number | null;
  below: number | null;
}

export interface SwitchField extends Common {
  kind: "switch";
}

export interface ChoiceField extends Common {
  kind: "choice";
  options: Json[];
}

export interface ListField extends Common {
  kind: "list";
  item: Field;
  itemsMin: number;
  itemsMax: number | null;
}

export interface GroupField extends Common {
  kind: "group";
  fields: Field[];
}

/** Whatever has no field of its own is typed as JSON. */
export interface JsonField extends Common {
  kind: "json";
}

export type Field = TextField | NumberField | SwitchField | ChoiceField | ListField | GroupField | JsonField;

const DEPTH_MAX = 6;

/** The form of a schema; null when there is nothing to make fields of. */
export function formOf(schema: Schema | undefined): GroupField | null {
  if (schema === undefined) {
    return null;
  }
  const field = fieldOf(schema, "", true, schema, 0);
  return field.kind === "group" && field.fields.length > 0 ? field : null;
}

function fieldOf(given: Json | undefined, name: string, required: boolean, root: Schema, depth: number): Field {
  const schema = resolved(given, root);
  const common: Common = {
    name,
    title: textOf(schema.title) ?? name,
    description: textOf(schema.description),
    required,
    preset: schema.default,
  };
  if (Array.isArray(schema.enum)) {
    return { ...common, kind: "choice", options: schema.enum };
  }
  if (schema.const !== undefined) {
    return { ...common, kind: "choice", options: [schema.const] };
  }
  const type = typeOf(schema);
  if (depth > DEPTH_MAX || type === null || BRANCHES.some((key) => key in schema)) {
    return { ...common, kind: "json" };
  }
  switch (type) {
    case "string":
      return { ...common, kind: "text", ...textBounds(schema) };
    case "integer":
    case "number":
      return { ...common, kind: "number", isInteger: type === "integer", ...numberBounds(schema) };
    case "boolean":
      return { ...common, kind: "switch" };
    case "array":
      return listOf(schema, common, root, depth);
    case "object":
      return groupOf(schema, common, root, depth);
    default:
      return { ...common, kind: "json" };
  }
}

const BRANCHES = ["anyOf", "oneOf", "allOf", "not", "if"];

function listOf(schema: Schema, common: Common, root: Schema, depth: number): Field {
  if (!isObject(schema.items)) {
    return { ...common, kind: "json" };
  }
  return {
    ...common,
    kind: "list",
    item: fieldOf(schema.items, "", true, root, depth + 1),
    itemsMin: numberOf(schema.minItems) ?? 0,
    itemsMax: numberOf(schema.maxItems),
  };
}

function groupOf(schema: Schema, common: Common, root: Schema, depth: number): Field {
  const properties = isObject(schema.properties) ? Object.entries(schema.properties) : [];
  if (properties.length === 0) {
    return { ...common, kind: "json" };
  }
  const needed = Array.isArray(schema.required) ? schema.required : [];
  const fields = properties.map(([name, one]) => fieldOf(one, name, needed.includes(name), root, depth + 1));
  return { ...common, kind: "group", fields: [...fields.filter(isNeeded), ...fields.filter((one) => !isNeeded(one))] };
}

function isNeeded(field: Field): boolean {
  return field.required;
}

function resolved(given: Json | undefined, root: Schema): Schema {
  let schema: Json | undefined = given;
  for (let step = 0; step < DEPTH_MAX && isObject(schema) && typeof schema.$ref === "string"; step++) {
    const target: Json | undefined = pointed(root, schema.$ref);
    if (target === undefined) {
      return {};
    }
    const { $ref: _, ...beside } = schema;
    schema = isObject(target) ? { ...target, ...beside } : target;
  }
  return isObject(schema) && typeof schema.$ref !== "string" ? schema : {};
}

function pointed(root: Schema, reference: string): Json | undefined {
  if (!reference.startsWith("#/")) {
    return undefined;
  }
  let place: Json | undefined = root;
  for (const part of reference.slice(2).split("/")) {
    place = isObject(place) ? place[part.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined;
  }
  return place;
}

function typeOf(schema: Schema): string | null {
  const types = Array.isArray(schema.type) ? schema.type.filter((one) => one !== "null") : [schema.type];
  if (types.length === 1 && typeof types[0] === "string") {
    return types[0];
  }
  return schema.type === undefined && isObject(schema.properties) ? "object" : null;
}

function textBounds(schema: Schema) {
  return {
    lengthMin: numberOf(schema.minLength),
    lengthMax: numberOf(schema.maxLength),
    pattern: textOf(schema.pattern),
    format: textOf(schema.format),
  };
}

function numberBounds(schema: Schema) {
  return {
    minimum: numberOf(schema.minimum),
    maximum: numberOf(schema.maximum),
    above: numberOf(schema.exclusiveMinimum),
    below: numberOf(schema.exclusiveMaximum),
  };
}

export function isObject(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function textOf(value: Json | undefined): string | null {
  return typeof value === "string" ? value : null;
}

function numberOf(value: Json | undefined): number | null {
  return typeof value === "number" ? value : null;
}
