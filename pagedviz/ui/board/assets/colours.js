// Colours of pagedviz/views/theme.py as CSS variables, for the mode in which the page is shown.

const HEX = /^#[0-9a-f]{6}$/i;

export function setColours(root, theme) {
  for (const [name, value] of Object.entries(theme)) {
    if (HEX.test(value)) root.style.setProperty(`--${name}`, value);
  }
  theme.hues.forEach((hue, i) => {
    root.style.setProperty(`--fill-${i}`, hue.fill);
    root.style.setProperty(`--ink-${i}`, hue.ink);
    root.style.setProperty(`--on-ink-${i}`, hue.on_ink);
  });
  root.dataset.theme = theme.name;
  root.style.colorScheme = theme.name;
}

// Dark if what lies behind is: Streamlit says so in a variable, elsewhere the system does.
export function modeOf(root) {
  const background = getComputedStyle(root).getPropertyValue("--st-background-color").trim();
  const numbers = HEX.test(background)
    ? [1, 3, 5].map((i) => parseInt(background.slice(i, i + 2), 16))
    : background.match(/\d+(\.\d+)?/g)?.slice(0, 3).map(Number);
  if (numbers?.length === 3) {
    const [red, green, blue] = numbers;
    return 0.299 * red + 0.587 * green + 0.114 * blue < 128 ? "dark" : "light";
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

// A canvas pattern: grey or hued ground with lines "/" or crosses "x", told apart without colour.
export function pattern(context, ground, ink, sign, size = 6) {
  const tile = document.createElement("canvas");
  const scale = context.getTransform().a || 1;
  tile.width = tile.height = Math.max(2, Math.round(size * scale));
  const pen = tile.getContext("2d");
  const side = tile.width;
  pen.fillStyle = ground;
  pen.fillRect(0, 0, side, side);
  pen.strokeStyle = ink;
  pen.lineWidth = Math.max(1, scale * 1.2);
  pen.beginPath();
  for (const shift of [-side, 0, side]) {
    pen.moveTo(shift, side);
    pen.lineTo(shift + side, 0);
    if (sign === "x") {
      pen.moveTo(shift, 0);
      pen.lineTo(shift + side, side);
    }
  }
  pen.stroke();
  const made = context.createPattern(tile, "repeat");
  made.setTransform(new DOMMatrix().scale(1 / scale));
  return made;
}
