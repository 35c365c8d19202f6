import { describe, expect, it } from "vitest";
import type { JobStatus } from "../../api/types";
import { watchedOf } from "./featured_job";

const job = (job_id: string, status: JobStatus) => ({ job_id, status });

describe("the job that is watched", () => {
  it("is one that runs", () => {
    expect(watchedOf(null, [job("c", "completed"), job("b", "running"), job("a", "completed")])).toBe("b");
  });

  it("is the newest when none runs", () => {
    expect(watchedOf(null, [job("b", "completed"), job("a", "failed")])).toBe("b");
    expect(watchedOf(null, [])).toBeNull();
  });

  it("stays the same while it runs, whatever begins beside it", () => {
    expect(watchedOf("a", [job("b", "running"), job("a", "running")])).toBe("a");
  });

  it("stays until another runs, so that its end is seen", () => {
    expect(watchedOf("a", [job("b", "completed"), job("a", "completed")])).toBe("a");
    expect(watchedOf("a", [job("c", "running"), job("a", "completed")])).toBe("c");
  });
});
