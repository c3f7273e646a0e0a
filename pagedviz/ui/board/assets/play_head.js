// The play-head of a board: where commands take it, when it plays, and where it has to stop.
//
// It stands at `target` at once and shows it when its chunk is there; `shown` is what was shown last.
// Where it has rested for a while is told once. Presses beyond what is recorded by now are owed, and
// so is a run until that has come to the end of it; any other command takes its place.

import { Supply } from "./supply.js";
import * as time from "./time.js";
import { conditionOf, findEvent, nextTick, wordOf } from "./until.js";

const REST = 150; // ms without a move after which the play-head rests

export class PlayHead {
  // calls: of Supply. tell: show(moment), rested(moment), playing() when that began or ended,
  // say(text)
  constructor(run, moment, byEvent, calls, tell) {
    this.run = run;
    this.byEvent = byEvent;
    this.tell = tell;
    this.target = time.clamped(run, moment);
    this.rested = this.target; // where whoever mounted the board believes it to be
    this.owed = []; // whether each press was by event
    this.player = new time.Player(
      // At the end of what is recorded by now it waits for more.
      () => this.#playOn(),
      () => this.#stopped(),
    );
    this.supply = new Supply(run, calls, this.target.step, () => this.player.isPlaying);
  }

  // ---- what has come --------------------------------------------------------------------------

  arrived() {
    if (this.shown === undefined || !time.same(this.shown, this.target)) this.#move(this.target);
    this.supply.askAhead();
  }

  grown() {
    this.supply.grown();
    const presses = this.owed;
    this.owed = [];
    presses.forEach((byEvent) => this.#forward(byEvent));
    this.goOn?.();
  }

  // ---- commands -------------------------------------------------------------------------------

  // Told by whoever mounted the board, who need not be told again.
  obey(moment) {
    this.rested = time.clamped(this.run, moment);
    this.go(moment);
  }

  go(moment) {
    this.#pressed(time.clamped(this.run, moment));
  }

  back(byEvent) {
    this.#pressed(time.back(this.run, this.target, byEvent));
  }

  forward(byEvent) {
    this.#interrupt();
    this.#forward(byEvent);
  }

  playOrPause() {
    if (this.player.isPlaying) {
      this.player.stop();
      return this.#stopped();
    }
    this.#interrupt();
    if (time.forward(this.run, this.target, this.byEvent) === undefined) this.#move(time.first(this.byEvent));
    this.player.start();
    return this.tell.playing();
  }

  // kind, watched: as conditionOf takes them, or kind "tick".
  async until(direction, kind, watched) {
    this.#interrupt();
    this.owed = [];
    const { run } = this;
    const asked = (this.asked = {});
    const found =
      kind === "tick"
        ? nextTick(run, this.target, direction)
        : await findEvent(run, this.target, direction, conditionOf(run, kind, watched), (number) => this.supply.need(number));
    if (this.asked !== asked) return;
    const halt = direction > 0 ? time.halt(run, this.target, found ?? time.last(run)) : undefined;
    if (halt) this.#halt(halt);
    else if (found) this.go(found);
    else if (direction < 0) this.tell.say(`No ${wordOf(kind)} before this moment`);
    else if (run.overview.is_complete) this.tell.say(`No ${wordOf(kind)} after this moment`);
    else {
      this.goOn = () => this.until(direction, kind, watched);
      this.supply.askMore();
      this.tell.say(`No ${wordOf(kind)} after this moment so far: looking on as more is recorded`);
    }
  }

  stop() {
    this.player.stop();
    this.supply.stop();
    clearTimeout(this.restTimer);
  }

  // ---- moving ---------------------------------------------------------------------------------

  // False if there is nowhere to go.
  #move(moment) {
    if (moment === undefined) return false;
    this.target = moment;
    this.#rest();
    this.supply.moved(moment.step);
    if (this.run.chunkOf(moment.step) === undefined) {
      this.tell.say(`Loading step ${moment.step}`);
      this.supply.need(this.run.chunkNumber(moment.step));
      return true;
    }
    this.shown = moment;
    this.tell.show(moment);
    this.supply.askNext();
    this.supply.askAhead();
    this.tell.say("");
    return true;
  }

  // Of one command at a time.
  #interrupt() {
    this.player.stop();
    this.asked = this.goOn = undefined;
  }

  #pressed(moment) {
    this.#interrupt();
    this.owed = [];
    this.#move(moment);
  }

  // Beyond what is recorded by now a press is remembered.
  #forward(byEvent) {
    const moment = time.forward(this.run, this.target, byEvent);
    const halt = time.halt(this.run, this.target, moment);
    if (halt) return this.#halt(halt);
    if (moment !== undefined) return this.#move(moment);
    if (this.run.overview.is_complete) return false;
    this.owed.push(byEvent);
    this.tell.say(`Step ${this.run.numSteps} is being recorded`);
    return this.supply.askMore();
  }

  #playOn() {
    const moment = time.forward(this.run, this.target, this.byEvent);
    const halt = time.halt(this.run, this.target, moment);
    if (halt === undefined) return this.#move(moment) || !this.run.overview.is_complete;
    this.#halt(halt);
    return false;
  }

  #halt(moment) {
    this.owed = [];
    this.#move(moment);
    this.tell.say("Stopped: a rule is broken here; what led to it stands below");
    return true;
  }

  #rest() {
    clearTimeout(this.restTimer);
    this.restTimer = setTimeout(() => {
      if (this.player.isPlaying) return this.#rest();
      if (this.shown === undefined || !time.same(this.shown, this.target)) return undefined;
      if (time.same(this.shown, this.rested)) return undefined;
      this.rested = this.shown;
      return this.tell.rested(this.shown);
    }, REST);
  }

  #stopped() {
    this.#rest();
    this.tell.playing();
  }
}
