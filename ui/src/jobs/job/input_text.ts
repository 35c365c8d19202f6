// An input as somebody writes it: JSON, and an object.

import type { Json } from "../../api/shapes";

type Read = { input: { [key: string]: Json }; problem: null } | { input: null; problem: string };

export function inputOf(text: string): Read {
  if (text.trim() === "") {
    return { input: {}, problem: null };
  }
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    return { input: null, problem: `This is no JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    return { input: null, problem: "The input of a job is an object, as {…}." };
  }
  return { input: value, problem: null };
}
