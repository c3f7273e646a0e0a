// The pool map of a large pool on a canvas: up to some hundred pages with name and fill, thousands
// as their state. A page has its place for good; a cell is drawn again only when it changed.

import { pattern } from "./colours.js";
import { label, letter } from "./dom.js";
import { h } from "./dom.js";
import { pageWords } from "./draw_pool.js";

export class PoolCanvas {
  constructor(overview, numHues) {
    this.overview = overview;
    this.numHues = numHues;
    this.canvas = h("canvas", { role: "img", "aria-label": "Page pool" });
    this.element = h("div", { class: "pages canvas" }, this.canvas);
    this.lit = new Set();
    this.now = new Set();
    this.width = 0;
  }

  get hasNames() {
    return this.overview.detail === "fill" && !this.isLarge;
  }

  // Names of so many pages cannot be read from afar: large, a page has its owner's letter.
  enlarge(isLarge) {
    this.isLarge = isLarge;
  }

  fit() {
    const { width, height } = this.element.getBoundingClientRect();
    const ratio = devicePixelRatio || 1;
    const key = `${width} ${height} ${ratio}`;
    if (this.size === key || !width) return false;
    this.size = key;
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const { columns, num_pages: total } = this.overview;
    this.rows = Math.ceil(total / columns);
    this.stepX = width / columns;
    this.stepY = Math.min(height / this.rows, this.stepX * 0.9);
    this.pen = this.canvas.getContext("2d");
    this.font = undefined;
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    return true;
  }

  recolour() {
    this.colours = undefined;
  }

  draw(state, focus, dirty) {
    // Measuring costs a layout: only when all is drawn again.
    const isFresh = (dirty === undefined && this.fit()) || this.colours === undefined;
    if (!this.pen) return;
    if (isFresh) this.#readColours();
    const all = isFresh || dirty === undefined;
    if (all) this.pen.clearRect(0, 0, this.width, this.height);
    this.focus = focus;
    const ids = all ? state.page.fill.keys() : new Set([...dirty, ...this.now, ...focus.pages]);
    for (const id of ids) this.#cell(state, id, focus.pages.has(id));
    this.now = new Set(focus.pages);
    this.state = state;
  }

  light(pages) {
    const changed = new Set([...pages, ...this.lit]);
    this.lit = new Set(pages);
    if (this.state && this.pen) for (const id of changed) this.#cell(this.state, id, this.now.has(id));
  }

  // The page under a point of the window, if there is one.
  at(x, y) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((x - box.left) / this.stepX);
    const row = Math.floor((y - box.top) / this.stepY);
    const id = row * this.overview.columns + column;
    const isInside = column >= 0 && column < this.overview.columns && row >= 0;
    return isInside && id < this.overview.num_pages ? id : undefined;
  }

  words(id) {
    return pageWords(this.state, id, this.overview.block_size);
  }

  #readColours() {
    const style = getComputedStyle(this.element);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colours = Object.fromEntries(
      ["background", "text", "quiet", "line", "empty", "strong", "middle", "faint", "accent"].map((name) => [
        name,
        of(name),
      ]),
    );
    this.fills = Array.from({ length: this.numHues }, (_, i) => of(`fill-${i}`));
    this.inks = Array.from({ length: this.numHues }, (_, i) => of(`ink-${i}`));
    this.hatch = pattern(this.pen, this.colours.background, this.colours.middle, "/", 5);
  }

  #cell(state, id, isNow) {
    const { pen, colours } = this;
    const gap = this.hasNames ? 3 : this.stepX > 7 ? 1.5 : 1;
    const x = (id % this.overview.columns) * this.stepX;
    const y = Math.floor(id / this.overview.columns) * this.stepY;
    const width = this.stepX - gap;
    const height = this.stepY - gap;
    pen.clearRect(x - 0.5, y - 0.5, this.stepX, this.stepY);
    const owners = state.owners[id];
    const kind = state.pageState(id);
    const share = state.page.fill[id] / this.overview.block_size;
    const hue = owners.length ? owners[0].index % this.numHues : 0;
    pen.fillStyle = kind === "cached" ? this.hatch : this.hasNames ? colours.background : colours.faint;
    pen.fillRect(x, y, width, height);
    if (kind === "active") {
      pen.fillStyle = this.fills[hue];
      if (this.hasNames) pen.fillRect(x, y + height - 5, width * share, 5);
      else pen.fillRect(x, y + height * (1 - Math.max(share, 0.2)), width, height * Math.max(share, 0.2));
    }
    if (this.hasNames) this.#names(state, id, x, y, width, kind, owners, hue);
    else if (this.isLarge && owners.length) this.#owner(owners, x + width / 2, y + height / 2, width, height, hue);
    const isLit = this.lit.has(id);
    pen.lineWidth = isNow || isLit ? 2 : 1;
    pen.strokeStyle = isNow ? colours.accent : isLit ? colours.text : kind === "active" ? this.inks[hue] : colours.line;
    if (isNow || isLit || this.hasNames || kind === "active") {
      pen.setLineDash(this.focus?.source === id ? [4, 3] : []);
      pen.strokeRect(x + pen.lineWidth / 2, y + pen.lineWidth / 2, width - pen.lineWidth, height - pen.lineWidth);
      pen.setLineDash([]);
    }
  }

  #owner(owners, x, y, width, height, hue) {
    const { pen } = this;
    // Room for "A+", so that no size depends on the moment.
    const size = Math.min(width * 0.7, height * 0.75, 22);
    if (size < 12) return;
    if (this.font !== size) pen.font = `bold ${size}px system-ui, sans-serif`;
    this.font = size;
    const text = letter(owners[0].index) + (owners.length > 1 ? "+" : "");
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    // Drawn on fill and on ground alike, so it brings its own ground.
    pen.lineWidth = 3;
    pen.strokeStyle = this.colours.background;
    pen.strokeText(text, x, y + 1);
    pen.fillStyle = this.inks[hue];
    pen.fillText(text, x, y + 1);
    pen.textAlign = "left";
  }

  #names(state, id, x, y, width, kind, owners, hue) {
    const { pen, colours } = this;
    const size = Math.min(11, this.stepY * 0.55, this.stepX / 3.2);
    if (size < 6) return;
    // Naming a font costs a layout, even if it is the same.
    if (this.font !== size) pen.font = `${size}px ui-monospace, DejaVu Sans Mono, monospace`;
    this.font = size;
    pen.textBaseline = "top";
    if (kind === "cached") {
      pen.fillStyle = colours.background;
      pen.fillRect(x + 2, y + 2, size * 2.4, size + 1);
    }
    pen.fillStyle = kind === "free" ? colours.quiet : colours.text;
    pen.fillText(this.stepX > 44 ? label(state, id) : String(id), x + 3, y + 2.5, width * 0.62);
    if (owners.length) {
      const more = owners.length > 1 ? "+" : "";
      pen.fillStyle = this.inks[hue];
      pen.textAlign = "right";
      pen.fillText(letter(owners[0].index) + more, x + width - 2.5, y + 2.5);
      pen.textAlign = "left";
    }
  }
}
