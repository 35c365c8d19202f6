import { expect, test } from "vitest";
import type { Json } from "../../api/types";
import {
  createEntry,
  describeBounds,
  type FormValue,
  groupByField,
  initialValue,
  toFormValue,
  toJson,
} from "./form_values";
import { type Field, formFromSchema, type GroupField } from "./schema_form";

const ORDER = {
  type: "object",
  required: ["customer", "quantity"],
  properties: {
    express: { type: "boolean", default: false },
    customer: { type: "string", minLength: 2, pattern: "^[A-Z]", description: "Who ordered" },
    quantity: { type: "integer", minimum: 1, maximum: 10, default: 3 },
    size: { enum: ["small", "large"], default: "large" },
    tags: { type: "array", items: { type: "string" }, maxItems: 2 },
    address: {
      type: "object",
      required: ["city"],
      properties: { city: { type: "string" }, lines: { type: "array", items: { $ref: "#/$defs/line" } } },
    },
    anything: {},
  },
  $defs: { line: { type: "object", required: ["sku"], properties: { sku: { type: "string" } } } },
};

function form(schema: { [key: string]: Json } = ORDER): GroupField {
  const result = formFromSchema(schema);
  if (result === null) {
    throw new Error("the schema has no form");
  }
  return result;
}

function field(name: string): Field {
  const found = form().fields.find((field) => field.name === name);
  if (found === undefined) {
    throw new Error(`field not found: ${name}`);
  }
  return found;
}

function filled(changes: { [name: string]: FormValue }): ReturnType<typeof toJson> {
  return toJson(form(), { ...(initialValue(form()) as { [name: string]: FormValue }), ...changes });
}

test("every kind of schema has a field, required fields first", () => {
  expect(form().fields.map(({ name, kind, required }) => `${name} ${kind}${required ? "!" : ""}`)).toEqual([
    "customer text!",
    "quantity number!",
    "express switch",
    "size choice",
    "tags list",
    "address group",
    "anything json",
  ]);
});

test("a schema without properties has no form", () => {
  expect(formFromSchema(undefined)).toBeNull();
  expect(formFromSchema({ type: "object" })).toBeNull();
});

test("a new form has the defaults and omits empty fields", () => {
  expect(filled({ customer: "Ada" })).toEqual({
    value: { customer: "Ada", quantity: 3, express: false, size: "large" },
    errors: [],
  });
});

test("a missing required field is an error", () => {
  expect(filled({}).errors).toEqual([{ path: "customer", message: "is required" }]);
});

test("a partly filled optional group has missing fields", () => {
  const line = createEntry({ sku: "" });
  expect(filled({ customer: "Ada", address: { city: "", lines: [line] } }).errors).toEqual([
    { path: "address.city", message: "is required" },
    { path: "address.lines[0].sku", message: "is required" },
  ]);
});

test("lists and nested objects are converted", () => {
  const address = { city: "Paris", lines: [createEntry({ sku: "x1" }), createEntry({ sku: "x2" })] };
  const { value } = filled({
    customer: "Ada",
    tags: [createEntry("a"), createEntry("b")],
    address,
    anything: "[1, null]",
  });
  expect(value).toMatchObject({
    tags: ["a", "b"],
    address: { city: "Paris", lines: [{ sku: "x1" }, { sku: "x2" }] },
    anything: [1, null],
  });
});

test.each([
  ["quantity", "0", "must be at least 1"],
  ["quantity", "11", "must be at most 10"],
  ["quantity", "2.5", "must be an integer"],
  ["quantity", "many", "must be a number"],
  ["customer", "A", "must have at least 2 characters"],
  ["customer", "ada", "must match ^[A-Z]"],
])("%s %s %s", (name, text, message) => {
  expect(filled({ customer: "Ada", [name]: text }).errors).toEqual([{ path: name, message }]);
});

test("exclusive bounds are invalid values", () => {
  const schema = form({ properties: { price: { type: "number", exclusiveMinimum: 0 } } });
  expect(toJson(schema, { price: "0" }).errors).toEqual([{ path: "price", message: "must be more than 0" }]);
  expect(toJson(schema, { price: "0.01" }).errors).toEqual([]);
});

test("too many entries and invalid JSON are errors", () => {
  const errors = filled({
    customer: "Ada",
    tags: [createEntry("a"), createEntry("b"), createEntry("c")],
    anything: "{",
  }).errors;
  expect(errors[0]).toEqual({ path: "tags", message: "must have at most 2 entries" });
  expect(errors[1]?.message).toMatch(/^invalid JSON/);
});

test("a value is the same after a round trip", () => {
  const value = { customer: "Ada", quantity: 1, tags: ["x"], address: { city: "Rome", lines: [{ sku: "1" }] } };
  const formValue = toFormValue(form(), value);
  expect(formValue && toJson(form(), formValue).value).toEqual(value);
});

test("a value that does not match the fields is rejected", () => {
  expect(toFormValue(form(), { customer: "Ada", other: 1 })).toBeNull();
  expect(toFormValue(form(), { customer: 7 })).toBeNull();
  expect(toFormValue(form(), { size: "huge" })).toBeNull();
});

test("a nullable type has the field of the other type", () => {
  expect(form({ properties: { name: { type: ["string", "null"] } } }).fields[0]?.kind).toBe("text");
});

test("a recursive schema ends in a JSON field", () => {
  const schema = {
    properties: { child: { $ref: "#/$defs/tree" } },
    $defs: { tree: { type: "object", properties: { child: { $ref: "#/$defs/tree" } } } },
  };
  expect(JSON.stringify(form(schema))).toContain('"kind":"json"');
});

test("alternatives have a JSON field", () => {
  expect(form({ properties: { one: { oneOf: [{ type: "string" }, { type: "number" }] } } }).fields[0]?.kind).toBe(
    "json",
  );
});

test("errors of the server are grouped by field", () => {
  const grouped = groupByField([
    { path: "", message: '"customer" is a required property' },
    { path: "address.lines[0]", message: '"sku" is a required property' },
    { path: "quantity", message: "3000 is greater than the maximum of 400" },
  ]);
  expect(Object.fromEntries(grouped)).toEqual({
    customer: ["is required"],
    "address.lines[0].sku": ["is required"],
    quantity: ["3000 is greater than the maximum of 400"],
  });
});

test("bounds are described", () => {
  expect(describeBounds(field("quantity"))).toBe("integer, 1 to 10");
  expect(describeBounds(field("customer"))).toBe("at least 2 characters, matches ^[A-Z]");
});
