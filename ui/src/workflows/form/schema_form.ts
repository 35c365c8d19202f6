// Converts a JSON Schema to the fields of a form.

import type { Json } from "../../api/types";

type Schema = { [key: string]: Json };

interface FieldBase {
  name: string;
  title: string;
  description: string | null;
  required: boolean;
  /** Undefined if the schema has none. */
  default: Json | undefined;
}

export interface TextField extends FieldBase {
  kind: "text";
  lengthMin: number | null;
  lengthMax: number | null;
  pattern: string | null;
  format: string | null;
}

export interface NumberField extends FieldBase {
  kind: "number";
  isInteger: boolean;
  minimum: number | null;
  maximum: number | null;
  above: number | null;
  below: number | null;
}

export interface SwitchField extends FieldBase {
  kind: "switch";
}

export interface ChoiceField extends FieldBase {
  kind: "choice";
  options: Json[];
}

export interface ListField extends FieldBase {
  kind: "list";
  item: Field;
  itemsMin: number;
  itemsMax: number | null;
}

export interface GroupField extends FieldBase {
  kind: "group";
  fields: Field[];
}

/** A field for any other type, edited as JSON. */
export interface JsonField extends FieldBase {
  kind: "json";
}

export type Field = TextField | NumberField | SwitchField | ChoiceField | ListField | GroupField | JsonField;

const DEPTH_MAX = 6;

/** The form of a schema; null if it has no properties. */
export function formFromSchema(schema: Schema | undefined): GroupField | null {
  if (schema === undefined) {
    return null;
  }
  const field = createField(schema, "", true, schema, 0);
  return field.kind === "group" && field.fields.length > 0 ? field : null;
}

function createField(source: Json | undefined, name: string, required: boolean, root: Schema, depth: number): Field {
  const schema = resolveReference(source, root);
  const common: FieldBase = {
    name,
    title: textOf(schema.title) ?? name,
    description: textOf(schema.description),
    required,
    default: schema.default,
  };
  if (Array.isArray(schema.enum)) {
    return { ...common, kind: "choice", options: schema.enum };
  }
  if (schema.const !== undefined) {
    return { ...common, kind: "choice", options: [schema.const] };
  }
  const type = typeOf(schema);
  if (depth > DEPTH_MAX || type === null || COMBINATORS.some((key) => key in schema)) {
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
      return createList(schema, common, root, depth);
    case "object":
      return createGroup(schema, common, root, depth);
    default:
      return { ...common, kind: "json" };
  }
}

const COMBINATORS = ["anyOf", "oneOf", "allOf", "not", "if"];

function createList(schema: Schema, common: FieldBase, root: Schema, depth: number): Field {
  if (!isObject(schema.items)) {
    return { ...common, kind: "json" };
  }
  return {
    ...common,
    kind: "list",
    item: createField(schema.items, "", true, root, depth + 1),
    itemsMin: numberOf(schema.minItems) ?? 0,
    itemsMax: numberOf(schema.maxItems),
  };
}

function createGroup(schema: Schema, common: FieldBase, root: Schema, depth: number): Field {
  const properties = isObject(schema.properties) ? Object.entries(schema.properties) : [];
  if (properties.length === 0) {
    return { ...common, kind: "json" };
  }
  const required = Array.isArray(schema.required) ? schema.required : [];
  const fields = properties.map(([name, property]) =>
    createField(property, name, required.includes(name), root, depth + 1),
  );
  return {
    ...common,
    kind: "group",
    fields: [...fields.filter(isRequired), ...fields.filter((field) => !isRequired(field))],
  };
}

function isRequired(field: Field): boolean {
  return field.required;
}

function resolveReference(source: Json | undefined, root: Schema): Schema {
  let schema: Json | undefined = source;
  for (let step = 0; step < DEPTH_MAX && isObject(schema) && typeof schema.$ref === "string"; step++) {
    const target: Json | undefined = followPointer(root, schema.$ref);
    if (target === undefined) {
      return {};
    }
    const { $ref: _, ...siblings } = schema;
    schema = isObject(target) ? { ...target, ...siblings } : target;
  }
  return isObject(schema) && typeof schema.$ref !== "string" ? schema : {};
}

function followPointer(root: Schema, reference: string): Json | undefined {
  if (!reference.startsWith("#/")) {
    return undefined;
  }
  let value: Json | undefined = root;
  for (const part of reference.slice(2).split("/")) {
    value = isObject(value) ? value[part.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined;
  }
  return value;
}

function typeOf(schema: Schema): string | null {
  const types = Array.isArray(schema.type) ? schema.type.filter((type) => type !== "null") : [schema.type];
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
