// Keys, wherever the focus is: not in text fields, not where a widget needs the key itself. Of the
// board's own lists n runs on: that is what comes after a choice of what to run until.

const OWN_ARROWS =
  "slider radio tab menuitem menuitemradio menuitemcheckbox option combobox listbox grid gridcell treegrid tree spinbutton scrollbar".split(" ");
const PRESSED_BY_SPACE = "BUTTON A SUMMARY INPUT SELECT TEXTAREA".split(" ");
const NO_TEXT = "range button checkbox radio submit reset color file image".split(" ");

function takesText(target, key, isOurs) {
  if (target.tagName === "SELECT") return !(isOurs && key === "n");
  if (target.isContentEditable || target.tagName === "TEXTAREA") return true;
  return target.tagName === "INPUT" && !NO_TEXT.includes(target.type);
}

// isOurs(element): it lies on the board. Returns a function that stops listening.
export function listen(isOurs, isBlocked, act) {
  const pressed = (event) => {
    const target = event.composedPath()[0];
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!(target instanceof Element) || takesText(target, event.key, isOurs(target)) || isBlocked()) return;
    const command = commandOf(event, target, isOurs(target), act);
    if (command === undefined) return;
    event.preventDefault();
    command();
  };
  window.addEventListener("keydown", pressed);
  return () => window.removeEventListener("keydown", pressed);
}

function commandOf(event, target, isOurs, act) {
  const isWidget = !isOurs && (OWN_ARROWS.includes(target.getAttribute("role")) || target.tagName === "INPUT");
  switch (event.key) {
    case "ArrowRight":
      return isWidget ? undefined : () => act.forward(event.shiftKey || undefined);
    case "ArrowLeft":
      return isWidget ? undefined : () => act.back(event.shiftKey || undefined);
    case "Home":
      return isWidget ? undefined : act.first;
    case "End":
      return isWidget ? undefined : act.last;
    case " ": {
      const isPressed = PRESSED_BY_SPACE.includes(target.tagName) && target.type !== "range";
      return isPressed || target.getAttribute("role") === "button" ? undefined : act.play;
    }
    case "n":
      return () => act.until(1);
    case "p":
      return () => act.until(-1);
    case "b":
      return act.bookmark;
    case "/":
      return act.search;
    case "l":
      return act.presenter;
    case "t":
      return act.table;
    case "?":
      return act.keys;
    default:
      return undefined;
  }
}
