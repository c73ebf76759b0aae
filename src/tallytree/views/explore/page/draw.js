// Elements, numbers as text, and what stands beside a number. Every label is a text node: nothing is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const WORDS = {
  exact: "exact",
  reliable: "reliable",
  with_care: "use with care",
  unreliable: "unreliable",
  not_distinguishable_from_0: "not distinguishable from 0",
};

function filled(made, attributes, children) {
  for (const [name, each] of Object.entries(attributes || {})) {
    if (typeof each === "function") made.addEventListener(name, each);
    else if (each !== null && each !== undefined && each !== false) made.setAttribute(name, each === true ? "" : each);
  }
  made.append(...children.flat(2).filter((each) => each !== null && each !== undefined && each !== ""));
  return made;
}

const el = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);
const label = (text) => el("bdi", null, text);
const link = (text, hash, attributes) => el("a", { href: hash, ...attributes }, label(text));

const capital = (text) => text[0].toUpperCase() + text.slice(1);

const levelName = (side, named) => sides[side].words[named - 1];

function amount(number) {
  if (number === null || number === undefined) return "";
  return number.toLocaleString("en-US", { maximumFractionDigits: Math.abs(number) < 1000 ? 2 : 0 });
}

// What is said of a row's number: its verdict, how far it may be off, and its interval.
function said(found, row) {
  const number = found.part.number[row],
    lower = value(found, "lower", row),
    upper = value(found, "upper", row);
  const code = value(found, "quality", row);
  const quality = code === null ? null : about.qualities[code];
  if (lower === null || upper === null) return { number, quality, reach: null, words: "Its error is not known." };
  if (quality === "exact") return { number, quality, reach: 0, words: "Exact: published without noise." };
  const verdict = quality ? `${capital(WORDS[quality])}: t` : "T";
  const where = lower === upper ? amount(lower) : `between ${amount(lower)} and ${amount(upper)}`;
  return {
    number,
    quality,
    lower,
    upper,
    reach: Math.max(upper - number, number - lower),
    words: `${verdict}he true number is probably ${where} (${about.sure} sure).`,
  };
}

function dot(quality) {
  return quality ? el("span", { class: `dot ${quality}`, "aria-hidden": "true" }) : null;
}

// How far off a number may be; an interval that is not about as long on both sides is written out. The report says it
// in the same way (`off_by` in views/report/wording.py).
function offText({ number, quality, reach, lower, upper }) {
  if (quality === "exact") return " exact";
  if (reach === null) return "";
  const shorter = Math.min(upper - number, number - lower);
  return reach > 1.5 * shorter + 1 ? ` (${amount(lower)} to ${amount(upper)})` : ` ± ${amount(reach)}`;
}

// "2,640 ± 17" with the dot of its verdict; its interval is shown when it is pointed at or has the focus.
function numberOf(found, row, attributes) {
  const { number, quality, words } = said(found, row),
    off = offText(said(found, row));
  return el(
    "span",
    { class: "number", tabindex: "0", "data-tip": words, ...attributes },
    dot(quality),
    amount(number),
    off ? el("span", { class: off.includes("(") ? "off long" : "off" }, off) : null,
    el("span", { class: "unseen" }, ` ${words}`),
  );
}

function legend() {
  if (![...kept.values()].some((part) => part.quality)) return null;
  const known = about.qualities.map((each) => el("li", null, dot(each), WORDS[each]));
  return el(
    "div",
    { class: "legend" },
    el("ul", { "aria-label": "Verdicts" }, known),
    el(
      "p",
      null,
      `± is how far the true number may be off, ${about.sure} sure. Intervals cover the noise that protects ` +
        "people; errors in the records are not covered.",
    ),
  );
}

// A bar with its interval, on a scale from 0 to `most`.
function bar(found, row, most) {
  const { number, reach, lower, upper } = said(found, row),
    at = (each) => (100 * Math.max(each, 0)) / (most || 1);
  return svg(
    "svg",
    { class: "bar", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { x: 0, y: 1, width: at(number), height: 10 }),
    reach ? svg("path", { d: `M${at(lower)},6H${at(upper)}M${at(lower)},3V9M${at(upper)},3V9` }) : null,
  );
}

const most = (found, rows) =>
  rows.reduce((so, row) => Math.max(so, found.part.number[row], value(found, "upper", row) ?? 0), 0);

function nameOf(places) {
  const names = places.map((place, side) => shownPath(side, place).join(" / "));
  if (!names.some(Boolean)) return `All ${about.noun}`;
  if (about.statistic === "flows") return names.map((name) => name || "everywhere").join(" → ");
  return names.filter(Boolean).join(", ");
}

// What a row is about, without what it has in common with the places that are shown.
function shortName(found, row, places) {
  const { places: own, listed } = placesOf(found, row);
  if (!sides.length) {
    const [from, to] = [value(found, "from", row), value(found, "to", row)];
    return { text: from === to ? amount(from) : `${amount(from)} to ${amount(to)}`, own, listed };
  }
  const parts = own.map((place, side) => {
    const path = shownPath(side, place).slice(Math.min(places[side][0], place[0]));
    if (place[0] < found.named[side]) path.push("not listed");
    return path.join(" / ");
  });
  if (about.statistic === "flows") {
    const ends = parts.map((part, side) => part || shownPath(side, own[side]).at(-1) || "everywhere");
    return { text: ends.join(" → "), own, listed };
  }
  return { text: parts.filter(Boolean).join(", ") || nameOf(own), own, listed };
}

// A file that the browser saves.
function save(name, kind, text) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  const made = el("a", { href: address, download: name });
  document.body.append(made);
  made.click();
  made.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

const quoted = (text) => `"${String(text).replaceAll('"', '""')}"`;

function csvOf(found, rows) {
  const columns = found.named.flatMap((named, side) => sides[side].columns.slice(0, named));
  const numbers = ["from", "to", "number", "members", "lower", "upper"].filter((name) => found.part[name]);
  const lines = [[...columns, ...numbers, ...(found.part.quality ? ["quality"] : [])].map(quoted)];
  for (const row of rows) {
    const { places } = placesOf(found, row);
    const paths = places.flatMap((place, side) => {
      const path = pathOf(side, place);
      return Array.from({ length: found.named[side] }, (_, i) => quoted(path[i] ?? "not listed"));
    });
    const quality = found.part.quality ? [about.qualities[value(found, "quality", row)] ?? ""] : [];
    lines.push([...paths, ...numbers.map((name) => value(found, name, row) ?? ""), ...quality]);
  }
  return lines.map((line) => line.join()).join("\n") + "\n";
}
