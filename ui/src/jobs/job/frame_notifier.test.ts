import { expect, test } from "vitest";
import { FrameNotifier } from "./frame_notifier";

function createNotifier() {
  const frames: (() => void)[] = [];
  const notifier = new FrameNotifier((callback) => frames.push(callback));
  return { notifier, frames, runFrames: () => frames.splice(0).forEach((frame) => void frame()) };
}

test("a thousand changes within a frame notify once", () => {
  const { notifier, frames, runFrames } = createNotifier();
  let notified = 0;
  notifier.subscribe(() => notified++);
  for (let change = 0; change < 1000; change++) {
    notifier.notify();
  }
  expect(frames).toHaveLength(1);
  expect(notified).toBe(0);
  runFrames();
  expect(notified).toBe(1);
  expect(notifier.version()).toBe(1);
});

test("a change after a frame notifies with the next one", () => {
  const { notifier, runFrames } = createNotifier();
  notifier.notify();
  runFrames();
  notifier.notify();
  runFrames();
  expect(notifier.version()).toBe(2);
});

test("the version does not change before the frame", () => {
  const { notifier } = createNotifier();
  notifier.notify();
  expect(notifier.version()).toBe(0);
});

test("an unsubscribed listener is not notified", () => {
  const { notifier, runFrames } = createNotifier();
  let notified = 0;
  const unsubscribe = notifier.subscribe(() => notified++);
  unsubscribe();
  notifier.notify();
  runFrames();
  expect(notified).toBe(0);
});
