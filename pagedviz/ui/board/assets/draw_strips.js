// The two strips of the whole run: a lane for each sequence, and what the pool held. They are drawn
// once; the cursor is a line that moves over them, with a veil over what is still to come.

import { pattern } from "./colours.js";
import { h, letter, setAttribute, setText } from "./dom.js";

const LEFT = 30;
const BOTTOM = 16;
const LANES_AT_ONCE = 12;
const HOST_SHARE = 0.24; // of the plot
const HOST_GAP = 5;
const CONTIGUOUS =
  "contiguous: pages that an allocator without paging would hold, prompt and longest answer of each running sequence in one piece";

class Strip {
  constructor(title, words, key) {
    this.canvas = h("canvas", { role: "img", "aria-label": words });
    this.line = h("i", { class: "line" });
    this.veil = h("i", { class: "veil" });
    this.plot = h("div", { class: "plot" }, this.canvas, this.veil, this.line);
    this.caption = h("p", { class: "caption" }, key);
    this.head = h("h2", {}, title);
    this.element = h("section", { class: "strip", "aria-label": title }, this.head, this.plot, this.caption);
  }

  // True when there is something to draw on.
  fit() {
    const { width, height } = this.plot.getBoundingClientRect();
    if (!width || !height) return false;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.pen = this.canvas.getContext("2d");
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.font = "11px system-ui, sans-serif";
    this.width = width - LEFT - 6;
    this.height = height - BOTTOM - 4;
    return true;
  }

  steps(numSteps) {
    const { pen } = this;
    const spacing = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((s) => numSteps / s <= 6) ?? 10000;
    pen.fillStyle = this.colours.quiet;
    pen.textAlign = "center";
    pen.textBaseline = "bottom";
    for (let step = 0; step < numSteps; step += spacing) {
      pen.fillText(String(step), LEFT + (step / numSteps) * this.width, this.height + BOTTOM + 4);
    }
  }

  // share: how much of the run lies before the moment
  point(share) {
    const at = LEFT + share * this.width;
    this.line.style.transform = `translateX(${at}px)`;
    this.veil.style.transform = `translateX(${at}px)`;
  }

  // The step under a point of the window.
  stepAt(x, numSteps) {
    const share = (x - this.canvas.getBoundingClientRect().left - LEFT) / this.width;
    return Math.max(0, Math.min(numSteps - 1, Math.floor(share * numSteps)));
  }
}

export function coloursOf(element, numHues) {
  const style = getComputedStyle(element);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["background", "surface", "text", "quiet", "line", "empty", "strong", "middle", "faint", "accent"];
  return {
    ...Object.fromEntries(names.map((name) => [name, of(name)])),
    fills: Array.from({ length: numHues }, (_, i) => of(`fill-${i}`)),
    inks: Array.from({ length: numHues }, (_, i) => of(`ink-${i}`)),
  };
}

export class LaneStrip extends Strip {
  constructor(overview, numHues) {
    super("States", "State of each sequence over the steps of the run", "grey waiting · hatched prefill · solid decode · crossed preempted");
    this.overview = overview;
    this.numHues = numHues;
  }

  redraw() {
    if (!this.fit()) return;
    this.colours = coloursOf(this.element, this.numHues);
    const { lanes, num_steps: numSteps } = this.overview;
    const rows = packed(lanes);
    const numRows = Math.max(4, Math.min(rows.count, LANES_AT_ONCE));
    const high = this.height / numRows;
    const { pen, colours } = this;
    lanes.forEach(([, phases], place) => {
      const row = rows.of[place];
      if (row >= LANES_AT_ONCE) return;
      const hue = colours.fills[place % this.numHues];
      const y = 2 + row * high;
      const bar = Math.max(2, high - Math.min(5, high * 0.3));
      const began = phases[0][1];
      for (const [state, first, last] of phases) {
        if (state === "finished") continue;
        const x = LEFT + (first / numSteps) * this.width;
        const width = Math.max(1, ((last + 1 - first) / numSteps) * this.width - 0.5);
        pen.fillStyle = this.#fill(state, hue);
        pen.fillRect(x, y, width, bar);
        if (state !== "waiting") {
          pen.strokeStyle = hue;
          pen.strokeRect(x + 0.5, y + 0.5, Math.max(width - 1, 0.5), bar - 1);
        }
      }
      const x = LEFT + (began / numSteps) * this.width;
      if (rows.count === lanes.length) this.#letter(place, y + bar / 2, 6);
      else if (high >= 9 && x < LEFT + this.width - 16) {
        pen.fillStyle = colours.background;
        pen.fillRect(x, y + bar / 2 - 6, 11, 12);
        this.#letter(place, y + bar / 2, x + 1);
      }
    });
    this.steps(numSteps);
  }

  #letter(place, y, x) {
    const { pen } = this;
    pen.fillStyle = this.colours.inks[place % this.numHues];
    pen.font = "600 11px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillText(letter(place), x, y);
    pen.font = "11px system-ui, sans-serif";
  }

  #fill(state, hue) {
    if (state === "waiting") return this.colours.middle;
    if (state === "prefilling") return pattern(this.pen, this.colours.background, hue, "/");
    if (state === "preempted") return pattern(this.pen, this.colours.background, hue, "x");
    return hue;
  }
}

// The row of each lane: its own if there are few, else the first that has become free.
function packed(lanes) {
  if (lanes.length <= LANES_AT_ONCE) return { of: lanes.map((_, place) => place), count: lanes.length };
  const busyTo = [];
  const of = lanes.map(([, phases]) => {
    const first = phases[0][1];
    const last = phases.findLast(([state]) => state !== "finished")?.[2] ?? first;
    let row = busyTo.findIndex((to) => to < first);
    if (row < 0) row = busyTo.length;
    busyTo[row] = last;
    return row;
  });
  return { of, count: busyTo.length };
}

export class PoolStrip extends Strip {
  constructor(overview, numHues) {
    super("Occupancy", "Active, cached and free pages over the steps of the run", "");
    this.overview = overview;
    this.numHues = numHues;
  }

  redraw() {
    if (!this.fit()) return;
    this.colours = coloursOf(this.element, this.numHues);
    const { occupancy, num_steps: numSteps, num_pages: numPages, block_size: size } = this.overview;
    const { pen, colours } = this;
    const top = occupancy.contiguous.reduce((most, pages) => Math.max(most, pages), numPages) * 1.02;
    const used = occupancy.active.map((pages, i) => pages - occupancy.waste[i] / size);
    const cached = occupancy.active.map((pages, i) => pages + occupancy.cached[i]);
    const total = used.map(() => numPages);
    const layers = [
      [total, colours.faint],
      [cached, pattern(pen, colours.middle, colours.background, "/", 5)],
      [occupancy.active, pattern(pen, colours.strong, colours.background, "x", 5)],
      [used, colours.strong],
    ];
    const high = this.overview.host ? this.height * (1 - HOST_SHARE) - HOST_GAP : this.height;
    const y = (value) => 2 + high * (1 - value / top);
    for (const [values, fill] of layers) {
      pen.beginPath();
      pen.moveTo(LEFT, y(0));
      this.#stairs(values, numSteps, y);
      pen.lineTo(LEFT + this.width, y(0));
      pen.fillStyle = fill;
      pen.fill();
    }
    pen.beginPath();
    this.#stairs(occupancy.contiguous, numSteps, y);
    pen.strokeStyle = colours.text;
    pen.setLineDash([2, 3]);
    pen.lineWidth = 1.3;
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = colours.quiet;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillText(String(numPages), LEFT - 3, Math.max(7, y(numPages)));
    pen.fillText("0", LEFT - 3, y(0) - 4);
    if (this.overview.host) this.#host(occupancy.host, numSteps);
    this.steps(numSteps);
  }

  // Host pages in use, on a scale of their own.
  #host(values, numSteps) {
    const { pen, colours } = this;
    const most = this.overview.host.num_pages ?? values.reduce((a, b) => Math.max(a, b), 1);
    const bottom = 2 + this.height;
    const high = this.height * HOST_SHARE;
    pen.fillStyle = colours.faint;
    pen.fillRect(LEFT, bottom - high, this.width, high);
    pen.beginPath();
    pen.moveTo(LEFT, bottom);
    this.#stairs(values, numSteps, (value) => bottom - (high * value) / most);
    pen.lineTo(LEFT + this.width, bottom);
    pen.fillStyle = colours.strong;
    pen.fill();
    pen.fillStyle = colours.quiet;
    pen.fillText("host", LEFT - 3, bottom - high / 2);
  }

  #stairs(values, numSteps, y) {
    values.forEach((value, i) => {
      this.pen.lineTo(LEFT + (i / numSteps) * this.width, y(value));
      this.pen.lineTo(LEFT + ((i + 1) / numSteps) * this.width, y(value));
    });
  }

  // host: what the host pool holds, in words
  say(totals, step, host) {
    if (host) setText(this.head, `Occupancy · ${host}`);
    const reserved = this.overview.occupancy.contiguous[step];
    setAttribute(this.caption, "title", CONTIGUOUS);
    setText(
      this.caption,
      `${totals.active} active (${totals.empty} slots empty ╳) · ${totals.cached} cached ╱ · ` +
        `${totals.free} free · contiguous ┈ ${reserved}`,
    );
  }
}
