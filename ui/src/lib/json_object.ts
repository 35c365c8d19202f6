// Parses JSON typed by a user.

import type { Json } from "../api/types";

/** Parse a JSON object, or return what is wrong with the text. */
export function parseJsonObject(text: string): { value: { [key: string]: Json } } | { error: string } {
  try {
    const value = JSON.parse(text.trim() || "{}") as Json;
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      return { value };
    }
    return { error: "Input must be a JSON object, such as {}." };
  } catch (error) {
    return { error: `Invalid JSON: ${(error as Error).message}` };
  }
}
