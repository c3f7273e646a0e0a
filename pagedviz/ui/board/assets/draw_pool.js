// The pool map as elements: a cell for each page with its slots, for pools in which they can be
// seen. Only cells that changed are touched. Of names and letters what is drawn is whole: a list of
// owners with no room for all ends in "+", a name without room for its use is the page's.

import { h, label, letter, setAttribute, setClass, setText } from "./dom.js";
import { holds } from "./now.js";

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
    this.room = Infinity; // characters in a cell's first line
  }

  // Measuring costs a layout: only when all is drawn again.
  #fit() {
    const cell = this.cells[0].element;
    const style = getComputedStyle(cell);
    const pen = (this.pen ??= document.createElement("canvas").getContext("2d"));
    pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const advance = pen.measureText("0").width + (parseFloat(style.letterSpacing) || 0);
    const inner = cell.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (inner > 0) this.room = Math.floor((inner - 1) / advance);
    this.isStacked = getComputedStyle(this.cells[0].owners).gridRowStart === "2";
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
    if (dirty === undefined) this.#fit();
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
    const [name, letters] = this.#firstLine(label(state, id), `p${id}`, owners.map((owner) => letter(owner.index)));
    setText(cell.name, name);
    setText(cell.owners, letters);
    const refs = state.page.ref_count[id];
    setText(cell.refs, refs > 1 ? `×${refs}` : "");
    const words = pageWords(state, id, this.overview.block_size);
    setAttribute(cell.element, "aria-label", words);
    setAttribute(cell.element, "title", words);
    this.#drawSlots(cell, state.page.fill[id], focus.slots.get(id));
  }

  #firstLine(full, short, letters) {
    const fewest = letters.length > 1 ? letters[0].length + 1 : letters.join("").length;
    const beside = this.isStacked ? 0 : fewest;
    const name = full.length + beside > this.room ? short : full;
    return [name, lettersThatFit(letters, this.room - (this.isStacked ? 0 : name.length))];
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

// All in so many characters, or the first and "+".
function lettersThatFit(letters, room) {
  for (let shown = letters.length; shown > 1; shown--) {
    const text = letters.slice(0, shown).join("") + (shown < letters.length ? "+" : "");
    if (text.length <= room) return text;
  }
  return (letters[0] ?? "") + (letters.length > 1 ? "+" : "");
}

export function pageWords(state, id, blockSize) {
  const owners = state.owners[id].map((owner) => letter(owner.index)).join(", ");
  const held = owners ? ` by ${owners}` : "";
  return `${label(state, id)}, ${state.pageState(id)}${held}, ${state.page.fill[id]} of ${blockSize} slots filled`;
}
