// SPDX-License-Identifier: Apache-2.0
// What all figures over time share: the same left and right edge, so that they stand above one another; a line at the
// pointer and at the chosen moment; dragging chooses a range, a click a moment, a double click shows the whole time. A
// figure may have a use for dragging up or down.
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
// `choose(y0, y1)`: what dragging down from one height to another does; not given: nothing.
export function attachTime(host, area, state, choose) {
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
    followPointer(host, area, state, timeAt, {selection, choose});
    selection.hidden = true;
    return {update, timeAt};
}

function followPointer(host, area, state, timeAt, {selection, choose}) {
    let start = null, moved = false, upright = false;
    const within = (event) => {
        const {left, top} = host.getBoundingClientRect();
        return {x: event.clientX - left, y: event.clientY - top};
    };
    const end = () => {
        start = null;
        moved = upright = false;
        selection.hidden = true;
    };
    host.addEventListener("pointerdown", (event) => {
        if (event.button === 0 && !event.target.closest("button, a, input, select")) {
            start = within(event);
            host.setPointerCapture(event.pointerId);
        }
    });
    host.addEventListener("pointermove", (event) => {
        const now = within(event);
        state.set({hover: timeAt(now.x)});
        if (start === null)
            return;
        const wide = Math.abs(now.x - start.x), high = Math.abs(now.y - start.y);
        upright = Boolean(choose) && high > wide;
        moved = moved || wide > CLICK || upright && high > CLICK;
        if (moved)
            drawSelection(selection, area(), start, now, upright);
    });
    host.addEventListener("pointerup", (event) => {
        const now = within(event), from = start, far = moved, across = upright;
        end();
        if (from === null)
            return;
        if (far && across)
            choose(Math.min(from.y, now.y), Math.max(from.y, now.y));
        else if (far)
            showRange(state, timeAt(Math.min(from.x, now.x)), timeAt(Math.max(from.x, now.x)));
        else
            state.set({moment: Math.max(0, lastAtOrBefore(state.device().t, timeAt(now.x)))});
    });
    host.addEventListener("pointercancel", end);
    host.addEventListener("pointerleave", () => state.set({hover: null}));
    host.addEventListener("dblclick", () => state.set({from: null, to: null}));
}

// A range of the time, from top to bottom, or of heights, from left to right.
function drawSelection(selection, area, start, now, upright) {
    const bound = (at, low, size) => Math.min(low + size, Math.max(low, at));
    const x = upright ? [area.left, area.left + area.width] :
        [start.x, now.x].map((at) => bound(at, area.left, area.width)).sort((a, b) => a - b);
    const y = !upright ? [area.top, area.top + area.height] :
        [start.y, now.y].map((at) => bound(at, area.top, area.height)).sort((a, b) => a - b);
    selection.hidden = false;
    selection.style.left = `${x[0]}px`;
    selection.style.width = `${x[1] - x[0]}px`;
    selection.style.top = `${y[0]}px`;
    selection.style.height = `${y[1] - y[0]}px`;
}
