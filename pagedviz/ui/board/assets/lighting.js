// Pointing at anything lights its counterparts everywhere: a token its slot and page, a page its
// places in the texts, a sequence its pages, an event all it touches. A click keeps a page or a
// sequence watched.

import { tokenWords } from "./token_places.js";

const NOTHING = { pages: new Set(), sequences: new Set(), tokens: new Map(), slots: new Map() };

export class Lighting {
  // board: state, run, moment, pool, sequences, events, watch(thing)
  constructor(board, root) {
    this.board = board;
    this.root = root;
    const over = (event) => this.#show(this.#under(event));
    root.addEventListener("pointerover", over);
    root.addEventListener("pointermove", (event) => {
      if (event.target.tagName === "CANVAS") over(event);
    });
    root.addEventListener("pointerleave", () => this.#show(NOTHING));
    root.addEventListener("focusin", over);
    root.addEventListener("click", (event) => this.#watch(event));
    this.key = "";
    this.isDark = true;
  }

  // What was drawn anew has lost its light.
  refresh() {
    if (this.isDark && this.board.watched === undefined) return;
    this.key = "";
    this.#show(NOTHING);
  }

  #watch(event) {
    if (event.target.closest?.("button, select, input, dialog")) return;
    const page = this.#pageUnder(event);
    const sequence = event.target.closest?.("[data-s]")?.dataset.s;
    if (page !== undefined) this.board.watch({ page });
    else if (sequence !== undefined) this.board.watch({ sequence: Number(sequence) });
  }

  #pageUnder(event) {
    const { pool } = this.board;
    if (pool.canvas !== undefined && event.target === pool.canvas) {
      const id = pool.at(event.clientX, event.clientY);
      pool.canvas.title = id === undefined ? "" : pool.words(id);
      return id;
    }
    const text = event.target.closest?.("[data-p]")?.dataset.p;
    return text === undefined ? undefined : Number(text);
  }

  #under(event) {
    const { board } = this;
    const element = event.target;
    const page = this.#pageUnder(event);
    const token = element.closest?.("[data-t]");
    const sequence = element.closest?.("[data-s]")?.dataset.s;
    const row = element.closest?.("[data-e]");
    if (token && sequence !== undefined) return this.#ofToken(Number(sequence), Number(token.dataset.t), token);
    if (page !== undefined) return this.#ofPage(page, element.dataset?.slot);
    if (row) return this.#ofEvent(board.events.numberOf(row.dataset.e));
    if (sequence !== undefined) return this.#ofSequence(Number(sequence));
    return NOTHING;
  }

  #ofToken(id, at, element) {
    const size = this.board.run.overview.block_size;
    // Said when it is asked for: drawing hundreds of tokens is to cost nothing for it.
    element.title = tokenWords(this.board.state, this.board.state.sequence(id), at, size);
    const page = this.board.state.sequence(id).page[Math.floor(at / size)];
    if (page === undefined) return { ...NOTHING, tokens: new Map([[id, at]]) };
    return this.#ofPage(page, at % size, id);
  }

  #ofPage(page, slot) {
    const found = { pages: new Set([page]), sequences: new Set(), tokens: new Map(), slots: new Map() };
    const size = this.board.run.overview.block_size;
    for (const owner of this.board.state.owners[page] ?? []) {
      if (slot !== undefined) found.tokens.set(owner.id, owner.page.indexOf(page) * size + Number(slot));
    }
    if (slot !== undefined) found.slots.set(page, Number(slot));
    return found;
  }

  #ofSequence(id) {
    const sequence = this.board.state.sequence(id);
    return { ...NOTHING, pages: new Set(sequence.page), sequences: new Set([id]) };
  }

  #ofEvent(number) {
    const [pages, sequences, tokens, slots] = this.board.run.event(this.board.moment.step, number).touched;
    const found = { pages: new Set(pages), sequences: new Set(sequences), tokens: new Map(), slots: new Map() };
    if (tokens) found.tokens.set(tokens[0], tokens[1]);
    if (slots.length) found.slots.set(slots[0][0], slots[0][1]);
    return found;
  }

  #show(lit) {
    const { page, sequence } = this.board.watched ?? {};
    const pages = page === undefined ? lit.pages : new Set([...lit.pages, page]);
    const sequences = sequence === undefined ? lit.sequences : new Set([...lit.sequences, sequence]);
    const key = JSON.stringify([[...pages], [...sequences], [...lit.tokens], [...lit.slots]]);
    if (key === this.key) return;
    this.key = key;
    this.isDark = !pages.size && !sequences.size && !lit.tokens.size && !lit.slots.size;
    this.board.pool.light(pages, lit.slots);
    this.board.sequences.light(pages, sequences, lit.tokens);
  }
}
