// What the board holds: the fields of a snapshot, assigned one by one, and their hash.
//
// A field has a path such as page/12/fill or seq/3/token/40 and a value or none (undefined). The
// hash takes away what is held and adds what is assigned, so it is computed from the board itself
// and never from what a patch claims.

import { Sum, fieldHash, fnv } from "./hash.js";

const LISTS = ["queue", "waiting", "running"];
const SEQUENCE_VALUES = [
  "name", "adapter", "num_prompt_tokens", "max_new_tokens", "num_tokens", "state", "num_computed",
  "num_scheduled", "num_cached", "num_preemptions", "finish_reason", "parent", "num_swapped",
];
const SEQUENCE_ROWS = ["token", "page", "generation", "host"];

export class BoardState {
  constructor(numPages) {
    this.sum = new Sum();
    this.step = undefined;
    this.page = {
      generation: new Array(numPages),
      ref_count: new Array(numPages),
      fill: new Array(numPages),
      hash: new Array(numPages),
      token: Array.from({ length: numPages }, () => []),
    };
    this.owners = Array.from({ length: numPages }, () => []); // sequence objects, by index
    this.lists = Object.fromEntries(LISTS.map((name) => [name, { head: undefined, next: [] }]));
    this.sequences = new Map(); // id -> object; one without an index is not there
    this.dirtyPages = new Set();
    this.dirtySequences = new Set();
    this.fields = new Map(); // path -> where it is held
  }

  get numPages() {
    return this.owners.length;
  }

  get hash() {
    return this.sum.hex;
  }

  // Sequences that were submitted, in that order.
  get rows() {
    this.inOrder ??= [...this.sequences.values()]
      .filter((sequence) => sequence.index !== undefined)
      .sort((one, other) => one.index - other.index);
    return this.inOrder;
  }

  *list(name) {
    const { head, next } = this.lists[name];
    for (let id = head; id !== undefined; id = next[id]) yield id;
  }

  listLength(name) {
    let length = 0;
    for (const _ of this.list(name)) length++;
    return length;
  }

  pageState(id) {
    if (this.page.ref_count[id]) return "active";
    return this.page.hash[id] === undefined ? "free" : "cached";
  }

  sequence(id) {
    let found = this.sequences.get(id);
    if (found === undefined) {
      found = { id, index: undefined, token: [], page: [], generation: [], host: [] };
      this.sequences.set(id, found);
    }
    return found;
  }

  assign(path, value) {
    const field = this.fields.get(path) ?? this.#field(path);
    const { holder, key } = field;
    const old = holder[key];
    if (old !== undefined) this.sum.subtract(fieldHash(field.start, old));
    if (value !== undefined) this.sum.add(fieldHash(field.start, value));
    holder[key] = value;
    // A table or text that lost its end is shorter, not emptier.
    if (value === undefined && Array.isArray(holder) && key === holder.length - 1) holder.length = key;
    if (field.pageId !== undefined) this.#touchPage(field.pageId);
    if (field.sequence !== undefined) {
      this.dirtySequences.add(field.sequence);
      if (key === "index") this.inOrder = undefined;
      if (field.isTable) this.#moveOwner(field.sequence, old, value);
    }
  }

  // The whole state of a chunk's start (views/frames.py), in place of what is held.
  static from(start) {
    const state = new BoardState(start.generation.length);
    state.assign("step", start.step);
    for (const name of ["generation", "ref_count", "fill"]) {
      start[name].forEach((value, id) => state.assign(`page/${id}/${name}`, value));
    }
    for (const [id, value] of Object.entries(start.hash)) state.assign(`page/${id}/hash`, value);
    for (const [id, tokens] of Object.entries(start.token)) {
      tokens.forEach((token, i) => state.#given(`page/${id}/token/${i}`, token));
    }
    for (const name of LISTS) {
      const ids = start[name];
      if (ids.length) state.assign(`${name}/head`, ids[0]);
      ids.slice(1).forEach((id, i) => state.assign(`${name}/next/${ids[i]}`, id));
    }
    start.seq.forEach((row, index) => {
      const prefix = `seq/${row.id}`;
      state.assign(`${prefix}/index`, index);
      for (const name of SEQUENCE_VALUES) state.#given(`${prefix}/${name}`, row[name]);
      for (const name of SEQUENCE_ROWS) {
        row[name].forEach((value, i) => state.#given(`${prefix}/${name}/${i}`, value));
      }
    });
    return state;
  }

  #given(path, value) {
    if (value !== null) this.assign(path, value);
  }

  #touchPage(id) {
    this.dirtyPages.add(id);
    for (const sequence of this.owners[id]) this.dirtySequences.add(sequence);
  }

  #moveOwner(sequence, oldPage, newPage) {
    if (oldPage !== undefined) {
      this.#touchPage(oldPage);
      const owners = this.owners[oldPage];
      const place = owners.indexOf(sequence);
      if (place >= 0) owners.splice(place, 1);
    }
    if (newPage !== undefined) {
      this.owners[newPage].push(sequence);
      this.owners[newPage].sort((one, other) => one.index - other.index);
      this.#touchPage(newPage);
    }
  }

  #field(path) {
    const parts = path.split("/");
    const field = { holder: this, key: "step", start: fnv(`${path}=`) };
    if (parts[0] === "page") {
      const id = (field.pageId = Number(parts[1]));
      const isToken = parts[2] === "token";
      field.holder = isToken ? this.page.token[id] : this.page[parts[2]];
      field.key = isToken ? Number(parts[3]) : id;
    } else if (parts[0] === "seq") {
      const sequence = (field.sequence = this.sequence(Number(parts[1])));
      const isRow = parts.length === 4;
      field.holder = isRow ? sequence[parts[2]] : sequence;
      field.key = isRow ? Number(parts[3]) : parts[2];
      field.isTable = parts[2] === "page";
    } else if (LISTS.includes(parts[0])) {
      const list = this.lists[parts[0]];
      field.holder = parts[1] === "head" ? list : list.next;
      field.key = parts[1] === "head" ? "head" : Number(parts[2]);
    } else if (path !== "step") {
      throw new Error(`no such field: ${path}`);
    }
    this.fields.set(path, field);
    return field;
  }
}
