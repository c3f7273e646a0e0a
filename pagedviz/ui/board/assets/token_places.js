// Where a token is at a moment: in which page of its sequence's table, in which slot.

import { label } from "./dom.js";

// "token 20 of seq:1 lily", as it is asked for: {token, sequence or undefined}; undefined if `query`
// asks for something else.
export function askedToken(query) {
  const [, before, token, after] = /^(?:seq:(\d+)\s+)?token\s+(\d+)(?:\s+of\s+seq:(\d+))?$/i.exec(query) ?? [];
  if (token === undefined) return undefined;
  const sequence = before ?? after;
  return { token: Number(token), sequence: sequence === undefined ? undefined : Number(sequence) };
}

// The page that holds token `at`, undefined if it is in none.
export function pageOfToken(row, at, size) {
  return row.page[Math.floor(at / size)];
}

export function tokenWords(state, row, at, size) {
  const index = Math.floor(at / size);
  const name = row.name === `seq:${row.id}` ? "" : ` ${row.name}`;
  const who = `token ${at} of seq:${row.id}${name}`;
  const page = pageOfToken(row, at, size);
  if (page !== undefined) {
    const todo = at < row.num_computed ? "" : ", not computed yet";
    return `${who}: page ${index} of its table, ${label(state, page)} slot ${at % size}${todo}`;
  }
  const host = row.host[index];
  return host === undefined ? `${who}: in no page` : `${who}: page ${index} of its table, page ${host} of the host`;
}
