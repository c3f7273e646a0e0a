// The board as a Streamlit component: unpacks what Python sends, tells Python where it rests.
//
// Python sends {run, overview, chunk, go: {id, step, event}, hints, bookmarks, presenter}; overview and chunk are packed
// texts that stay the same as long as they say the same. State values are absolute, so that one that
// is sent twice, or overtaken by the next, does no harm.

import { mount } from "./board.js";
import { unpack } from "./run.js";

const entries = new WeakMap();
// Once in the life of a page Python hears that a board is there: what is slow to load waits for it.
let isTold = false;
// Where each run was last looked at, for a board that is taken away and placed again with its screen.
const places = new Map();

export default function board({ data, parentElement, setStateValue }) {
  let entry = entries.get(parentElement);
  if (entry === undefined) {
    entry = { latest: undefined, work: Promise.resolve(), setStateValue };
    entries.set(parentElement, entry);
  }
  entry.latest = data;
  entry.setStateValue = setStateValue;
  entry.work = entry.work.then(() => update(entry, parentElement)).catch((error) => console.error("board:", error));
  return () => {
    // Streamlit also takes back a call that a newer one has overtaken: the board's place is there still.
    if (parentElement.isConnected) return;
    entries.delete(parentElement);
    entry.isGone = true;
    entry.board?.destroy();
  };
}

async function update(entry, parentElement) {
  const data = entry.latest;
  if (entry.isGone) return;
  // Streamlit also calls when nothing but its theme has changed.
  if (entry.done === data) {
    entry.board?.recolour();
    return;
  }
  const tell = (name, value) => entry.setStateValue(name, value);
  // Of two requests Python answers the later one, and the same twice are two.
  const ask = (name, value) => {
    entry.asked = Math.max((entry.asked ?? 0) + 1, Date.now());
    tell(name, { ...value, asked: entry.asked });
  };
  if (entry.run !== data.run) {
    const overview = await unpack(data.overview);
    if (entry.isGone) return;
    entry.board?.destroy();
    entry.run = data.run;
    entry.goId = data.go.id;
    entry.chunk = undefined;
    entry.overview = data.overview;
    const place = places.get(data.run);
    const start = place?.goId === data.go.id ? place : data.go;
    entry.board = mount(parentElement, {
      overview,
      moment: start,
      byEvent: start.byEvent ?? start.by_event,
      hints: data.hints,
      bookmarks: data.bookmarks,
      isPresenting: entry.isPresenting ?? data.presenter,
      calls: {
        rested: ({ step, event }, byEvent) => {
          places.set(data.run, { goId: entry.goId, step, event, byEvent });
          tell("cursor", { run: data.run, step, event });
        },
        want: (number) => ask("want", { run: data.run, number }),
        more: (from) => ask("more", { run: data.run, from }),
        bookmarked: (bookmarks) => tell("bookmarks", { run: data.run, bookmarks }),
        presented: (on) => {
          entry.isPresenting = on;
          tell("presenter", { run: data.run, on });
        },
        watched: (thing) => tell("watched", { run: data.run, thing }),
      },
    });
  }
  if (entry.chunk !== data.chunk) {
    entry.chunk = data.chunk;
    const chunk = await unpack(data.chunk);
    if (entry.isGone) return;
    entry.board.addChunk(chunk);
    if (!isTold) {
      isTold = true;
      // The board draws in this frame too, so this comes after it was painted.
      requestAnimationFrame(() => setTimeout(() => tell("painted", true)));
    }
  }
  // After the chunk, so that presses which wait for its steps find them.
  if (entry.overview !== data.overview) {
    entry.overview = data.overview;
    const overview = await unpack(data.overview);
    if (entry.isGone) return;
    entry.board.grow(overview);
  }
  if (entry.goId !== data.go.id) {
    entry.goId = data.go.id;
    entry.board.obey(data.go);
  }
  entry.board.recolour();
  entry.done = data;
}
