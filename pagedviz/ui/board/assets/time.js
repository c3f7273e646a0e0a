// The play-head: which moment is shown, and which moment each command leads to.
//
// A moment is {step, event}: the state after `event` events of `step`; event 0 is its start and null
// its end. The same rules as pagedviz/ui/stepping.py: by token the ends of the steps, by event
// each event, and one press never stands still.

export const same = (one, other) => one.step === other.step && one.event === other.event;

export const END = null;

export function first(byEvent) {
  return { step: 0, event: byEvent ? 0 : END };
}

export function last(run) {
  return { step: run.numSteps - 1, event: END };
}

export function forward(run, { step, event }, byEvent) {
  if (!byEvent) return step + 1 < run.numSteps ? { step: step + 1, event: END } : undefined;
  if (event !== END && event < run.numEvents(step)) return { step, event: event + 1 };
  if (step + 1 >= run.numSteps) return undefined;
  // Before its first event a step looks like the end of the one before.
  return { step: step + 1, event: run.numEvents(step + 1) ? 1 : END };
}

export function back(run, { step, event }, byEvent) {
  if (!byEvent) return step > 0 ? { step: step - 1, event: END } : undefined;
  // What happened last is shown alone first.
  if (event === END && run.numEvents(step)) return { step, event: run.numEvents(step) };
  if (event !== END && event > 1) return { step, event: event - 1 };
  if (step === 0) return event ? { step: 0, event: 0 } : undefined;
  return { step: step - 1, event: run.numEvents(step - 1) || END };
}

export function clamped(run, { step, event }) {
  const there = Math.max(0, Math.min(step, run.numSteps - 1));
  if (there !== step || event === null || event === undefined) return { step: there, event: END };
  return event <= run.numEvents(there) ? { step, event } : { step, event: END };
}

// The slider: by token a place for each step, by event one for each moment of the run.
export function sliderPlace(run, moment, byEvent) {
  if (!byEvent) return moment.step;
  return run.place(moment) - moment.step - (moment.event === END ? 1 : 0);
}

export function sliderLast(run, byEvent) {
  return byEvent ? run.starts[run.numSteps] - run.numSteps : run.numSteps - 1;
}

export function sliderMoment(run, place, byEvent) {
  if (!byEvent) return { step: place, event: END };
  let low = 0;
  let high = run.numSteps - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (run.starts[middle] - middle < place) low = middle;
    else high = middle - 1;
  }
  const event = place - (run.starts[low] - low);
  return { step: low, event: run.numEvents(low) ? event : END };
}

// The first broken rule of a run stops whoever walks over it; undefined when it does not lie strictly
// after `from` and up to `to`.
export function halt(run, from, to) {
  const found = run.overview.ticks.find(([, , kind]) => kind === "violation");
  if (found === undefined || to === undefined) return undefined;
  const moment = { step: found[0], event: found[1] };
  const isBetween = run.place(from) < run.place(moment) && run.place(moment) <= run.place(to);
  return isBetween ? moment : undefined;
}

// ---- playing ------------------------------------------------------------------------------------

export class Player {
  // go(moment) shows it; stopped() is called when playing ended by itself.
  constructor(step, stopped) {
    this.step = step;
    this.stopped = stopped;
    this.perSecond = 4;
    this.timer = undefined;
  }

  get isPlaying() {
    return this.timer !== undefined;
  }

  start() {
    this.stop();
    this.due = performance.now();
    this.#later();
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  #later() {
    // Measured from when the last one was due, so that a late frame does not slow all others.
    this.due = Math.max(this.due + 1000 / this.perSecond, performance.now());
    this.timer = setTimeout(() => {
      if (this.step()) this.#later();
      else {
        this.stop();
        this.stopped();
      }
    }, this.due - performance.now());
  }
}
