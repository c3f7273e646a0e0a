// The time strip of the Compare screen: what Python draws, and over it a slider of the browser's own,
// so that a click, an arrow key or a screen reader goes to a step.
//
// Python sends {run, html, step, last}; it is told the step, absolute, when the slider comes to rest.

const PATIENCE = 2000; // ms in which an answer about an earlier press does not move the slider back

const strips = new WeakMap();

export default function strip({ data, parentElement, setTriggerValue }) {
  let entry = strips.get(parentElement);
  if (entry === undefined) {
    entry = new Strip(parentElement);
    strips.set(parentElement, entry);
  }
  // Nothing to take away: Streamlit asks for that also when it draws again, and the focus would go.
  entry.update(data, (step) => setTriggerValue("went", { run: data.run, step }));
}

class Strip {
  constructor(parent) {
    this.root = document.createElement("div");
    this.root.className = "timestrip";
    this.drawing = document.createElement("div");
    this.slider = document.createElement("input");
    this.slider.type = "range";
    this.slider.min = "0";
    this.slider.setAttribute("aria-label", "Step, on the strip of differences");
    this.root.append(this.drawing, this.slider);
    parent.append(this.root);
    this.slider.addEventListener("input", () => this.#point());
    this.slider.addEventListener("change", () => this.#go());
    // The screen has these keys too: one press is one step.
    this.slider.addEventListener("keydown", (event) => event.stopPropagation());
  }

  update(data, go) {
    this.go = go;
    if (this.html !== data.html) {
      this.html = data.html;
      this.drawing.innerHTML = data.html;
    }
    if (this.run !== data.run) this.sent = undefined;
    this.run = data.run;
    this.slider.max = String(data.last);
    this.slider.disabled = data.last === 0;
    this.root.style.setProperty("--steps", data.last + 1);
    const isLate = this.sent !== undefined && this.sent.step !== data.step && Date.now() - this.sent.time < PATIENCE;
    if (isLate) return this.#point();
    this.sent = undefined;
    this.slider.value = String(data.step);
    this.#point();
  }

  #go() {
    this.sent = { step: Number(this.slider.value), time: Date.now() };
    this.go(this.sent.step);
  }

  // The mark of "now" goes with the slider, ahead of Python's answer.
  #point() {
    const [step, last] = [Number(this.slider.value), Number(this.slider.max)];
    this.root.style.setProperty("--now", `${(100 * (step + 0.5)) / (last + 1)}%`);
    this.slider.setAttribute("aria-valuetext", `step ${step} of ${last}`);
  }
}
