// What a pool holds, counted from the state of a moment.

import { count } from "./dom.js";

// numPages: null when the trace does not tell
export function hostWords(state, numPages) {
  const held = state.rows.reduce((sum, row) => sum + row.host.length, 0);
  return numPages === null ? `host: ${count(held, "page")}` : `host: ${held} of ${count(numPages, "page")}`;
}

export function totalsOf(state, blockSize) {
  const totals = { active: 0, cached: 0, free: 0, empty: 0 };
  for (let id = 0; id < state.numPages; id++) {
    const kind = state.pageState(id);
    totals[kind]++;
    if (kind === "active") totals.empty += blockSize - state.page.fill[id];
  }
  return totals;
}

export function poolWords({ active, cached, free }, { host, num_pages, block_size }) {
  const name = host ? "" : "Page pool · ";
  return `${name}${num_pages} pages of ${block_size} slots · ${active} active, ${cached} cached, ${free} free`;
}
