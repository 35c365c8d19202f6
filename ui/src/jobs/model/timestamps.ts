// Instants of the API as milliseconds, with the microseconds that Date.parse drops.

let lastSecond = "";
let lastValue = 0;

/** Many instants of one job are of the same second: that part is parsed once. */
export function milliseconds(instant: string): number {
  const second = instant.slice(0, 19);
  if (second !== lastSecond) {
    lastValue = Date.parse(`${second}Z`);
    lastSecond = second;
  }
  return lastValue + Number(`0${instant.slice(19, -1)}`) * 1000;
}
