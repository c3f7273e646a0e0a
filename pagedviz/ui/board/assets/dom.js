// Elements. Texts are only ever set as text: nothing that comes with a trace is read as HTML.

// h("b", {class: "x", data: {p: 3}}, "text", child, ..)
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false || value === null) continue;
    if (name === "data") Object.assign(element.dataset, value);
    else if (name === "on") {
      for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    } else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (value === undefined || value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

export function setClass(element, text) {
  if (element.className !== text) element.className = text;
}

export const clear = (element) => element.replaceChildren();

// 0 -> A, 25 -> Z, 26 -> AA: a sequence's letter, by its place in the order of submission.
export function letter(place) {
  let text = "";
  for (let rest = place + 1; rest > 0; rest = Math.floor((rest - 1) / 26)) {
    text = String.fromCharCode(65 + ((rest - 1) % 26)) + text;
  }
  return text;
}

export const count = (number, noun) => `${number || "no"} ${noun}${number === 1 ? "" : "s"}`;

export function label(state, pageId) {
  const use = state.page.generation[pageId];
  return use ? `p${pageId}.${use}` : `p${pageId}`;
}

export function badge(sequence, numHues, className = "badge") {
  const place = sequence.index;
  return h("b", { class: `${className} h${place % numHues}`, data: { s: sequence.id } }, letter(place));
}

const NAMES = /(“[^”]*”)|\bseq:(\d+)|\bp(\d+)(?:\.\d+)?\b/g;

// A sentence with its sequences in their colour, letter in front, and its pages in bold; quoted
// token texts are left alone, a prompt may talk about seq:1 too.
export function decorated(text, sequences, numHues) {
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(NAMES)) {
    const [all, quote, seq, page] = found;
    if (found.index > at) nodes.push(text.slice(at, found.index));
    at = found.index + all.length;
    const sequence = seq === undefined ? undefined : sequences.get(Number(seq));
    if (quote !== undefined) nodes.push(h("q", {}, quote.slice(1, -1)));
    else if (page !== undefined) nodes.push(h("b", { class: "name", data: { p: page } }, all));
    else if (sequence?.index === undefined) nodes.push(h("b", {}, all));
    else {
      const { index } = sequence;
      const who = h("b", { class: `who h${index % numHues}`, data: { s: seq } });
      who.append(`${letter(index)} ${all}`);
      nodes.push(who);
    }
  }
  nodes.push(text.slice(at));
  return nodes;
}
