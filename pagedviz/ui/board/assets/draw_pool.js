// The pool map as elements: a cell for each page with its slots, for pools in which they can be
// seen. Only cells that changed are touched.

import { h, label, letter, setAttribute, setClass, setText } from "./dom.js";
import { holds } from "./now.js";

const MOST_OWNERS = 3;

export class PoolCells {
  constructor(overview, numHues) {
    this.overview = overview;
    this.numHues = numHues;
    const across = overview.block_size <= 16 ? Math.min(overview.block_size, 8) : 16;
    this.hasSlots = overview.block_size <= overview.max_slots_drawn;
    const rows = Math.ceil(overview.num_pages / overview.columns);
    const size = overview.columns >= 10 ? "tight" : rows <= 4 ? "roomy" : "";
    this.element = h("div", { class: `pages ${size}`, role: "list" });
    this.element.style.cssText = `--columns:${overview.columns};--rows:${rows};--across:${across}`;
    this.cells = Array.from({ length: overview.num_pages }, (_, id) => this.#cell(id));
    this.element.append(...this.cells.map((cell) => cell.element));
    this.now = new Set();
  }

  #cell(id) {
    const slots = Array.from({ length: this.hasSlots ? this.overview.block_size : 0 }, (_, slot) =>
      h("i", { class: "e", data: { slot } }),
    );
    const meter = this.hasSlots ? undefined : h("i");
    const name = h("span", { class: "label" });
    const owners = h("b", { class: "owners" });
    const refs = h("b", { class: "refs" });
    const room = this.hasSlots
      ? h("span", { class: "slots" }, ...slots)
      : h("span", { class: "meter" }, meter);
    const element = h("div", { class: "page", role: "listitem", data: { p: id } }, name, owners, refs, room);
    return { element, slots, meter, name, owners, refs, fill: -1, nowKey: "" };
  }

  // dirty: page ids that changed since the last call, or undefined for all.
  draw(state, focus, dirty) {
    const ids = dirty ?? this.cells.keys();
    const again = new Set([...ids, ...this.now, ...focus.pages]);
    for (const id of again) this.#drawCell(state, id, focus);
    this.now = new Set(focus.pages);
  }

  #drawCell(state, id, focus) {
    const cell = this.cells[id];
    const owners = state.owners[id];
    const kind = state.pageState(id);
    const hue = owners.length ? ` h${owners[0].index % this.numHues}` : "";
    const lit = cell.element.classList.contains("lit") ? " lit" : "";
    const isNow = focus.pages.has(id);
    const source = focus.source === id ? " source" : "";
    setClass(cell.element, `page ${kind}${hue}${isNow ? " now" : ""}${source}${lit}`);
    setText(cell.name, label(state, id));
    const shown = owners.length > MOST_OWNERS ? owners.slice(0, MOST_OWNERS - 1) : owners;
    const more = owners.length > MOST_OWNERS ? "+" : "";
    setText(cell.owners, shown.map((owner) => letter(owner.index)).join("") + more);
    const refs = state.page.ref_count[id];
    setText(cell.refs, refs > 1 ? `×${refs}` : "");
    const words = pageWords(state, id, this.overview.block_size);
    setAttribute(cell.element, "aria-label", words);
    setAttribute(cell.element, "title", words);
    this.#drawSlots(cell, state.page.fill[id], focus.slots.get(id));
  }

  #drawSlots(cell, fill, now) {
    const nowKey = now ? now.join(";") : "";
    if (cell.fill === fill && cell.nowKey === nowKey) return;
    if (cell.meter) cell.meter.style.width = `${(100 * fill) / this.overview.block_size}%`;
    cell.slots.forEach((slot, offset) => {
      setClass(slot, `${offset < fill ? "f" : "e"}${holds(now, offset) ? " now" : ""}`);
    });
    cell.fill = fill;
    cell.nowKey = nowKey;
  }

  light(pages, slots) {
    this.cells.forEach((cell, id) => {
      cell.element.classList.toggle("lit", pages.has(id));
      const lit = slots.get(id);
      if (lit !== undefined || cell.hasLitSlot) {
        cell.slots.forEach((slot, offset) => slot.classList.toggle("lit", offset === lit));
        cell.hasLitSlot = lit !== undefined;
      }
    });
  }
}

export function pageWords(state, id, blockSize) {
  const owners = state.owners[id].map((owner) => letter(owner.index)).join(", ");
  const held = owners ? ` by ${owners}` : "";
  return `${label(state, id)}, ${state.pageState(id)}${held}, ${state.page.fill[id]} of ${blockSize} slots filled`;
}
