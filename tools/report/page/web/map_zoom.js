// SPDX-License-Identifier: Apache-2.0
// The part of the address space that the map shows: its parts from `low` to before `high`. Dragging up or down chooses
// it, as do buttons and keys.
import {button, element} from "./dom.js";
import {formatBytes} from "./format.js";
import {NOTHING, addressOf, rangeOf} from "./map_data.js";

const LEAST = 4; // parts that are shown

export const wholeOf = (map) => ({low: 0, high: map.rows});
export const isWhole = (map, {low, high}) => low === 0 && high === map.rows;

// Parts from one to before another, at least LEAST of those that there are.
export function clampRows(map, low, high) {
    const size = Math.min(map.rows, Math.max(LEAST, Math.round(high) - Math.round(low)));
    const begin = Math.min(Math.max(0, Math.round(low)), map.rows - size);
    return {low: begin, high: begin + size};
}

// Shows fewer or more parts around one of them.
export function zoomRows(map, {low, high}, row, factor) {
    const centre = row >= low && row < high ? row + 0.5 : (low + high) / 2;
    return clampRows(map, centre - (centre - low) * factor, centre + (high - centre) * factor);
}

// The memory around a part at a moment, up to where nothing is allocated.
export function memoryAround(map, column, row) {
    const owners = map.columns[column], range = rangeOf(map, row);
    let low = row, high = row + 1;
    while (low > range.first_row && owners[low - 1] !== NOTHING)
        low--;
    while (high < range.first_row + range.rows && owners[high] !== NOTHING)
        high++;
    return clampRows(map, low, high);
}

// How many bytes of addresses are shown, without those that the map leaves out.
export function bytesOf(map, {low, high}) {
    return map.ranges.reduce((sum, range) => sum + range.bytes / range.rows *
        Math.max(0, Math.min(high, range.first_row + range.rows) - Math.max(low, range.first_row)), 0);
}

export function describeRows(map, shown) {
    const size = formatBytes(Math.round(bytesOf(map, shown)));
    return isWhole(map, shown) ? `all addresses, ${size}` : `${size} of addresses from ${addressOf(map, shown.low)}`;
}

// The shown part at a height of the canvas, or the nearest one.
export function rowAtHeight(view, y) {
    let best = view.shown.low, near = Infinity;
    for (let row = view.shown.low; row < view.shown.high; row++) {
        const top = view.rows.tops[row], far = Math.max(top - y, y - top - view.rows.heights[row], 0);
        if (far < near) {
            near = far;
            best = row;
        }
    }
    return best;
}

// The line above the map: what is shown, and buttons. `change(shown)` shows other parts.
export function makeZoomLine(view, change) {
    const text = element("span", {class: "shown"});
    const around = () => (view.cursor ? view.cursor.row : -1);
    const whole = element("button", {type: "button", onclick: () => change(wholeOf(view.map))}, "all addresses");
    const line = element("p", {class: "addresses"}, text,
        button("+", "Show fewer addresses", () => change(zoomRows(view.map, view.shown, around(), 0.5))),
        button("\u2212", "Show more addresses", () => change(zoomRows(view.map, view.shown, around(), 2))), whole);
    line.show = () => {
        text.textContent = `Shown: ${describeRows(view.map, view.shown)}`;
        whole.disabled = isWhole(view.map, view.shown);
    };
    return line;
}

// What a key shows: null where it is none of the zoom's.
export function zoomByKey(view, key) {
    const {map, shown, cursor} = view, row = cursor ? cursor.row : -1;
    if (key === "+" || key === "=")
        return zoomRows(map, shown, row, 0.5);
    if (key === "-")
        return zoomRows(map, shown, row, 2);
    if (key === "Escape")
        return wholeOf(map);
    return key === "Enter" && cursor ? memoryAround(map, cursor.column, cursor.row) : null;
}
