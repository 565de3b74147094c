// SPDX-License-Identifier: Apache-2.0
// The timeline by keyboard. What is chosen is said aloud once the keys rest.
import {spokenReading} from "./reading.js";
import {showMoment, zoom} from "./time_view.js";

const STEP = 20;

export function makeVoice() {
    const region = document.createElement("div");
    region.id = "said";
    region.className = "spoken";
    region.setAttribute("aria-live", "polite");
    document.body.append(region);
    return (text) => (region.textContent = text);
}

// The place of the next mark in a direction.
function nextMark(device, moment, direction) {
    const places = [...new Set(device.marks.map((mark) => mark.at))].sort((a, b) => a - b);
    const found = direction > 0 ? places.find((at) => at > moment) : places.reverse().find((at) => at < moment);
    return found === undefined ? moment : found;
}

export function connectKeyboard(state, plot, say) {
    plot.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.altKey || event.metaKey)
            return;
        const device = state.device(), {moment} = state.get(), last = device.t.length - 1;
        const to = (place) => showMoment(state, Math.min(last, Math.max(0, place)));
        const keys = {
            ArrowLeft: () => to(moment - 1), ArrowRight: () => to(moment + 1),
            PageUp: () => to(moment - STEP), PageDown: () => to(moment + STEP),
            ArrowUp: () => to(nextMark(device, moment, 1)), ArrowDown: () => to(nextMark(device, moment, -1)),
            Home: () => to(0), End: () => to(last),
            "+": () => zoom(state, 0.5), "=": () => zoom(state, 0.5), "-": () => zoom(state, 2),
            Escape: () => state.set({from: null, to: null}),
        };
        if (!keys[event.key])
            return;
        event.preventDefault();
        state.set({hover: null});
        keys[event.key]();
        say(spokenReading(state, state.get().moment));
    });
}
