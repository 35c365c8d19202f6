// A JSON object as somebody writes it: the input of a job.

import type { Json } from "../api/types";

/** A JSON object from text; what is wrong with it otherwise. */
export function objectOf(text: string): { value: { [key: string]: Json } } | { problem: string } {
  try {
    const value = JSON.parse(text.trim() || "{}") as Json;
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      return { value };
    }
    return { problem: "An input is a JSON object, as in {}." };
  } catch (error) {
    return { problem: `This is not JSON: ${(error as Error).message}` };
  }
}
