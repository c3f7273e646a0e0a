// Run until: the next or the last moment of a kind.

import { END } from "./time.js";

// The moment after the nearest tick of the time bar; undefined if there is none.
export function nextTick(run, from, direction) {
  const here = run.place(from);
  const ticks = run.overview.ticks.map(([step, event]) => ({ step, event }));
  if (direction > 0) return ticks.find((tick) => run.place(tick) > here);
  return ticks.findLast((tick) => run.place(tick) < here);
}

// Which events are of a kind: (step, number) -> whether this one is. watched: {page} or {sequence}.
export function conditionOf(run, kind, watched) {
  const { page, sequence } = watched ?? {};
  const event = (step, number) => run.event(step, number);
  if (kind === "page") return (step, number) => event(step, number).touched[0].includes(page);
  if (kind === "sequence") return (step, number) => event(step, number).touched[1].includes(sequence);
  if (kind === "generation") {
    return (step, number) => {
      const { kind: name, touched } = event(step, number);
      return name === "PageAllocated" && touched[0].includes(page);
    };
  }
  const kinds = run.overview.until[kind];
  return (step, number) => kinds.includes(event(step, number).kind);
}

// What it is called when there is none.
export function wordOf(kind) {
  if (kind === "generation") return "use";
  return kind === "page" || kind === "sequence" ? "change" : kind;
}

// The moment right after the nearest event for which `holds(step, number)`, strictly after `from`
// (direction 1) or before it (-1). `need(chunk number)` resolves when a chunk is there.
export async function findEvent(run, from, direction, holds, need) {
  const open = { step: from.step, event: from.event === END ? run.numEvents(from.step) + 1 : from.event };
  for (let step = open.step; step >= 0 && step < run.numSteps; step += direction) {
    if (run.chunkOf(step) === undefined) await need(run.chunkNumber(step));
    const count = run.numEvents(step);
    const isOpen = step === open.step;
    if (direction > 0) {
      for (let n = isOpen ? open.event + 1 : 1; n <= count; n++) {
        if (holds(step, n)) return { step, event: n };
      }
    } else {
      for (let n = isOpen ? Math.min(open.event - 1, count) : count; n >= 1; n--) {
        if (holds(step, n)) return { step, event: n };
      }
    }
  }
  return undefined;
}
