// SPDX-License-Identifier: Apache-2.0
// What all figures over time share: the same left and right edge, so that they stand above one another; a line at the
// pointer and at the chosen moment; dragging chooses a range, a click a moment, a double click shows the whole time.
import {element} from "./dom.js";
import {lastAtOrBefore, wholeRange} from "./data.js";
import {getUnits} from "./format.js";

export const RIGHT = 14;
export const leftEdge = () => (getUnits() === "bytes" ? 100 : window.innerWidth < 600 ? 58 : 70);

const SHORTEST = 1000; // nanoseconds of a range
const CLICK = 4; // pixels that a click may move

export function shownRange(state) {
    const {from, to} = state.get();
    return from === null ? wholeRange(state.trace()) : [from, to];
}

// Shows a range, or the whole time where it is as long.
export function showRange(state, from, to) {
    const whole = wholeRange(state.trace()), span = Math.max(SHORTEST, to - from);
    if (span >= whole[1] - whole[0])
        return state.set({from: null, to: null});
    const begin = Math.min(Math.max(from, whole[0]), whole[1] - span);
    return state.set({from: Math.round(begin), to: Math.round(begin + span)});
}

// Makes the range longer or shorter, around the moment where it is shown.
export function zoom(state, factor) {
    const [from, to] = shownRange(state), t = state.device().t[state.get().moment];
    const centre = t >= from && t <= to ? t : (from + to) / 2;
    showRange(state, centre - (centre - from) * factor, centre + (to - centre) * factor);
}

// Chooses a moment, and moves the range there.
export function showMoment(state, moment) {
    const t = state.device().t[moment], [from, to] = shownRange(state), span = to - from;
    state.set({moment});
    if (t < from || t > to)
        showRange(state, t - span / 2, t + span / 2);
}

// The element `host` holds a figure, of which `area` is { left, top, width, height } of the part that is time.
export function attachTime(host, area, state) {
    const pointer = element("div", {class: "pointer-line", "aria-hidden": "true"});
    const chosen = element("div", {class: "moment-line", "aria-hidden": "true"});
    const selection = element("div", {class: "selection", "aria-hidden": "true"});
    const crossing = element("div", {class: "crossing-line", "aria-hidden": "true"});
    host.append(selection, crossing, chosen, pointer);

    const timeAt = (x) => {
        const [from, to] = shownRange(state), {left, width} = area();
        return from + Math.min(1, Math.max(0, (x - left) / width)) * (to - from);
    };
    const place = (line, t) => {
        const [from, to] = shownRange(state), {left, top, width, height} = area();
        line.hidden = t === null || t < from || t > to;
        if (line.hidden)
            return;
        line.style.left = `${left + (t - from) / (to - from) * width}px`;
        line.style.top = `${top}px`;
        line.style.height = `${height}px`;
    };
    const update = () => {
        place(pointer, state.get().hover);
        place(chosen, state.device().t[state.get().moment]);
        const mark = state.device().marks.find((each) => each.kind === "crossing");
        place(crossing, mark ? state.device().t[mark.at] : null);
    };
    state.listen(update);
    followPointer(host, area, state, timeAt, selection);
    selection.hidden = true;
    return {update, timeAt};
}

function followPointer(host, area, state, timeAt, selection) {
    let start = null, moved = false;
    const within = (event) => event.clientX - host.getBoundingClientRect().left;
    const end = () => {
        start = null;
        moved = false;
        selection.hidden = true;
    };
    host.addEventListener("pointerdown", (event) => {
        if (event.button === 0 && !event.target.closest("button, a, input, select")) {
            start = within(event);
            host.setPointerCapture(event.pointerId);
        }
    });
    host.addEventListener("pointermove", (event) => {
        const x = within(event);
        state.set({hover: timeAt(x)});
        moved = moved || start !== null && Math.abs(x - start) > CLICK;
        if (moved)
            drawSelection(selection, area(), start, x);
    });
    host.addEventListener("pointerup", (event) => {
        const x = within(event), from = start, far = moved;
        end();
        if (from === null)
            return;
        if (far)
            showRange(state, timeAt(Math.min(from, x)), timeAt(Math.max(from, x)));
        else
            state.set({moment: Math.max(0, lastAtOrBefore(state.device().t, timeAt(x)))});
    });
    host.addEventListener("pointercancel", end);
    host.addEventListener("pointerleave", () => state.set({hover: null}));
    host.addEventListener("dblclick", () => state.set({from: null, to: null}));
}

function drawSelection(selection, area, start, x) {
    const bound = (at) => Math.min(area.left + area.width, Math.max(area.left, at));
    const from = bound(Math.min(start, x)), to = bound(Math.max(start, x));
    selection.hidden = false;
    selection.style.left = `${from}px`;
    selection.style.width = `${to - from}px`;
    selection.style.top = `${area.top}px`;
    selection.style.height = `${area.height}px`;
}
