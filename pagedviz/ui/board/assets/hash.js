// The 64-bit state hash of pagedviz/engine/state_hash.py, in pairs of 32-bit halves: the sum over
// all fields of fnv1a("path=value"), finished as murmur3 does. Numbers count as their decimal text.

const PRIME_LOW = 0x1b3; // the prime is 2**40 + 0x1b3

// FNV-1a over the UTF-8 bytes of `text`, going on from `from`; a lone surrogate counts as three bytes.
export function fnv(text, from = [0xcbf29ce4, 0x84222325]) {
  let [high, low] = from;
  const take = (byte) => {
    low = (low ^ byte) >>> 0;
    const product = low * PRIME_LOW; // below 2**41: exact
    high = (Math.imul(high, PRIME_LOW) + Math.floor(product / 0x100000000) + (low << 8)) >>> 0;
    low = product >>> 0;
  };
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x80) {
      take(code);
      continue;
    }
    const point = text.codePointAt(i);
    if (point < 0x800) {
      take(0xc0 | (point >> 6));
    } else if (point < 0x10000) {
      take(0xe0 | (point >> 12));
      take(0x80 | ((point >> 6) & 63));
    } else {
      take(0xf0 | (point >> 18));
      take(0x80 | ((point >> 12) & 63));
      take(0x80 | ((point >> 6) & 63));
      i++;
    }
    take(0x80 | (point & 63));
  }
  return [high, low];
}

function times(high, low, factorHigh, factorLow) {
  const a = low >>> 16;
  const b = low & 0xffff;
  const c = factorLow >>> 16;
  const d = factorLow & 0xffff;
  const inner = b * d;
  const middle = a * d + (inner >>> 16); // below 2**33: exact
  const other = b * c + (middle % 0x10000);
  const newLow = (((other & 0xffff) << 16) | (inner & 0xffff)) >>> 0;
  const carry = a * c + Math.floor(middle / 0x10000) + Math.floor(other / 0x10000);
  const newHigh = (Math.imul(high, factorLow) + Math.imul(low, factorHigh) + carry) >>> 0;
  return [newHigh, newLow];
}

function finished([high, low]) {
  low = (low ^ (high >>> 1)) >>> 0;
  [high, low] = times(high, low, 0xff51afd7, 0xed558ccd);
  low = (low ^ (high >>> 1)) >>> 0;
  [high, low] = times(high, low, 0xc4ceb9fe, 0x1a85ec53);
  return [high, (low ^ (high >>> 1)) >>> 0];
}

// `start` is fnv(path + "=").
export const fieldHash = (start, value) => finished(fnv(String(value), start));

export class Sum {
  constructor() {
    this.high = 0;
    this.low = 0;
  }

  add([high, low]) {
    const sum = this.low + low;
    this.low = sum >>> 0;
    this.high = (this.high + high + (sum > 0xffffffff ? 1 : 0)) >>> 0;
  }

  subtract([high, low]) {
    const difference = this.low - low;
    this.low = difference >>> 0;
    this.high = (this.high - high - (difference < 0 ? 1 : 0)) >>> 0;
  }

  get hex() {
    return this.high.toString(16).padStart(8, "0") + this.low.toString(16).padStart(8, "0");
  }
}
