import { expect, test } from "vitest";
import { describeCron, describeInterval, describeSchedule } from "./describe_schedule";

test.each([
  ["30 2 * * *", "every day at 02:30"],
  ["0 9,17 * * *", "every day at 09:00 and 17:00"],
  ["* * * * *", "every minute"],
  ["*/15 * * * *", "every 15 minutes"],
  ["0 * * * *", "every hour"],
  ["5 * * * *", "every hour at :05"],
  ["0 */2 * * *", "every 2 hours"],
  ["*/10 * * * * *", "every 10 seconds"],
  ["0 9 * * 1-5", "Monday to Friday at 09:00"],
  ["0 9 * * MON,WED", "every Monday and Wednesday at 09:00"],
  ["0 9-17 * * 1-5", "every hour from 09:00 to 17:00, Monday to Friday"],
  ["*/5 9-17 * * 1-5", "every 5 minutes from 09:00 to 17:59, Monday to Friday"],
  ["0 0 1 * *", "on the 1st of every month at 00:00"],
  ["0 0 1,15 * *", "on the 1st and 15th of every month at 00:00"],
  ["0 6 L * *", "on the last day of every month at 06:00"],
  ["0 6 * * 5L", "on the last Friday of every month at 06:00"],
  ["0 6 * * MON#2", "on the 2nd Monday of every month at 06:00"],
  ["0 0 25 DEC *", "every year on 25 December at 00:00"],
  ["@daily", "every day at 00:00"],
  ["@weekly", "every Sunday at 00:00"],
  ["0 9 * * 7", "every Sunday at 09:00"],
])("%s is %s", (cron, words) => {
  expect(describeCron(cron)).toBe(words);
});

test.each(["*/7 * * * *", "10-40/5 * * * *", "0 0 13 * 5", "5,10 3 * * *", "0 0 1 1,7 *", "nonsense"])(
  "%s has no description",
  (cron) => {
    expect(describeCron(cron)).toBeNull();
  },
);

test.each([
  [10, "every 10 seconds"],
  [60, "every minute"],
  [5400, "every 90 minutes"],
  [86_400, "every day"],
])("%i seconds are %s", (seconds, words) => {
  expect(describeInterval(seconds)).toBe(words);
});

test("a cron expression is described with its time zone, or returned as it is", () => {
  const times = { every_seconds: null, at: null, timezone: "Europe/Paris" };
  expect(describeSchedule({ ...times, cron: "0 2 * * *" })).toBe("Every day at 02:00 Europe/Paris");
  expect(describeSchedule({ ...times, cron: "*/7 * * * *" })).toBe("*/7 * * * * Europe/Paris");
});

test("an interval of minutes needs no time zone", () => {
  const schedule = { cron: "*/15 * * * *", every_seconds: null, at: null, timezone: "Europe/Paris" };
  expect(describeSchedule(schedule)).toBe("Every 15 minutes");
});

test("a single time is shown in UTC", () => {
  const schedule = { cron: null, every_seconds: null, at: "2030-01-31T08:00:00.000000Z", timezone: "UTC" };
  expect(describeSchedule(schedule)).toBe("Once, 2030-01-31 08:00 UTC");
});
