import { describe, expect, it } from "vitest";
import type { JobStatus } from "../../api/types";
import { chooseFeaturedJob } from "./featured_job";

const job = (job_id: string, status: JobStatus, workflow_id = "hello") => ({ job_id, status, workflow_id });

describe("chooseFeaturedJob", () => {
  it("chooses a running job", () => {
    expect(chooseFeaturedJob(null, [job("c", "completed"), job("b", "running"), job("a", "completed")])).toBe("b");
  });

  it("chooses the newest job if none runs", () => {
    expect(chooseFeaturedJob(null, [job("b", "completed"), job("a", "failed")])).toBe("b");
    expect(chooseFeaturedJob(null, [])).toBeNull();
  });

  it("does not choose a job that delivers a webhook", () => {
    const webhook = job("b", "running", "windlass.webhook");

    expect(chooseFeaturedJob(null, [webhook, job("a", "completed")])).toBe("a");
    expect(chooseFeaturedJob(null, [webhook])).toBeNull();
  });

  it("keeps a running job when others start", () => {
    expect(chooseFeaturedJob("a", [job("b", "running"), job("a", "running")])).toBe("a");
  });

  it("keeps an ended job until another runs", () => {
    expect(chooseFeaturedJob("a", [job("b", "completed"), job("a", "completed")])).toBe("a");
    expect(chooseFeaturedJob("a", [job("c", "running"), job("a", "completed")])).toBe("c");
  });
});
