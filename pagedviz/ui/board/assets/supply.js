// What the board asks for: chunks of the run that it does not hold, and more of a run that grows.

const IDLE = 600; // ms without a move after which chunks are asked for ahead of need
const MORE_BEFORE_END = 64; // steps

export class Supply {
  // calls: want(chunk number), more(number of steps recorded by now). step: where the play-head is.
  constructor(run, calls, step, isPlaying) {
    this.run = run;
    this.calls = calls;
    this.step = step;
    this.isPlaying = isPlaying;
  }

  // The play-head has moved to a step, whose chunk may not be there.
  moved(step) {
    this.step = step;
    this.movedAt = performance.now();
    this.askBeforeEnd();
  }

  // Resolves when the chunk is there.
  need(number) {
    const there = this.run.arrival(number);
    if (!this.run.has(number)) this.calls.want(number);
    return there;
  }

  // Ask for what is not there yet, while nobody steps.
  askAhead() {
    clearTimeout(this.idleTimer);
    // Only the later one of two requests is answered, so what somebody waits for is asked for again.
    const awaited = this.run.awaited();
    if (awaited !== undefined) return this.calls.want(awaited);
    const number = this.run.missing(this.run.chunkNumber(this.step));
    if (number === undefined) return;
    const still = performance.now() - (this.movedAt ?? 0);
    if (still >= IDLE && !this.isPlaying()) this.calls.want(number);
    else this.idleTimer = setTimeout(() => this.askAhead(), IDLE);
  }

  // Whoever steps on without a rest soon needs the next chunk.
  askNext() {
    const next = this.run.chunkNumber(this.step) + 1;
    if (next >= this.run.numChunks || this.run.has(next) || this.asked === next) return;
    this.asked = next;
    this.calls.want(next);
  }

  // Ask for more of the run before its recorded end is reached.
  askBeforeEnd() {
    if (this.step + MORE_BEFORE_END >= this.run.numSteps) this.askMore();
  }

  askMore() {
    if (this.run.overview.is_complete || this.isAsking) return;
    this.isAsking = true;
    this.calls.more(this.run.numSteps);
  }

  // What was asked for has come.
  grown() {
    this.isAsking = false;
    this.askAhead();
    this.askBeforeEnd();
  }

  stop() {
    clearTimeout(this.idleTimer);
  }
}
