// The sequences: state, text cut where its pages begin and end, and the page behind each piece.
//
// A card has one height for the whole run. Only pieces that changed are made anew: what a piece
// shows is its key, and tokens never change once they are known.

import { badge, count, h, setAttribute, setClass, setText } from "./dom.js";
import { holds } from "./now.js";
import { chipText, noteText } from "./sequence_words.js";
import { cutOf, cutWords } from "./strip_cut.js";

const ALL_SHOWN_UP_TO = 12;
const ENDED_NAMED = 40;
const TOKENS_IN_A_LINE = 64; // no line shows more

export class SequenceList {
  constructor(run, numHues) {
    this.run = run;
    this.numHues = numHues;
    this.cards = new Map(); // sequence id -> card
    this.now = new Set();
    this.drawn = new Set(); // cards that may have been cut elsewhere since it was said
    this.list = h("div", { role: "group", tabindex: 0, "aria-label": "Sequences, in order of arrival" });
    this.fit();
    this.none = h("p", { class: "none" }, "No request has arrived yet: step on");
    this.ended = h("p", { class: "ended" });
    this.list.append(this.none, this.ended);
    this.element = this.list;
    const scrolled = ({ target }) => this.#sayCut([...this.cards.values()].filter((card) => card.text === target));
    this.list.addEventListener("scroll", scrolled, { capture: true, passive: true });
  }

  // So many need room at once, the others of the run a line each: no card changes its size.
  fit() {
    const { lanes, most_at_once: most } = this.run.overview;
    const total = lanes.length;
    const live = Math.max(most, 1);
    const room = total <= 1 ? "alone" : live <= 3 ? "wide" : live <= 6 ? "close" : "dense";
    this.isDense = room === "dense";
    setClass(this.list, `rows ${room}`);
    this.list.style.setProperty("--lanes", live);
    this.list.style.setProperty("--ended", total <= ALL_SHOWN_UP_TO ? total - live : 1);
  }

  // place: of the moment, as Run counts them
  draw(state, focus, dirty, place) {
    this.place = place;
    const rows = state.rows;
    const isLong = this.run.overview.lanes.length > ALL_SHOWN_UP_TO;
    const shown = isLong ? rows.filter((row) => row.finish_reason === undefined || focus.sequences.has(row.id)) : rows;
    const ids = new Set(shown.map((row) => row.id));
    for (const [id, card] of this.cards) {
      if (!ids.has(id)) {
        card.element.remove();
        this.cards.delete(id);
      }
    }
    let previous = this.none;
    for (const row of shown) {
      let card = this.cards.get(row.id);
      const isNew = card === undefined;
      if (isNew) {
        card = this.#card(row);
        this.cards.set(row.id, card);
      }
      if (previous.nextSibling !== card.element) previous.after(card.element);
      previous = card.element;
      const isMarked = focus.sequences.has(row.id) || focus.tokens.has(row.id) || this.now.has(row.id);
      if (isNew || isMarked || dirty === undefined || dirty.has(row)) this.#update(state, card, row, focus);
    }
    this.now = new Set([...focus.sequences, ...focus.tokens.keys()]);
    this.none.hidden = rows.length > 0;
    this.#drawEnded(isLong ? rows.filter((row) => !ids.has(row.id)) : []);
  }

  #drawEnded(rows) {
    this.ended.hidden = rows.length === 0;
    const key = `${rows.length} ${rows.at(-1)?.id}`;
    if (this.ended.dataset.key === key) return;
    this.ended.dataset.key = key;
    const more = rows.length > ENDED_NAMED ? `${rows.length - ENDED_NAMED} earlier and ` : "";
    this.ended.replaceChildren(`Finished: ${more}`, ...rows.slice(-ENDED_NAMED).map((row) => badge(row, this.numHues)));
  }

  #card(row) {
    const name = row.name === `seq:${row.id}` ? undefined : h("span", { class: "name" }, row.name);
    const chip = h("span", { class: "chip" });
    const note = h("span", { class: "note" });
    const cut = h("span", { class: "cut" }, h("span"), h("span", { class: "shared" }), h("span"));
    const groups = h("div", { class: "groups" });
    const adapter = row.adapter ? h("span", { class: "chip adapter" }, `adapter ${row.adapter}`) : undefined;
    const parent = row.parent === undefined ? undefined : h("span", { class: "chip fork", data: { s: row.parent } }, `fork of seq:${row.parent}`);
    const head = h("header", {}, badge(row, this.numHues), h("b", {}, `seq:${row.id}`), name, adapter, parent, chip, h("span", { class: "notes" }, note, cut));
    const text = h("div", { class: "text", tabindex: 0, role: "group", "aria-label": `Text of seq:${row.id}` }, groups);
    const element = h("article", { data: { s: row.id } }, head, text);
    return { element, chip, note, cut, text, groups, pieces: [], more: h("span", { class: "more" }) };
  }

  #update(state, card, row, focus) {
    const isNow = focus.sequences.has(row.id);
    const lit = card.element.classList.contains("lit") ? " lit" : "";
    const now = isNow ? " now" : "";
    setClass(card.element, `seq h${row.index % this.numHues} ${row.state}${now}${lit}`);
    setText(card.chip, chipText(row));
    setClass(card.chip, row.state === "prefilling" || row.state === "decoding" ? "chip strong" : "chip");
    setText(card.note, this.#note(state, row));
    setAttribute(card.note, "title", this.#lastTable(row).map((name, i) => `${i} → ${name}`).join(", ") || null);
    this.#updatePieces(state, card, row, focus);
    if (isNow && row.page.length === 0) showNow(card.text);
    card.row = row;
    card.state = state;
    this.drawn.add(card);
  }

  // After all is drawn: it asks where things lie, which costs a layout that is due anyway.
  sayCut() {
    this.#sayCut([...this.drawn].filter((card) => card.element.isConnected));
    this.drawn.clear();
  }

  #sayCut(cards) {
    const said = cards.map(({ row, state, text, groups, pieces }) => {
      if (row.state === "finished") return ["", "", ""]; // its one line fades out
      const pages = pieces.filter((piece) => piece?.pageId !== undefined);
      if (!pages.length) return cutWords(cutOf(text, [...groups.querySelectorAll(".t")]), "token");
      const { before, after } = cutOf(text, pages.map((piece) => piece.element));
      const all = row.page.length - pages.length + before; // those that are not even drawn
      const shared = row.page.slice(0, all).filter((id) => state.page.ref_count[id] > 1).length;
      return cutWords({ before: all, after }, "page", shared);
    });
    cards.forEach(({ cut }, i) => said[i].forEach((text, part) => setText(cut.children[part], text)));
  }

  #note(state, row) {
    const cost = row.num_preemptions ? `, preempted ${row.num_preemptions}×${this.#recomputed(row.id)}` : "";
    const table = this.#lastTable(row);
    const names = table.length > 3 ? [...table.slice(0, 2), "…", table.at(-1)] : table;
    return noteText(state, row) + (names.length ? `, last in ${names.join(" ")}` : "") + cost;
  }

  // The pages of a finished sequence, which has let go of them.
  #lastTable(row) {
    return row.state === "finished" ? (this.run.overview.last_tables[row.id] ?? []) : [];
  }

  // What preemptions have cost a sequence up to the moment.
  #recomputed(id) {
    let sum = 0;
    for (const [step, event, resumed, tokens] of this.run.overview.resumes) {
      if (resumed === id && this.run.place({ step, event }) <= this.place) sum += tokens;
    }
    return sum ? `, ${count(sum, "token")} computed again` : "";
  }

  #updatePieces(state, card, row, focus) {
    const size = this.run.overview.block_size;
    const total = Math.max(row.page.length, Math.ceil(row.num_tokens / size));
    const isStarted = row.state === "prefilling" || row.state === "decoding";
    // Of what is still to be computed only the next page's worth, or the front is out of sight.
    const shown = isStarted ? Math.min(total, row.page.length + 1) : total;
    const spans = focus.tokens.get(row.id);
    // A text in one line loses its start, which need not be there then.
    const hasOneLine = this.isDense && isStarted;
    const tail = hasOneLine ? Math.max(0, shown - Math.ceil(TOKENS_IN_A_LINE / size) - 1) : 0;
    // Of a finished text the answer is what one wants to read, and it has one line.
    const first = row.state === "finished" ? Math.floor(row.num_prompt_tokens / size) : tail;
    card.groups.classList.toggle("headless", first > 0);
    for (let index = 0; index < first; index++) {
      card.pieces[index]?.element.remove();
      card.pieces[index] = undefined;
    }
    for (let index = shown - 1; index >= first; index--) {
      const piece = this.#pieceOf(state, row, index, size, focus, spans);
      const old = card.pieces[index];
      if (old?.key === piece.key) continue;
      const element = this.#piece(row, piece);
      if (old) old.element.replaceWith(element);
      else card.groups.insertBefore(element, card.pieces[index + 1]?.element ?? (card.more.parentNode ? card.more : null));
      card.pieces[index] = { key: piece.key, element, pageId: piece.pageId };
    }
    for (const piece of card.pieces.splice(shown)) piece?.element.remove();
    const left = row.num_tokens - shown * size;
    setText(card.more, left > 0 ? `and ${left} more tokens` : "");
    if (left > 0) card.groups.append(card.more);
    else card.more.remove();
  }

  #pieceOf(state, row, index, size, focus, spans) {
    const pageId = row.page[index];
    const first = index * size;
    const last = Math.min(first + size, row.num_tokens);
    const isHit = pageId !== undefined && first < row.num_cached;
    const refs = pageId === undefined ? 0 : state.page.ref_count[pageId];
    const hostId = row.host[index];
    const label = pageId === undefined ? (hostId === undefined ? "" : `host ${hostId}`) : `p${pageId}.${row.generation[index]}`;
    const isNow = pageId !== undefined && focus.pages.has(pageId);
    const computed = Math.max(0, Math.min(row.num_computed, last) - first);
    const marks = spans ? spans.filter(([low, high]) => low < last && high > first).join(";") : "";
    const key = `${label} ${refs} ${isHit} ${isNow} ${last} ${computed} ${marks}`;
    return { index, pageId, first, last, isHit, refs, label, isNow, computed, spans: marks ? spans : undefined, key };
  }

  #piece(row, { index, pageId, first, last, isHit, refs, label, isNow, computed, spans }) {
    const tokens = h("span", { class: "tokens" });
    for (let at = first; at < last; at++) {
      const kind =
        (at - first < computed ? "t" : "t todo") +
        (at >= row.num_prompt_tokens ? " new" : "") +
        (holds(spans, at) ? " now" : "");
      tokens.append(
        h("span", { class: kind, data: { t: at } }, this.run.tokenText(row.token[at])),
      );
    }
    if (pageId === undefined && !label) return h("span", { class: "group todo" }, tokens);
    if (pageId === undefined) {
      const title = `the keys and values of page ${index} wait in page ${label.slice(5)} of the host`;
      return h("span", { class: "group hosted", title }, tokens, h("span", { class: "at" }, `${index} → ${label}`));
    }
    const shared = refs > 1 ? ` ×${refs}` : "";
    const where = isHit ? "from the prefix cache" : "computed by this sequence";
    return h(
      "span",
      {
        class: `group${isHit ? " hit" : ""}${isNow ? " now" : ""}`,
        title: `page ${index} is ${label}, ${where}`,
        data: { p: pageId },
      },
      tokens,
      h("span", { class: "at" }, `${index} → ${label}${shared}`),
    );
  }

  // tokens: sequence id -> position
  light(pages, sequences, tokens) {
    for (const element of this.list.querySelectorAll(".lit")) element.classList.remove("lit");
    for (const [id, card] of this.cards) {
      card.element.classList.toggle("lit", sequences.has(id));
      for (const piece of card.pieces) {
        if (piece && pages.has(piece.pageId)) piece.element.classList.add("lit");
      }
      const at = tokens.get(id);
      if (at !== undefined) card.groups.querySelector(`[data-t="${at}"]`)?.classList.add("lit");
    }
  }
}

// Of a text that does not fit the part that is marked, such as where a lookup ended.
function showNow(text) {
  const mark = text.querySelector(".t.now");
  text.scrollTop = mark ? mark.offsetTop - 2 : 0;
  text.scrollLeft = mark ? Math.max(0, mark.offsetLeft - text.clientWidth / 2) : 0;
}
