import { expect, test } from "vitest";
import { Batched } from "./frame_notifier";

function framed() {
  const frames: (() => void)[] = [];
  const batched = new Batched((draw) => frames.push(draw));
  return { batched, frames, draw: () => frames.splice(0).forEach((frame) => void frame()) };
}

test("a thousand changes within a frame are told once", () => {
  const { batched, frames, draw } = framed();
  let heard = 0;
  batched.subscribe(() => heard++);
  for (let change = 0; change < 1000; change++) {
    batched.changed();
  }
  expect(frames).toHaveLength(1);
  expect(heard).toBe(0);
  draw();
  expect(heard).toBe(1);
  expect(batched.version()).toBe(1);
});

test("a change after the frame is told with the next one", () => {
  const { batched, draw } = framed();
  batched.changed();
  draw();
  batched.changed();
  draw();
  expect(batched.version()).toBe(2);
});

test("the version stays the same until the frame, so that React does not draw in between", () => {
  const { batched } = framed();
  batched.changed();
  expect(batched.version()).toBe(0);
});

test("who has gone hears nothing", () => {
  const { batched, draw } = framed();
  let heard = 0;
  const leave = batched.subscribe(() => heard++);
  leave();
  batched.changed();
  draw();
  expect(heard).toBe(0);
});
