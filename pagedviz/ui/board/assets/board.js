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
import { decorated, setAttribute, setText } from "./dom.js";
import { drawQueues, freeQueue } from "./draw_queues.js";
import { coloursOf } from "./draw_strips.js";
import { listen } from "./keys.js";
import { layOut } from "./layout.js";
import { Lighting } from "./lighting.js";
import { focusOf } from "./now.js";
import { PlayHead } from "./play_head.js";
import { Run } from "./run.js";
import * as time from "./time.js";
import { hostWords, poolWords, totalsOf } from "./totals.js";

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
    this.bookmarks = bookmarks;
    this.watched = undefined;
    this.numHues = overview.themes.light.hues.length;
    this.head = new PlayHead(this.run, moment, byEvent, this.calls, {
      show: (shown) => this.#show(shown),
      rested: (shown) => this.#rested(shown),
      playing: () => this.#draw(),
      say: (text) => setText(this.status, text),
    });
    this.act = this.#commands();
    const marks = {
      add: (mark) => this.#keep([...this.bookmarks, mark].sort((a, b) => this.run.place(a) - this.run.place(b))),
      remove: (i) => this.#keep(this.bookmarks.filter((_, place) => place !== i)),
    };
    Object.assign(this, layOut(this.run, this.numHues, hints, this.act, marks, (chosen) => this.#goToEvent(chosen)));
    parent.append(this.root);
    this.lighting = new Lighting(this, this.root);
    this.#enlarge(isPresenting);
    this.recolour();
    this.#listen();
  }

  // ---- from outside ---------------------------------------------------------------------------

  addChunk(chunk) {
    this.run.add(chunk);
    setAttribute(this.root, "data-loaded", this.run.chunks.size);
    this.head.arrived();
  }

  // More steps of the same run have been recorded.
  grow(overview) {
    this.run.grow(overview);
    this.lanes.overview = this.occupancy.overview = overview;
    this.sequences.fit();
    this.timeBar.drawBookmarks(this.bookmarks, this.head.byEvent);
    this.#redrawStrips();
    this.head.grown();
  }

  // Told by whoever mounted the board, who need not be told again.
  obey(moment) {
    this.head.obey(moment);
  }

  setBookmarks(bookmarks) {
    this.bookmarks = bookmarks;
    this.timeBar.drawBookmarks(bookmarks, this.head.byEvent);
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
    this.head.stop();
    cancelAnimationFrame(this.frame);
    this.observer.disconnect();
    this.stops.forEach((stop) => stop());
    this.root.remove();
  }

  // ---- commands -------------------------------------------------------------------------------

  // Of keys, buttons and lists.
  #commands() {
    const { head } = this;
    return {
      first: () => head.go(time.first(head.byEvent)),
      back: (byEvent = head.byEvent) => head.back(byEvent),
      forward: (byEvent = head.byEvent) => head.forward(byEvent),
      last: () => head.go(time.last(this.run)),
      play: () => head.playOrPause(),
      speed: (perSecond) => (head.player.perSecond = perSecond),
      go: (moment) => head.go(moment),
      byEvent: (byEvent) => this.#chooseUnit(byEvent),
      until: (direction) => head.until(direction, this.timeBar.until.value, this.watched),
      bookmark: () => this.panels.bookmarks.open(this.bookmarks, head.target),
      search: () => this.panels.search.open(),
      watch: (thing) => this.watch(thing),
      watchPage: (page) => this.watched?.page === page || this.watch({ page }),
      shown: () => ({ state: this.state, moment: this.moment }),
      table: () => this.#showTable(),
      keys: () => this.panels.keys.open(),
      presenter: () => this.#present(),
      need: (number) => head.supply.need(number),
    };
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
        this.head.go({ step: strip.stepAt(event.clientX, this.run.numSteps), event: null }),
      );
    }
    const painted = new MessageChannel();
    painted.port1.onmessage = () => this.#publish();
    this.painted = () => painted.port2.postMessage(0);
    this.timeBar.drawBookmarks(this.bookmarks, this.head.byEvent);
  }

  #keep(bookmarks) {
    this.setBookmarks(bookmarks);
    this.calls.bookmarked(bookmarks);
  }

  #chooseUnit(byEvent) {
    const { head } = this;
    this.#count(byEvent);
    head.go(byEvent ? head.target : { step: head.target.step, event: null });
  }

  // Chosen from the list: from now on one press is one event.
  #goToEvent(moment) {
    if (!this.head.byEvent) this.#count(true);
    this.head.go(moment);
  }

  #count(byEvent) {
    this.head.byEvent = byEvent;
    this.timeBar.drawTicks(this.colours, byEvent);
    this.timeBar.drawBookmarks(this.bookmarks, byEvent);
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

  #showTable() {
    if (this.state) this.panels.table[this.panels.table.isOpen ? "show" : "open"](this.state, this.run.sentence(this.moment), this.run.overview);
  }

  #rested(moment) {
    setText(this.spoken, this.run.sentence(moment));
    if (this.panels.table.isOpen) this.#showTable();
    this.calls.rested(moment, this.head.byEvent);
  }

  // ---- drawing --------------------------------------------------------------------------------

  #show(moment) {
    const place = this.run.place(moment);
    const state = this.run.seek(this.state, this.place, place, moment.step);
    this.isWhole = this.isWhole || state !== this.state;
    this.state = state;
    this.place = place;
    this.moment = moment;
    this.#draw();
  }

  #redrawStrips() {
    this.lanes.redraw();
    this.occupancy.redraw();
    this.timeBar.drawTicks(this.colours, this.head.byEvent);
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
    const { state, moment, run, head } = this;
    const { overview } = run;
    const focus = focusOf(run, moment);
    const dirtyPages = this.isWhole ? undefined : state.dirtyPages;
    const dirtySequences = this.isWhole ? undefined : state.dirtySequences;
    this.timeBar.draw(moment, {
      byEvent: head.byEvent,
      isPlaying: head.player.isPlaying,
      hash: state.hash,
      hasBack: time.back(run, moment, head.byEvent) !== undefined,
      hasForward: time.forward(run, moment, head.byEvent) !== undefined || !overview.is_complete,
    });
    this.sentence.replaceChildren(...decorated(run.sentence(moment), state.sequences, this.numHues));
    this.pool.draw(state, focus, dirtyPages);
    this.sequences.draw(state, focus, dirtySequences, this.place);
    const totals = totalsOf(state, overview.block_size);
    setText(this.poolTitle, poolWords(totals, overview));
    if (this.pool.canvas) setAttribute(this.pool.canvas, "aria-label", `Page pool, ${this.poolTitle.textContent}`);
    const host = overview.host ? hostWords(state, overview.host.num_pages) : "";
    setText(this.host, host);
    drawQueues(this.queues, run, state, moment, this.numHues);
    freeQueue(this.next, state);
    const share = run.share(moment);
    this.lanes.point(share);
    this.occupancy.point(share);
    this.occupancy.say(totals, moment.step, host);
    this.events.draw(moment);
    this.lighting.refresh();
    this.sequences.sayCut();
    state.dirtyPages.clear();
    state.dirtySequences.clear();
    this.isWhole = false;
    this.drawn = { moment, hash: state.hash };
  }

  #publish() {
    if (!this.drawn) return;
    const { moment, hash } = this.drawn;
    setAttribute(this.root, "data-state-hash", hash);
    setAttribute(this.root, "data-event", moment.event === null ? "end" : moment.event);
    setAttribute(this.root, "data-step", moment.step);
  }
}
