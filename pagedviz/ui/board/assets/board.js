// The board: one moment of a recorded run and the ways to another, all in the browser.
//
//   time bar        buttons, slider with marks
//   sentence        what the event just past did, and why
//   sequences       page pool
//   states          occupancy          events of the step
//
// Moving assigns at once and draws with the next frame; what is drawn is published as attributes of
// the root after that frame was painted. data-step, data-event ("end" or a number), data-state-hash.

import { modeOf, setColours } from "./colours.js";
import { count, decorated, h, setAttribute, setText } from "./dom.js";
import { EventList } from "./draw_events.js";
import { PoolCells } from "./draw_pool.js";
import { PoolCanvas } from "./draw_pool_canvas.js";
import { SequenceList } from "./draw_sequences.js";
import { coloursOf, LaneStrip, PoolStrip } from "./draw_strips.js";
import { TimeBar } from "./draw_timebar.js";
import { drawQueues, freeQueue, legend } from "./draw_queues.js";
import { listen } from "./keys.js";
import { Lighting } from "./lighting.js";
import { focusOf } from "./now.js";
import { Bookmarks, KeySheet, Search, Table } from "./panels.js";
import { Run } from "./run.js";
import * as time from "./time.js";

const REST = 150; // ms without a move after which the play-head rests
const IDLE = 600; // ms without a move after which chunks are asked for ahead of need
const MORE_BEFORE_END = 64; // steps
const NO_CALLS = { rested() {}, want() {}, more() {}, bookmarked() {}, watched() {}, presented() {} };

// Draws into `parent`. `overview` is that of pagedviz/views/overview.py; chunks follow by `addChunk`,
// that of `moment` first. Returns the board; `destroy` takes it away again.
export function mount(parent, options) {
  return new Board(parent, options);
}

class Board {
  constructor(parent, options) {
    const { overview, moment, byEvent = false, hints = [], bookmarks = [], isPresenting = false, calls = {} } = options;
    this.run = new Run(overview);
    this.calls = { ...NO_CALLS, ...calls };
    this.byEvent = byEvent;
    this.bookmarks = bookmarks;
    this.target = time.clamped(this.run, moment);
    this.rested = this.target; // where whoever mounted the board believes it to be
    this.watched = undefined;
    this.owed = []; // presses beyond what is recorded by now: whether each was by event
    this.numHues = overview.themes.light.hues.length;
    this.player = new time.Player(
      // At the end of what is recorded by now it waits for more.
      () => this.#playOn(),
      () => this.#stopped(),
    );
    this.#build(parent, hints);
    this.#enlarge(isPresenting);
    this.recolour();
    this.#listen();
  }

  // ---- from outside ---------------------------------------------------------------------------

  addChunk(chunk) {
    this.run.add(chunk);
    setAttribute(this.root, "data-loaded", this.run.chunks.size);
    if (this.moment === undefined || !time.same(this.moment, this.target)) this.#move(this.target);
    this.#askAhead();
  }

  // More steps of the same run have been recorded.
  grow(overview) {
    this.run.grow(overview);
    this.lanes.overview = this.occupancy.overview = overview;
    this.isAsking = false;
    this.sequences.fit();
    this.timeBar.drawBookmarks(this.bookmarks, this.byEvent);
    this.#redrawStrips();
    this.#askAhead();
    this.#ask();
    const presses = this.owed;
    this.owed = [];
    presses.forEach((byEvent) => this.#forward(byEvent));
  }

  // Told by whoever mounted the board, who need not be told again.
  obey(moment) {
    this.rested = time.clamped(this.run, moment);
    this.go(moment);
  }

  go(moment) {
    this.player.stop();
    this.owed = [];
    this.#move(time.clamped(this.run, moment));
  }

  setBookmarks(bookmarks) {
    this.bookmarks = bookmarks;
    this.timeBar.drawBookmarks(bookmarks, this.byEvent);
    this.panels.bookmarks.show(bookmarks);
  }

  // The page may have changed between light and dark.
  recolour() {
    const mode = modeOf(this.root);
    if (this.root.dataset.theme === mode) return;
    setColours(this.root, this.run.overview.themes[mode]);
    this.colours = coloursOf(this.root, this.numHues);
    this.pool.recolour?.();
    this.#redrawStrips();
    this.#draw();
  }

  destroy() {
    this.player.stop();
    clearTimeout(this.restTimer);
    clearTimeout(this.idleTimer);
    cancelAnimationFrame(this.frame);
    this.observer.disconnect();
    this.stops.forEach((stop) => stop());
    this.root.remove();
  }

  // ---- moving ---------------------------------------------------------------------------------

  // False if there is nowhere to go.
  #move(moment) {
    if (moment === undefined) return false;
    this.target = moment;
    this.moved = performance.now();
    this.#rest();
    this.#ask();
    if (this.run.chunkOf(moment.step) === undefined) {
      setText(this.status, `Loading step ${moment.step}`);
      this.#need(this.run.chunkNumber(moment.step));
      return true;
    }
    const place = this.run.place(moment);
    const state = this.run.seek(this.state, this.place, place, moment.step);
    this.isWhole = this.isWhole || state !== this.state;
    this.state = state;
    this.place = place;
    this.moment = moment;
    this.#askNext();
    this.#askAhead();
    setText(this.status, "");
    this.#draw();
    return true;
  }

  #need(number) {
    const there = this.run.arrival(number);
    if (!this.run.has(number)) this.calls.want(number);
    return there;
  }

  // Ask for what is not there yet, while nobody steps.
  #askAhead() {
    clearTimeout(this.idleTimer);
    const number = this.run.missing(this.run.chunkNumber(this.target.step));
    if (number === undefined) return;
    const still = performance.now() - (this.moved ?? 0);
    if (still >= IDLE && !this.player.isPlaying) this.calls.want(number);
    else this.idleTimer = setTimeout(() => this.#askAhead(), IDLE);
  }

  // Whoever steps on without a rest soon needs the next chunk.
  #askNext() {
    const next = this.run.chunkNumber(this.target.step) + 1;
    if (next >= this.run.numChunks || this.run.has(next) || this.asked === next) return;
    this.asked = next;
    this.calls.want(next);
  }

  // Ask for more of the run before its recorded end is reached.
  #ask() {
    if (this.target.step + MORE_BEFORE_END >= this.run.numSteps) this.#askMore();
  }

  #askMore() {
    if (this.run.overview.is_complete || this.isAsking) return;
    this.isAsking = true;
    this.calls.more(this.run.numSteps);
  }

  #rest() {
    clearTimeout(this.restTimer);
    this.restTimer = setTimeout(() => {
      if (this.player.isPlaying) return this.#rest();
      if (this.moment === undefined || !time.same(this.moment, this.target)) return undefined;
      if (time.same(this.moment, this.rested)) return undefined;
      this.rested = this.moment;
      setText(this.spoken, this.run.sentence(this.moment));
      if (this.panels.table.isOpen) this.#showTable();
      return this.calls.rested(this.moment, this.byEvent);
    }, REST);
  }

  #stopped() {
    this.#rest();
    this.#draw();
  }

  #play() {
    if (this.player.isPlaying) {
      this.player.stop();
      return this.#stopped();
    }
    if (time.forward(this.run, this.target, this.byEvent) === undefined) this.#move(time.first(this.byEvent));
    this.player.start();
    return this.#draw();
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
    setText(this.status, "Stopped: a rule is broken here; what led to it stands below");
    return true;
  }

  #chooseUnit(byEvent) {
    this.byEvent = byEvent;
    this.timeBar.drawTicks(this.colours, byEvent);
    this.timeBar.drawBookmarks(this.bookmarks, byEvent);
    this.go(byEvent ? this.target : { step: this.target.step, event: null });
  }

  async #until(direction) {
    this.player.stop();
    const kind = this.timeBar.until.value;
    const asked = (this.until = {});
    const found =
      kind === "tick"
        ? this.#nextTick(direction)
        : await time.findEvent(this.run, this.target, direction, this.#condition(kind), (number) => this.#need(number));
    if (this.until !== asked) return;
    const halt = direction > 0 ? time.halt(this.run, this.target, found ?? time.last(this.run)) : undefined;
    if (halt) this.#halt(halt);
    else if (found) this.go(found);
    else {
      if (direction > 0) this.#askMore();
      const what = kind === "page" || kind === "sequence" ? "change" : kind === "generation" ? "use" : kind;
      setText(this.status, `No ${what} ${direction > 0 ? "after" : "before"} this moment${this.#soFar(direction)}`);
    }
  }

  #soFar(direction) {
    return direction < 0 || this.run.overview.is_complete ? "" : " so far: more is being recorded";
  }

  #nextTick(direction) {
    const here = this.run.place(this.target);
    const ticks = this.run.overview.ticks.map(([step, event]) => ({ step, event }));
    if (direction > 0) return ticks.find((tick) => this.run.place(tick) > here);
    return ticks.findLast((tick) => this.run.place(tick) < here);
  }

  #condition(kind) {
    const { page, sequence } = this.watched ?? {};
    const event = (step, number) => this.run.event(step, number);
    if (kind === "page") return (step, number) => event(step, number).touched[0].includes(page);
    if (kind === "sequence") return (step, number) => event(step, number).touched[1].includes(sequence);
    if (kind === "generation") {
      return (step, number) => {
        const { kind: name, touched } = event(step, number);
        return name === "PageAllocated" && touched[0].includes(page);
      };
    }
    const kinds = this.run.overview.until[kind];
    return (step, number) => kinds.includes(event(step, number).kind);
  }

  // Presenter: large type, and only what a lecture needs.
  #present() {
    this.#enlarge(!this.isPresenting);
    this.#redrawStrips();
    this.calls.presented(this.isPresenting);
  }

  #enlarge(isPresenting) {
    this.isPresenting = isPresenting;
    this.root.classList.toggle("presenter", isPresenting);
    this.pool.enlarge?.(isPresenting);
    setText(this.timeBar.presenter, isPresenting ? "Leave presenter" : "Aa");
    setAttribute(this.timeBar.presenter, "aria-label", isPresenting ? "Leave presenter" : "Presenter");
  }

  watch(thing) {
    const isSame = JSON.stringify(thing) === JSON.stringify(this.watched);
    this.watched = isSame ? undefined : thing;
    this.timeBar.setWatched(this.watched);
    if (this.watched) this.timeBar.choose(this.watched.page === undefined ? "sequence" : "page");
    this.lighting.refresh();
    this.calls.watched(this.watched ?? null);
  }

  // ---- drawing --------------------------------------------------------------------------------

  #build(parent, hints) {
    const { overview } = this.run;
    const act = {
      first: () => this.go(time.first(this.byEvent)),
      back: (byEvent = this.byEvent) => this.#pressed(time.back(this.run, this.target, byEvent)),
      forward: (byEvent = this.byEvent) => {
        this.player.stop();
        this.#forward(byEvent);
      },
      last: () => this.go(time.last(this.run)),
      play: () => this.#play(),
      speed: (perSecond) => (this.player.perSecond = perSecond),
      go: (moment) => this.go(moment),
      byEvent: (byEvent) => this.#chooseUnit(byEvent),
      until: (direction) => this.#until(direction),
      bookmark: () => this.panels.bookmarks.open(this.bookmarks, this.target),
      search: () => this.panels.search.open(),
      watch: (thing) => this.watch(thing),
      table: () => this.#showTable(),
      keys: () => this.panels.keys.open(),
      presenter: () => this.#present(),
      need: (number) => this.#need(number),
    };
    this.act = act;
    const keep = (bookmarks) => {
      this.setBookmarks(bookmarks);
      this.calls.bookmarked(bookmarks);
    };
    this.timeBar = new TimeBar(this.run, act);
    this.panels = {
      keys: new KeySheet(),
      search: new Search(this.run, act),
      table: new Table(overview.last_tables),
      bookmarks: new Bookmarks(hints, {
        go: act.go,
        add: (mark) => keep([...this.bookmarks, mark].sort((a, b) => this.run.place(a) - this.run.place(b))),
        remove: (i) => keep(this.bookmarks.filter((_, place) => place !== i)),
      }),
    };
    this.sentence = h("p", { data: { testid: "sentence" } });
    this.status = h("p", { class: "status", role: "status" });
    this.spoken = h("p", { class: "unseen", "aria-live": "polite" });
    this.queues = h("div", { class: "queues" });
    this.sequences = new SequenceList(this.run, this.numHues);
    this.pool = overview.detail === "slots" ? new PoolCells(overview, this.numHues) : new PoolCanvas(overview, this.numHues);
    this.poolTitle = h("h2");
    this.host = h("span", { class: "host", data: { testid: "host" } });
    this.host.hidden = !overview.host;
    this.next = h("p", { class: "next" });
    this.lanes = new LaneStrip(overview, this.numHues);
    this.occupancy = new PoolStrip(overview, this.numHues);
    this.events = new EventList(this.run, (moment) => this.#goToEvent(moment));
    this.root = h(
      "div",
      { class: "board", data: { testid: "board", loaded: 0 }, role: "region", "aria-label": "Board", style: "visibility: hidden" },
      this.timeBar.element,
      h("div", { class: "sentence" }, this.sentence, this.status),
      h("section", { class: "sequences", "aria-label": "Sequences" }, this.queues, this.sequences.element),
      h("section", { class: "pool", "aria-label": "Page pool" }, h("div", { class: "poolhead" }, this.poolTitle, this.host), this.pool.element, this.next, legend(overview)),
      h("div", { class: "strips" }, this.lanes.element, this.occupancy.element, this.events.element),
      this.spoken,
      ...Object.values(this.panels).map((panel) => panel.element),
    );
    parent.append(this.root);
    this.lighting = new Lighting(this, this.root);
  }

  #listen() {
    this.observer = new ResizeObserver(() => this.#redrawStrips());
    this.observer.observe(this.root);
    const isOurs = (element) => this.root.contains(element);
    const isBlocked = () =>
      Object.values(this.panels).some((panel) => panel.isOpen) || document.querySelector("[role=dialog][aria-modal=true]") !== null;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const recolour = () => this.recolour();
    dark.addEventListener("change", recolour);
    this.stops = [listen(isOurs, isBlocked, this.act), () => dark.removeEventListener("change", recolour)];
    for (const strip of [this.lanes, this.occupancy]) {
      strip.plot.addEventListener("click", (event) =>
        this.go({ step: strip.stepAt(event.clientX, this.run.numSteps), event: null }),
      );
    }
    const painted = new MessageChannel();
    painted.port1.onmessage = () => this.#publish();
    this.painted = () => painted.port2.postMessage(0);
    this.timeBar.drawBookmarks(this.bookmarks, this.byEvent);
  }

  // Beyond what is recorded by now a press is remembered.
  #forward(byEvent) {
    const moment = time.forward(this.run, this.target, byEvent);
    const halt = time.halt(this.run, this.target, moment);
    if (halt) return this.#halt(halt);
    if (moment !== undefined) return this.#move(moment);
    if (this.run.overview.is_complete) return false;
    this.owed.push(byEvent);
    setText(this.status, `Step ${this.run.numSteps} is being recorded`);
    return this.#askMore();
  }

  #pressed(moment) {
    this.player.stop();
    this.owed = [];
    this.#move(moment);
  }

  // Chosen from the list: from now on one press is one event.
  #goToEvent(moment) {
    if (!this.byEvent) {
      this.byEvent = true;
      this.timeBar.drawTicks(this.colours, true);
      this.timeBar.drawBookmarks(this.bookmarks, true);
    }
    this.go(moment);
  }

  #showTable() {
    if (this.state) this.panels.table[this.panels.table.isOpen ? "show" : "open"](this.state, this.run.sentence(this.moment), this.run.overview);
  }

  #redrawStrips() {
    if (!this.lanes) return;
    this.lanes.redraw();
    this.occupancy.redraw();
    this.timeBar.drawTicks(this.colours, this.byEvent);
    this.isWhole = true;
    this.#draw();
  }

  #draw() {
    if (this.frame !== undefined || this.moment === undefined) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = undefined;
      this.#drawNow();
      this.painted();
    });
  }

  #drawNow() {
    const { state, moment, run } = this;
    const { overview } = run;
    const focus = focusOf(run, moment);
    const dirtyPages = this.isWhole ? undefined : state.dirtyPages;
    const dirtySequences = this.isWhole ? undefined : state.dirtySequences;
    this.timeBar.draw(moment, {
      byEvent: this.byEvent,
      isPlaying: this.player.isPlaying,
      hash: state.hash,
      hasBack: time.back(run, moment, this.byEvent) !== undefined,
      hasForward: time.forward(run, moment, this.byEvent) !== undefined || !overview.is_complete,
    });
    this.sentence.replaceChildren(...decorated(run.sentence(moment), state.sequences, this.numHues));
    this.pool.draw(state, focus, dirtyPages);
    this.sequences.draw(state, focus, dirtySequences, this.place);
    const totals = totalsOf(state, overview.block_size);
    setText(
      this.poolTitle,
      `${overview.host ? "" : "Page pool · "}${overview.num_pages} pages of ${overview.block_size} slots · ` +
        `${totals.active} active, ${totals.cached} cached, ${totals.free} free`,
    );
    if (this.pool.canvas) setAttribute(this.pool.canvas, "aria-label", `Page pool, ${this.poolTitle.textContent}`);
    const host = overview.host ? hostWords(state, overview.host.num_pages) : "";
    setText(this.host, host);
    drawQueues(this.queues, run, state, moment, this.numHues);
    freeQueue(this.next, state);
    const share = this.#share(moment);
    this.lanes.point(share);
    this.occupancy.point(share);
    this.occupancy.say(totals, moment.step, host);
    this.events.draw(moment);
    this.lighting.refresh();
    state.dirtyPages.clear();
    state.dirtySequences.clear();
    this.isWhole = false;
    this.drawn = { moment, hash: state.hash };
  }

  // How much of the run lies before a moment: event e of n is at e/n of its step.
  #share({ step, event }) {
    const total = this.run.numEvents(step);
    return (step + (event === null || !total ? 1 : event / total)) / this.run.numSteps;
  }

  #publish() {
    if (!this.drawn) return;
    const { moment, hash } = this.drawn;
    setAttribute(this.root, "data-state-hash", hash);
    setAttribute(this.root, "data-event", moment.event === null ? "end" : moment.event);
    setAttribute(this.root, "data-step", moment.step);
  }
}

// numPages: null when the trace does not tell
function hostWords(state, numPages) {
  const held = state.rows.reduce((sum, row) => sum + row.host.length, 0);
  return numPages === null ? `host: ${count(held, "page")}` : `host: ${held} of ${count(numPages, "page")}`;
}

function totalsOf(state, blockSize) {
  const totals = { active: 0, cached: 0, free: 0, empty: 0 };
  for (let id = 0; id < state.numPages; id++) {
    const kind = state.pageState(id);
    totals[kind]++;
    if (kind === "active") totals.empty += blockSize - state.page.fill[id];
  }
  return totals;
}
