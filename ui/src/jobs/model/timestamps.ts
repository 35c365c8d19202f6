// Parses timestamps of the API with their microseconds, which Date.parse drops.

let lastSecond = "";
let lastValue = 0;

/** Many timestamps of a job are in the same second, so that part is cached. */
export function toMilliseconds(timestamp: string): number {
  const second = timestamp.slice(0, 19);
  if (second !== lastSecond) {
    lastValue = Date.parse(`${second}Z`);
    lastSecond = second;
  }
  return lastValue + Number(`0${timestamp.slice(19, -1)}`) * 1000;
}
