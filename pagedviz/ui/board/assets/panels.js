// The panels that open over the board: keys, bookmarks, table; search.js has one more.

import { h, label, letter } from "./dom.js";
import { SIGNS } from "./draw_timebar.js";

const KEYS = [
  ["→  ←", "one step on, one back: a token for every running sequence (or an event, if chosen)"],
  ["Shift →  Shift ←", "one event on, one back"],
  ["Space", "play, pause"],
  ["Home  End", "first step, last step"],
  ["n  p", "run on to the next, back to the one before, of what is chosen in “until”"],
  ["b", "moments: those worth a look, and your bookmarks"],
  ["/", "search events, pages (p7), sequences (seq:2), tokens (token 20, seq:2 token 20)"],
  ["t", "the board as a table"],
  ["l", "presenter, for a lecture: large type, only what the back row needs"],
  ["?", "this sheet"],
];

export class Panel {
  constructor(title, name) {
    this.body = h("div", { class: "body" });
    const close = h("button", { type: "button", class: "close", "aria-label": "Close", on: { click: () => this.close() } }, "✕");
    this.element = h("dialog", { class: name, "aria-label": title, data: { testid: name } }, h("header", {}, h("h2", {}, title), close), this.body);
    this.element.addEventListener("click", (event) => {
      if (event.target === this.element) this.close(); // the backdrop
    });
  }

  get isOpen() {
    return this.element.open;
  }

  open() {
    if (!this.isOpen) this.element.showModal();
  }

  close() {
    this.element.close();
  }
}

export class KeySheet extends Panel {
  constructor() {
    super("Keys", "key-sheet");
    const row = ([keys, words]) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, keys)), h("td", {}, words));
    this.body.append(
      h("table", {}, h("tbody", {}, ...KEYS.map(row))),
      h("p", {}, "Keys work wherever the focus is, except in a text field. To watch a page or a sequence, click it or search for its name: “until” can then run to its next change."),
      h("p", {}, "Marks on the time bar: ", ...Object.entries(SIGNS).map(([kind, sign]) => h("span", { class: "mark" }, h("b", {}, sign), ` ${kind}`))),
      h("p", {}, "Dotted line in Occupancy, “contiguous”: the pages an allocator without paging would hold, which gives each running sequence its prompt and longest answer in one piece."),
    );
  }
}

export class Bookmarks extends Panel {
  // hints: [step, text], moments that the scenario itself points at
  constructor(hints, act) {
    super("Moments", "bookmarks");
    this.act = act;
    const worth = hints.map(([step, name]) => h("li", {}, this.#button({ step, event: null, name })));
    this.name = h("input", { type: "text", maxlength: 60, "aria-label": "Name of the bookmark", placeholder: "Name this moment", data: { testid: "bookmark-name" } });
    const form = h("form", { method: "dialog", on: { submit: (event) => this.#keep(event) } }, this.name, h("button", { type: "submit", data: { testid: "bookmark-keep" } }, "Keep"));
    this.list = h("ul");
    const look = h("section", {}, h("h3", {}, "Worth a look"), h("ul", {}, ...worth));
    look.hidden = worth.length === 0;
    this.body.append(look, h("section", {}, h("h3", {}, "Bookmarks"), form, this.list));
  }

  #button(mark) {
    const go = () => this.#go(mark);
    return h("button", { type: "button", class: "go", on: { click: go } }, h("b", {}, `step ${mark.step}`), ` ${mark.name}`);
  }

  open(bookmarks, moment) {
    this.moment = moment;
    this.name.value = `step ${moment.step}${moment.event === null ? "" : `, event ${moment.event}`}`;
    this.show(bookmarks);
    super.open();
    this.name.select();
  }

  show(bookmarks) {
    this.list.replaceChildren(
      ...bookmarks.map((mark, i) =>
        h(
          "li",
          {},
          this.#button(mark),
          h("button", { type: "button", "aria-label": `Remove ${mark.name}`, on: { click: () => this.act.remove(i) } }, "✕"),
        ),
      ),
    );
    if (!bookmarks.length) this.list.append(h("li", { class: "none" }, "No bookmark yet: name this moment and keep it"));
  }

  #keep(event) {
    event.preventDefault();
    const name = this.name.value.trim() || `step ${this.moment.step}`;
    this.act.add({ ...this.moment, name });
  }

  #go(mark) {
    this.close();
    this.act.go({ step: mark.step, event: mark.event });
  }
}

export class Table extends Panel {
  // lastTables: sequence id -> names of the pages it had when it finished
  constructor(lastTables) {
    super("The board as a table", "table-panel");
    this.lastTables = lastTables;
  }

  open(state, sentence, overview) {
    this.show(state, sentence, overview);
    super.open();
  }

  show(state, sentence, { block_size: blockSize, host }) {
    // Columns that most runs have nothing for.
    const further = [];
    if (state.rows.some((row) => row.parent !== undefined)) {
      further.push(["fork of", (row) => (row.parent === undefined ? "" : `seq:${row.parent}`)]);
    }
    if (host) further.push(["tokens on the host", (row) => row.num_swapped ?? ""], ["host pages", (row) => row.host.join(" ")]);
    const held = (row) => (row.state === "finished" ? (this.lastTables[row.id] ?? []).join(" ") : "");
    const sequences = state.rows.map((row) => [
      `${letter(row.index)} seq:${row.id}`, row.name, row.state, row.num_tokens, row.num_computed,
      row.page.map((id) => label(state, id)).join(" "), held(row),
      ...further.map(([, cell]) => cell(row)),
    ]);
    const pages = Array.from({ length: state.numPages }, (_, id) => [
      label(state, id), state.pageState(id), state.owners[id].map((owner) => letter(owner.index)).join(" "),
      state.page.ref_count[id], `${state.page.fill[id]} of ${blockSize}`,
    ]);
    this.body.replaceChildren(
      h("p", {}, sentence),
      table("Sequences", ["sequence", "name", "state", "tokens", "computed", "pages", "pages at its end", ...further.map(([head]) => head)], sequences),
      table("Pages", ["page", "state", "owners", "references", "slots filled"], pages),
    );
  }
}

function table(title, heads, rows) {
  const head = h("tr", {}, ...heads.map((text) => h("th", { scope: "col" }, text)));
  const body = rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, String(cell)))));
  return h("table", {}, h("caption", {}, title), h("thead", {}, head), h("tbody", {}, ...body));
}
