// SPDX-License-Identifier: Apache-2.0
// What stands above the bands: the phases as a ribbon, and the marks (failed allocations, the peak, those of the program,
// the end) with their texts, as far as there is room.
import {placesOf} from "./chart.js";
import {fitText} from "./dom.js";
import {cleanText} from "./data.js";
import {formatCount} from "./format.js";
import {mix, theme} from "./palette.js";

const LANE = 17, MOST_LANES = 3, FLAG = 17;
const IMPORTANCE = {crossing: 0, oom: 1, peak: 2, mark: 3, end: 4};

// The phases of a trace, each in the first lane that is free then.
export function layPhases(trace) {
    const start = trace.summary.start_ns, lanes = [], placed = [];
    const phases = ((trace.phases || {}).phases || []).filter((phase) => phase.phase && phase.begin_t_ns !== null);
    phases.sort((a, b) => (a.stretches > 1) - (b.stretches > 1) || a.begin_t_ns - b.begin_t_ns);
    for (const phase of phases) {
        const from = phase.begin_t_ns - start, to = phase.end_t_ns - start;
        let lane = lanes.findIndex((end) => end <= from);
        if (lane < 0)
            lane = lanes.length;
        if (lane >= MOST_LANES)
            continue;
        lanes[lane] = to;
        const times = phase.stretches > 1 ? ` \u00b7 ${formatCount(phase.stretches)} times` : "";
        placed.push({from, to, lane, often: phase.stretches > 1, text: cleanText(phase.phase.title), times});
    }
    shortenNames(placed);
    return {lanes: lanes.length, placed};
}

// Where there is little room, the word that all names begin with is left out.
function shortenNames(placed) {
    const first = placed.length ? `${placed[0].text.split(" ")[0]} ` : "";
    const shared = placed.length > 1 && placed.every((phase) => phase.text.startsWith(first));
    placed.forEach((phase) => (phase.short = shared ? phase.text.slice(first.length) : phase.text));
}

export function phasesAt(phases, t) {
    return phases.placed.filter((phase) => t >= phase.from && t <= phase.to);
}

// The texts of the marks of a moment, the most important first.
export function markTextsAt(device, moment) {
    return sortMarks(device.marks.filter((mark) => mark.at === moment)).map((mark) => mark.text);
}

// The place of the mark whose line is nearest to a time, at most `most` nanoseconds from it; null: there is none.
export function markNear(device, t, most) {
    let found = null, least = most;
    for (const mark of device.marks) {
        const far = Math.abs(device.t[mark.at] - t);
        if (far <= least) {
            least = far;
            found = mark.at;
        }
    }
    return found;
}

function sortMarks(marks) {
    return [...marks].sort((a, b) => IMPORTANCE[a.kind] - IMPORTANCE[b.kind]);
}

// The height above the plot that marks and phases need.
export function marksHeight(phases) {
    return phases.lanes * LANE + FLAG + 10;
}

function drawPhase(at, phase, top) {
    const {ctx, x, box, ratio} = at, right = box.left + box.width;
    const from = Math.max(box.left, x(phase.from));
    const to = Math.min(right, Math.max(x(phase.to), x(phase.from) + 2 * ratio));
    if (to <= box.left || from >= right)
        return;
    const y = top + phase.lane * LANE * ratio, height = (LANE - 3) * ratio;
    ctx.fillStyle = phase.often ? theme().paper : mix(theme().grid, theme().paper, 0.1);
    ctx.fillRect(from, y, to - from - ratio, height);
    ctx.strokeStyle = theme().line;
    ctx.lineWidth = ratio;
    if (phase.often) {
        ctx.setLineDash([3 * ratio, 2 * ratio]);
        ctx.strokeRect(from + ratio / 2, y + ratio / 2, Math.max(ratio, to - from - 2 * ratio), height - ratio);
        ctx.setLineDash([]);
    }
    const room = to - from - 8 * ratio, fits = ctx.measureText(phase.text + phase.times).width <= room;
    const text = fitText(ctx, (fits ? phase.text : phase.short) + phase.times, room);
    if (text.length > 3) {
        ctx.fillStyle = theme().ink;
        ctx.fillText(text, from + 4 * ratio, y + height / 2 + 0.5 * ratio);
    }
}

export function drawPhases(chart, phases) {
    const at = placesOf(chart), {ctx, ratio} = at;
    ctx.save();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    phases.placed.forEach((phase) => drawPhase(at, phase, 2 * ratio));
    ctx.restore();
}

function markColour(kind) {
    return kind === "crossing" || kind === "oom" ? theme().alarm : theme().muted;
}

// Lines through the plot, and the texts of the most important ones that do not cover one another.
export function drawMarks(chart, device) {
    const at = placesOf(chart), {ctx, ratio, box} = at, right = box.left + box.width;
    const taken = [];
    ctx.save();
    ctx.font = `${11.5 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "alphabetic";
    ctx.textAlign = "left";
    for (const mark of sortMarks(device.marks)) {
        const x = at.x(device.t[mark.at]);
        if (x < box.left - ratio || x > right + ratio)
            continue;
        drawMarkLine(at, mark, x);
        if (mark.kind !== "end")
            drawFlag(at, mark, x, right, taken);
    }
    ctx.restore();
}

function drawMarkLine(at, mark, x) {
    const {ctx, ratio, box} = at, strong = mark.kind === "crossing";
    ctx.strokeStyle = markColour(mark.kind);
    ctx.lineWidth = (strong ? 2 : 1) * ratio;
    ctx.setLineDash(strong ? [] : [2 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, box.top - (mark.kind === "end" ? 0 : 4 * ratio));
    ctx.lineTo(x, box.top + (mark.kind === "oom" || mark.kind === "mark" ? 12 * ratio : box.height));
    ctx.stroke();
    ctx.setLineDash([]);
    if (mark.kind === "crossing" || mark.kind === "oom") {
        ctx.fillStyle = markColour(mark.kind);
        ctx.beginPath();
        ctx.moveTo(x - 5 * ratio, box.top - 6 * ratio);
        ctx.lineTo(x + 5 * ratio, box.top - 6 * ratio);
        ctx.lineTo(x, box.top + 2 * ratio);
        ctx.fill();
    }
}

function drawFlag(at, mark, x, right, taken) {
    const {ctx, ratio, box} = at, gap = 8 * ratio;
    ctx.font = `${mark.kind === "crossing" ? "600 " : ""}${11.5 * ratio}px system-ui, sans-serif`;
    const width = ctx.measureText(mark.text).width;
    const sides = [[x + gap, x + gap + width], [x - gap - width, x - gap]];
    const free = ([from, to]) => from >= box.left - 40 * ratio && to <= right + 8 * ratio &&
        taken.every(([a, b]) => to < a - gap || from > b + gap);
    let side = sides.find(free), text = mark.text;
    if (!side && mark.kind === "crossing") { // the one text that must be there, if need be cut
        const most = Math.max(x - box.left, right - x) - gap;
        text = fitText(ctx, mark.text, most);
        const cut = ctx.measureText(text).width;
        side = right - x > x - box.left ? [x + gap, x + gap + cut] : [x - gap - cut, x - gap];
    }
    if (!side)
        return;
    taken.push(side);
    ctx.fillStyle = markColour(mark.kind);
    ctx.fillText(text, side[0], box.top - 7 * ratio);
}
