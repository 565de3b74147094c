// SPDX-License-Identifier: Apache-2.0
// The table beside the timeline: what each band holds at the pointer, or at the chosen moment, from the highest band to
// the lowest, as they stand in the picture. With what is free it adds up to the capacity.
import {NEEDS_READING, rowAt} from "./data.js";
import {element, sizeCanvas} from "./dom.js";
import {markTextsAt} from "./marks.js";
import {formatBytes, formatElapsed, formatShare, formatUtc} from "./format.js";
import {rowFills, theme} from "./palette.js";
import {momentOfBands, shownBands} from "./site_bands.js";

export function drawSwatch(canvas, fill) {
    const context = sizeCanvas(canvas, 14, 14);
    context.fillStyle = theme().paper;
    context.fillRect(0, 0, 14, 14);
    if (fill) {
        context.fillStyle = typeof fill === "function" ? fill(context) : fill;
        context.fillRect(0, 0, 14, 14);
    }
    context.strokeStyle = theme().line;
    context.strokeRect(0.5, 0.5, 13, 13);
}

export function momentText(state, t) {
    const utc = state.trace().summary.start_utc_ns;
    return utc === null || utc === undefined ? formatElapsed(t) : `${formatElapsed(t)} (${formatUtc(utc + t)})`;
}

// What call sites hold is known at some moments only.
const asOf = (known, t) => (known === t ? "" : `, as of ${formatElapsed(known)}`);

const HEADS = {torch: "in PyTorch\u2019s pool", idle: "in PyTorch\u2019s pool", driver: "this process, outside the pool"};

// Where both have rows, a line above those of PyTorch's pool and one above those outside of it say so.
function addHeads(device, lines) {
    const shown = device.rows.filter((row, r) => !lines[r].hidden);
    if (!shown.some((row) => row.group === "torch") || !shown.some((row) => row.group === "driver"))
        return lines;
    const last = shown.map((row) => HEADS[row.group]);
    const heads = new Map(shown.map((row, k) => [row, last[k] !== last[k + 1] ? last[k] : null]));
    return device.rows.flatMap((row, r) => (heads.get(row) ? [lines[r], element("tr", {class: "head"},
        element("td", {}), element("th", {scope: "rowgroup", colspan: "3"}, heads.get(row)))] : [lines[r]]));
}

export function makeReading(host, onRow) {
    const head = element("caption", {}), body = element("tbody", {}), foot = element("tfoot", {});
    host.append(element("table", {class: "reading"}, head, body, foot));
    let rows = [], shown = null;

    const build = (device) => {
        shown = device;
        body.replaceChildren();
        rows = device.rows.map((row, r) => {
            const swatch = element("canvas", {"aria-hidden": "true"});
            const bytes = element("td", {class: "bytes"}), share = element("td", {class: "share"});
            const over = {onpointerenter: () => onRow(r), onpointerleave: () => onRow(null)};
            const line = element("tr", {"data-row": row.key, ...over}, element("td", {class: "swatch"}, swatch),
                element("th", {scope: "row"}, row.name), bytes, share);
            line.hidden = !device.bytes[r].some((value) => value > 0);
            return {line, swatch, bytes, share};
        });
        body.append(...addHeads(device, rows.map((row) => row.line)).reverse());
        colour();
    };
    const colour = () => {
        if (!shown)
            return;
        rows.forEach((row, r) => drawSwatch(row.swatch, (context) => rowFills(context, shown.rows)[r]));
    };
    const show = (state, moment, phases) => {
        const bands = shownBands(state), at = momentOfBands(state, moment), t = state.device().t[moment];
        if (bands !== shown)
            build(bands);
        head.textContent = momentText(state, t) + asOf(bands.t[at], t);
        head.dataset.t = String(t);
        const said = [...phases.map((phase) => phase.text), ...markTextsAt(state.device(), moment)];
        head.append(element("span", {class: "phase"}, said.join(" \u00b7 ") || "\u00a0"));
        rows.forEach((row, r) => {
            const value = rowAt(bands, r, at);
            row.bytes.textContent = formatBytes(value);
            row.line.classList.toggle("nothing", value === 0);
            row.bytes.dataset.bytes = value === null ? "" : String(value);
            row.share.textContent = formatShare(value, bands.capacity);
        });
        showSum(foot, bands, at);
    };
    return {show, colour};
}

function showSum(foot, device, moment) {
    const known = device.rows.filter((row, r) => rowAt(device, r, moment) !== null);
    const sum = known.reduce((total, row) => total + device.bytes[device.rows.indexOf(row)][moment], 0);
    const text = device.read[moment] ? "capacity" : "tracked; the device had not been read yet";
    foot.replaceChildren(element("tr", {}, element("td", {}), element("th", {scope: "row"}, text),
        element("td", {class: "bytes", "data-bytes": String(sum)}, formatBytes(sum)),
        element("td", {class: "share"}, formatShare(sum, device.capacity))));
}

// One sentence for those who hear the page.
export function spokenReading(state, moment) {
    const device = state.device(), bands = shownBands(state), at = momentOfBands(state, moment), parts = [];
    bands.rows.forEach((row, r) => {
        const value = rowAt(bands, r, at);
        if (value !== null && (value > 0 || NEEDS_READING[row.group]))
            parts.unshift(`${row.title} ${formatBytes(value)}`);
    });
    const time = momentText(state, device.t[moment]) + asOf(bands.t[at], device.t[moment]);
    return `${[time, ...markTextsAt(device, moment)].join(", ")}: ${parts.join(", ")}`;
}
