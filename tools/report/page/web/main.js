// SPDX-License-Identifier: Apache-2.0
// Draws the figures of the page into what C has written. Without anything to draw, or should a figure fail, the text
// stays as it is.
import "uplot/dist/uPlot.min.css";
import "./page.css";
import {firstMoment, readData} from "./data.js";
import {foldText, openOnPaper} from "./dom.js";
import {setUnits} from "./format.js";
import {makeFragmentation} from "./fragmentation.js";
import {makeGrowth} from "./growth.js";
import {connectKeyboard, makeVoice} from "./keyboard.js";
import {addressOf, connectAddress, copyAddress, follow} from "./links.js";
import {makeLive} from "./live.js";
import {makeMap} from "./map.js";
import {makePicker} from "./picker.js";
import {makeRanks} from "./ranks.js";
import {usualBands} from "./site_bands.js";
import {createState} from "./state.js";
import {makeTimeline, usualHeight} from "./timeline.js";

// The device that matters: one that ran out of memory, else the first.
function firstDevice(traces) {
    const all = traces.flatMap((trace) => trace.devices.map((device) => ({trace, device})));
    const has = (kind) => all.find(({device}) => device.marks.some((mark) => mark.kind === kind));
    return has("crossing") || has("oom") || all[0];
}

function start() {
    const data = readData(document.getElementById("data").textContent), first = firstDevice(data.traces);
    if (!first)
        return;
    setUnits(data.units === "si" || data.units === "bytes" ? data.units : "iec");
    const {trace, device} = first;
    const state = createState(data.traces, {trace: trace.index, device: device.index, moment: firstMoment(device),
        from: null, to: null, hover: null, clock: "elapsed", height: usualHeight(device), bands: usualBands(device),
        search: "", unit: "bytes", inverted: false, grown: false});
    state.traces = data.traces;
    document.documentElement.classList.add("drawn");
    const say = makeVoice();
    follow(state, location.hash);
    const plot = makeTimeline(state, makePicker(state, data.processes),
        (event) => copyAddress(state, event.target.parentElement, say));
    makeRanks(data.processes, data.traces);
    makeLive(state, say);
    makeGrowth(state);
    makeMap(state, say);
    makeFragmentation(state);
    for (const id of ["ranks", "timeline", "live", "growth", "map", "fragmentation"])
        foldText(id, "the same in words");
    foldText("environment", "all that was recorded");
    openOnPaper();
    if (plot)
        connectKeyboard(state, plot, say);
    connectAddress(state);
    document.documentElement.dataset.address = addressOf(state);
    document.documentElement.classList.add("ready");
}

start();
