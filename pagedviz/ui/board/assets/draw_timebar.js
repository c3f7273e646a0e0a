// The time bar: buttons, what one press is, run until, bookmarks, search, position, hash, slider.

import { h, setAttribute, setText } from "./dom.js";
import { sliderLast, sliderMoment, sliderPlace } from "./time.js";

const SPEEDS = [1, 2, 4, 10];
const IMPORTANCE = ["violation", "preemption", "finish", "copy", "eviction", "hit"];
export const SIGNS = { violation: "!", preemption: "✕", eviction: "▼", copy: "◆", finish: "■", hit: "○" };
const HINTS = [
  ["→", "next step"],
  ["Shift →", "next event"],
  ["Space", "play"],
  ["?", "all keys"],
];
const NEAR = Array.from({ length: 15 }, (_, i) => i - 7);

// A list keeps most keys for itself, so after a choice with the pointer the focus goes to what uses
// the choice.
function handsOn(list, user) {
  let isPointed = false;
  list.addEventListener("pointerdown", () => (isPointed = true));
  list.addEventListener("keydown", () => (isPointed = false));
  list.addEventListener("change", () => {
    if (isPointed) user.focus();
    isPointed = false;
  });
}

export class TimeBar {
  // act: first, back, forward, last, play, go, byEvent, until, bookmark, search, keys, speed
  constructor(run, act) {
    this.run = run;
    this.act = act;
    const button = (name, label, words, keys) =>
      h(
        "button",
        { type: "button", class: name, "aria-label": words, title: `${words} (${keys})`, data: { testid: name }, on: { click: () => act[name]() } },
        label,
      );
    this.first = button("first", "|◀", "First step", "Home");
    this.back = button("back", "◀", "Back", "←");
    this.forward = button("forward", "Step ▶", "Step", "→");
    this.last = button("last", "▶|", "Last step", "End");
    this.play = button("play", "Play", "Play", "space");
    this.speed = h(
      "select",
      { "aria-label": "Steps a second", title: "Steps a second", data: { testid: "speed" }, on: { change: () => act.speed(Number(this.speed.value)) } },
      ...SPEEDS.map((speed) => h("option", { value: speed, selected: speed === 4 }, `${speed}/s`)),
    );
    this.units = ["token", "event"].map((name) =>
      h("button", { type: "button", data: { testid: `by-${name}` }, title: `One press is one ${name === "token" ? "step: a token for every running sequence" : "event"}`, on: { click: () => act.byEvent(name === "event") } }, name),
    );
    this.until = h("select", { "aria-label": "Run until", title: "What to run until", data: { testid: "until" } });
    this.untilBack = h("button", { type: "button", "aria-label": "Run back to the one before", title: "Run back to the one before (p)", data: { testid: "until-back" }, on: { click: () => act.until(-1) } }, "«");
    this.untilOn = h("button", { type: "button", "aria-label": "Run on to the next", title: "Run on to the next (n)", data: { testid: "until-on" }, on: { click: () => act.until(1) } }, "»");
    handsOn(this.speed, this.play);
    handsOn(this.until, this.untilOn);
    this.bookmark = button("bookmark", "☆ Moments", "Moments worth a look, and bookmarks", "b");
    this.search = button("search", "Search", "Search events, pages, sequences, tokens", "/");
    this.table = button("table", "Table", "The board as a table", "t");
    this.keys = button("keys", "?", "Keys", "?");
    this.presenter = button("presenter", "Aa", "Presenter: large type, only what a lecture needs", "l");
    this.position = h("div", { class: "position", data: { testid: "position" } });
    this.hash = h("span", { class: "chip hash", title: "State hash: the same on every screen that shows this moment", data: { testid: "hash" } });
    this.range = h("input", { type: "range", min: 0, step: 1, "aria-label": "Moment of the run", data: { testid: "slider" }, on: { input: () => this.#slid() } });
    this.ticks = h("canvas", { "aria-hidden": "true" });
    this.flags = h("div", { class: "flags" });
    const group = (name, ...children) => h("div", { class: `group-${name}`, role: "group", "aria-label": name }, ...children);
    this.element = h(
      "div",
      { class: "timebar" },
      h(
        "div",
        { class: "buttons" },
        group("stepping", this.first, this.back, this.forward, this.last),
        group("playing", this.play, this.speed),
        group("granularity", ...this.units),
        group("until", h("span", { class: "word" }, "until"), this.untilBack, this.until, this.untilOn),
        group("finding", this.bookmark, this.search, this.table),
        h("div", { class: "where" }, this.position, this.hash, this.presenter, this.keys),
      ),
      h("div", { class: "slider" }, this.ticks, this.flags, this.range),
      h("div", { class: "under" }, this.#tickLegend(), keyHints()),
    );
    this.setWatched(undefined);
  }

  // Of the kinds that the run has: they stay the same while one steps.
  #tickLegend() {
    const kinds = new Set(this.run.overview.ticks.map(([, , kind]) => kind));
    const entry = (kind) => h("span", {}, h("b", { class: kind }, SIGNS[kind]), ` ${kind}`);
    return h("p", { class: "ticklegend" }, ...IMPORTANCE.filter((kind) => kinds.has(kind)).map(entry));
  }

  // What may be run until: all kinds, and the watched page or sequence.
  setWatched(watched) {
    const chosen = this.until.value;
    const options = Object.keys(this.run.overview.until).map((name) => [name, name]);
    options.unshift(["tick", "any tick"]);
    if (watched?.page !== undefined) {
      options.push(["page", `change of p${watched.page}`], ["generation", `new use of p${watched.page}`]);
    }
    if (watched?.sequence !== undefined) options.push(["sequence", `change of seq:${watched.sequence}`]);
    this.until.replaceChildren(...options.map(([value, text]) => h("option", { value }, text)));
    const isThere = options.some(([value]) => value === chosen);
    this.until.value = isThere ? chosen : "tick";
  }

  choose(until) {
    this.until.value = until;
  }

  draw(moment, { byEvent, isPlaying, hash, hasBack, hasForward }) {
    const { step, event } = moment;
    const total = this.run.numEvents(step);
    const events = event === null ? `end, ${total} events` : `event ${event} of ${total}`;
    this.position.replaceChildren(
      "step ",
      h("b", {}, String(step)),
      ` of ${this.run.numSteps - 1}${this.run.overview.is_complete ? "" : "+"} · ${events}`,
    );
    setText(this.hash, `state ${hash.slice(0, 4)} ${hash.slice(4, 8)}`);
    setAttribute(this.back, "aria-disabled", hasBack ? null : "true");
    setAttribute(this.forward, "aria-disabled", hasForward ? null : "true");
    setText(this.play, isPlaying ? "Pause" : "Play");
    setAttribute(this.play, "aria-pressed", isPlaying);
    this.units.forEach((unit, i) => setAttribute(unit, "aria-pressed", byEvent === (i === 1)));
    const last = Math.max(sliderLast(this.run, byEvent), 1);
    setAttribute(this.range, "max", last);
    const place = sliderPlace(this.run, moment, byEvent);
    this.range.value = place;
    this.range.style.setProperty("--share", place / last);
    setAttribute(this.range, "aria-valuetext", `step ${step}, ${events}`);
    this.byEvent = byEvent;
  }

  #slid() {
    this.act.go(sliderMoment(this.run, Number(this.range.value), this.byEvent));
  }

  // Marks above the slider. Their form says the kind: cross, triangle, circle, square.
  drawTicks(colours, byEvent) {
    const { width } = this.ticks.getBoundingClientRect();
    if (!width) return;
    const ratio = devicePixelRatio || 1;
    const high = 12;
    this.ticks.width = Math.round(width * ratio);
    this.ticks.height = Math.round(high * ratio);
    const pen = this.ticks.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const last = Math.max(sliderLast(this.run, byEvent), 1);
    const inner = width - 14; // the thumb's centre never reaches the ends
    const taken = new Set(); // pixels, so that no mark hides a more important one
    for (const important of IMPORTANCE) {
      for (const [step, event, kind] of this.run.overview.ticks) {
        if (kind !== important) continue;
        const share = sliderPlace(this.run, { step, event: byEvent ? event : null }, byEvent) / last;
        const x = Math.round(7 + share * inner);
        if (NEAR.some((shift) => taken.has(x + shift))) continue;
        taken.add(x);
        drawMark(pen, kind, x, 6, colours);
      }
    }
  }

  drawBookmarks(bookmarks, byEvent) {
    const last = Math.max(sliderLast(this.run, byEvent), 1);
    this.flags.replaceChildren(
      ...bookmarks.map((mark) => {
        const share = sliderPlace(this.run, mark, byEvent) / last;
        return h(
          "button",
          {
            type: "button",
            style: `--share:${share}`,
            title: `${mark.name} (step ${mark.step})`,
            "aria-label": `Go to bookmark ${mark.name}`,
            on: { click: () => this.act.go({ step: mark.step, event: mark.event }) },
          },
          "★",
        );
      }),
    );
  }
}

// What to do first, for whoever has just arrived.
function keyHints() {
  const hint = ([key, words]) => h("span", {}, h("kbd", {}, key), ` ${words}`);
  return h("p", { class: "hints", data: { testid: "hints" } }, ...HINTS.map(hint));
}

export function drawMark(pen, kind, x, y, colours) {
  pen.strokeStyle = pen.fillStyle = kind === "preemption" || kind === "violation" ? colours.accent : colours.strong;
  pen.lineWidth = 1.6;
  pen.beginPath();
  if (kind === "violation") {
    pen.fillRect(x - 1.5, y - 5, 3, 6.5);
    pen.fillRect(x - 1.5, y + 2.5, 3, 2.5);
  } else if (kind === "preemption") {
    pen.moveTo(x - 3, y - 3);
    pen.lineTo(x + 3, y + 3);
    pen.moveTo(x + 3, y - 3);
    pen.lineTo(x - 3, y + 3);
    pen.stroke();
  } else if (kind === "eviction") {
    pen.moveTo(x - 3.5, y - 3);
    pen.lineTo(x + 3.5, y - 3);
    pen.lineTo(x, y + 3.5);
    pen.fill();
  } else if (kind === "copy") {
    pen.moveTo(x, y - 4);
    pen.lineTo(x + 4, y);
    pen.lineTo(x, y + 4);
    pen.lineTo(x - 4, y);
    pen.fill();
  } else if (kind === "finish") {
    pen.fillRect(x - 2.5, y - 2.5, 5, 5);
  } else {
    pen.arc(x, y, 2.4, 0, 7);
    pen.stroke();
  }
}
