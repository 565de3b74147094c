// SPDX-License-Identifier: Apache-2.0
// A uPlot chart over the shown time. The areas are drawn by its hooks, because they are hatched and labelled; uPlot has
// the scales and the axes.
import uPlot from "uplot";
import {formatTicks, bytesTicks, timeTicks} from "./format.js";
import {RIGHT, attachTime, leftEdge, shownRange} from "./time_view.js";
import {theme} from "./palette.js";

const FONT = "12px system-ui, sans-serif";

function timeAxis(state) {
    let texts = [];
    return {
        size: 30, font: FONT, stroke: () => theme().muted, grid: {show: false},
        ticks: {stroke: () => theme().line, size: 5, width: 1}, gap: 4,
        splits: (chart, index, from, to) => {
            const utc = state.get().clock === "utc" ? state.trace().summary.start_utc_ns : null;
            const ticks = timeTicks(from, to, Math.max(2, chart.width / 110), utc);
            texts = ticks.texts;
            return ticks.places;
        },
        values: () => texts,
    };
}

function bytesAxis(options) {
    return {
        size: leftEdge, font: FONT, stroke: () => theme().muted,
        grid: {stroke: () => theme().grid, width: 1}, ticks: {show: false}, gap: 8,
        splits: (chart, index, from, to) => options.splits ? options.splits() :
            bytesTicks(to, Math.max(3, chart.height / 64)),
        values: (chart, places) => (options.format ? places.map(options.format) : formatTicks(places)),
    };
}

// options: height(), top() of the vertical axis, padding() above the plot, below(chart) and above(chart) draw, data.
export function makeChart(host, state, options) {
    const range = () => shownRange(state);
    const chart = new uPlot({
        width: Math.max(200, host.clientWidth), height: options.height(), pxAlign: 1,
        padding: [options.padding || (() => 8), () => RIGHT, () => 0, () => 0],
        scales: {x: {time: false, auto: false, range}, y: {auto: false, range: () => [0, options.top()]}},
        series: [{}, ...options.data.slice(1).map(() => ({show: true, paths: () => null, points: {show: false}}))],
        axes: [timeAxis(state), bytesAxis(options)],
        legend: {show: false}, cursor: {show: false},
        hooks: {drawAxes: [(u) => clipped(u, options.below)], draw: [(u) => options.above && options.above(u)]},
    }, options.data, host);
    chart.ctx.canvas.setAttribute("aria-hidden", "true"); // its host has a name
    const area = () => {
        const ratio = uPlot.pxRatio, {left, top, width, height} = chart.bbox;
        return {left: left / ratio, top: top / ratio, width: width / ratio, height: height / ratio};
    };
    const time = attachTime(host, area, state);
    chart.refresh = () => {
        const [min, max] = range();
        chart.batch(() => {
            chart.setScale("x", {min, max});
            chart.setScale("y", {min: 0, max: options.top()});
        });
        chart.redraw(false, true);
        time.update();
    };
    chart.resize = () => {
        chart.setSize({width: Math.max(200, host.clientWidth), height: options.height()});
        time.update();
    };
    time.update();
    return chart;
}

function clipped(chart, draw) {
    const {left, top, width, height} = chart.bbox;
    chart.ctx.save();
    chart.ctx.beginPath();
    chart.ctx.rect(left, top, width, height);
    chart.ctx.clip();
    draw(chart);
    chart.ctx.restore();
}

// Places in device pixels, as uPlot's canvas has them.
export function placesOf(chart) {
    return {x: (t) => chart.valToPos(t, "x", true), y: (value) => chart.valToPos(value, "y", true),
        ratio: uPlot.pxRatio, ctx: chart.ctx, box: chart.bbox};
}
