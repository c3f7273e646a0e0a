// A recorded run as it arrives: the overview first, then chunks of steps (pagedviz/views/frames.py).
//
// Places number the states: step s begins at starts[s], one place for each of its events and one for
// its end, which is where the next step begins. Patch p leads from place p to place p + 1.

import { BoardState } from "./state.js";

const CHUNKS_AHEAD = 6;
const CHUNKS_BEHIND = 3;
const KEYFRAME_PAYS_FROM = 2500; // patches; a nearer state is reached patch by patch

// base64 of gzipped JSON -> data
export async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

export class Run {
  constructor(overview) {
    this.chunks = new Map();
    this.waiting = new Map(); // chunk number -> functions to call when it is there
    this.texts = new Map(); // token id -> its text
    this.grow(overview);
  }

  // The same run with more steps.
  grow(overview) {
    this.overview = overview;
    this.numSteps = overview.num_steps;
    this.chunkSteps = overview.chunk_steps;
    this.numChunks = Math.ceil(this.numSteps / this.chunkSteps);
    this.starts = [0];
    for (const count of overview.num_events) this.starts.push(this.starts.at(-1) + count + 1);
  }

  add(chunk) {
    const number = Math.floor(chunk.first / this.chunkSteps);
    chunk.changes = Int32Array.from(chunk.changes);
    chunk.changeEnds = [0];
    for (const size of chunk.sizes) chunk.changeEnds.push(chunk.changeEnds.at(-1) + size);
    chunk.eventStarts = [0];
    for (const count of chunk.events) chunk.eventStarts.push(chunk.eventStarts.at(-1) + count);
    this.chunks.set(number, chunk);
    for (const [id, text] of Object.entries(chunk.tokens)) this.texts.set(Number(id), text);
    for (const tell of this.waiting.get(number) ?? []) tell();
    this.waiting.delete(number);
  }

  chunkNumber(step) {
    return Math.floor(step / this.chunkSteps);
  }

  chunkOf(step) {
    const chunk = this.chunks.get(this.chunkNumber(step));
    return chunk && step < chunk.first + chunk.num_steps ? chunk : undefined;
  }

  // Whether all steps of a chunk are there that the run has: the last chunk of a run that grows is
  // replaced by a longer one.
  has(number) {
    const chunk = this.chunks.get(number);
    return chunk !== undefined && chunk.num_steps >= Math.min(this.chunkSteps, this.numSteps - number * this.chunkSteps);
  }

  // Resolves when the chunk is there; who asks for it is not known here.
  arrival(number) {
    if (this.has(number)) return Promise.resolve();
    return new Promise((tell) => {
      this.waiting.set(number, [...(this.waiting.get(number) ?? []), tell]);
    });
  }

  // A chunk that somebody waits for; undefined if nobody does.
  awaited() {
    return this.waiting.keys().next().value;
  }

  // The first chunk not there of those that somebody at `number` may step into soon; undefined if
  // all are.
  missing(number) {
    const last = Math.min(number + CHUNKS_AHEAD, this.numChunks - 1);
    const near = Array.from({ length: last - number + 1 }, (_, i) => number + i);
    for (let i = 1; i <= CHUNKS_BEHIND && number - i >= 0; i++) near.push(number - i);
    for (const candidate of near) {
      if (!this.has(candidate)) return candidate;
    }
    return undefined;
  }

  numEvents(step) {
    return this.overview.num_events[step];
  }

  place({ step, event }) {
    return event === null ? this.starts[step + 1] : this.starts[step] + event;
  }

  // How much of the run lies before a moment: event e of n is at e/n of its step.
  share({ step, event }) {
    const total = this.numEvents(step);
    return (step + (event === null || !total ? 1 : event / total)) / this.numSteps;
  }

  // ---- what is known of an event, numbered from 1 in its step ---------------------------------

  event(step, number) {
    const chunk = this.chunkOf(step);
    const row = chunk.eventStarts[step - chunk.first] + number - 1;
    return { chunk, row, kind: this.overview.kinds[chunk.kinds[row]], touched: chunk.touched[row] };
  }

  line(step, number) {
    const { chunk, row } = this.event(step, number);
    return spoken(chunk, chunk.lines[row]);
  }

  sentence({ step, event }) {
    const chunk = this.chunkOf(step);
    if (event === null) return spoken(chunk, chunk.ends[step - chunk.first]);
    if (event === 0) return spoken(chunk, chunk.begins[step - chunk.first]);
    return spoken(chunk, chunk.says[this.event(step, event).row]);
  }

  tokenText(id) {
    if (id === undefined) return "?";
    return this.texts.get(id) ?? `#${id}`;
  }

  // ---- moving ---------------------------------------------------------------------------------

  // The state at place `to`, given `state` at place `from` (undefined: none yet). The chunk of
  // `step`, in which `to` lies, must be there.
  seek(state, from, to, step) {
    const chunk = this.chunkOf(step);
    if (state === undefined || !this.#hasAllBetween(from, to) || Math.abs(to - from) > KEYFRAME_PAYS_FROM) {
      state = BoardState.from(chunk.start);
      from = this.starts[chunk.first];
    }
    let at = from;
    for (; at < to; at++) this.#apply(state, at, 2);
    for (; at > to; at--) this.#apply(state, at - 1, 1);
    return state;
  }

  #hasAllBetween(from, to) {
    const first = this.chunkNumber(this.#stepOfPatch(Math.min(from, to)));
    const last = this.chunkNumber(this.#stepOfPatch(Math.max(from, to, 1) - 1));
    for (let number = first; number <= last; number++) if (!this.chunks.has(number)) return false;
    return true;
  }

  #stepOfPatch(patch) {
    let low = 0;
    let high = this.numSteps - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= patch) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // side: 1 assigns the old values, last first; 2 the new ones.
  #apply(state, patch, side) {
    const step = this.#stepOfPatch(patch);
    const chunk = this.chunkOf(step);
    const row = patch - this.starts[chunk.first];
    let first = chunk.changeEnds[row];
    let last = chunk.changeEnds[row + 1];
    const by = side === 2 ? 1 : -1;
    if (by < 0) [first, last] = [last - 1, first - 1];
    for (let i = first; i !== last; i += by) {
      const code = chunk.changes[3 * i + side];
      const value = code < 0 ? undefined : code & 1 ? chunk.strings[code >> 1] : code >> 1;
      state.assign(chunk.paths[chunk.changes[3 * i]], value);
    }
  }
}

function spoken(chunk, [number, ...values]) {
  const parts = chunk.parts[number];
  return parts.reduce((text, part, i) => text + values[i - 1] + part);
}
