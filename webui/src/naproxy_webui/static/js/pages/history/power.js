// Power as lines with minimum and maximum. Below, on the same axis: the states, and zooming.

import { at, get, h, one, t } from "../../kit/core.js";
import { watts } from "../../kit/format.js";
import { timeChart } from "../../kit/plot.js";
import { Band } from "./band.js";
import { Brush } from "./brush.js";
import { allowed, Gestures, scaled } from "./zoom.js";

const COLOURS = ["c1", "c2", "c3", "c4", "c7", "c8"];
/** @type {Plot<TimeOptions> | null} */
let plot = null;
/** @type {Band | null} */
let band = null;
/** @type {Brush | null} */
let brush = null;
/** The range that was loaded; a gesture only moves `axis`. @type {Told | null} */
let told = null;
/** @type {Span | null} */
let axis = null;

/** @param {Meter} meter @param {Meter[]} meters */
function nameOf(meter, meters) {
	const name =
		meter.of === "box"
			? t("history.meter_box")
			: meter.of
				? t("history.meter_server", { name: meter.of })
				: t("history.meter_gone", { name: meter.id });
	const several = meters.filter((each) => each.of && each.of === meter.of).length > 1;
	const told = several ? t("history.meter_more", { name, meter: meter.id }) : name;
	return meter.estimated ? t("history.meter_estimated", { name: told }) : told;
}

/** @param {Meter[]} meters @returns {TimeSeries[]} */
const seriesOf = (meters) =>
	meters.map((meter, index) => ({
		name: nameOf(meter, meters),
		colour: COLOURS[index % COLOURS.length],
		dashed: meter.estimated,
		points: meter.points,
	}));

/** @param {HTMLElement} figure @param {Told} now */
export async function showPower(figure, now) {
	const { server, from_s, to_s, whole, current } = now;
	const query = { from_s, to_s };
	const [power, states, around] = await Promise.all([
		get("/api/history/power", query),
		get("/api/history/states", { ...query, server }),
		whole && whole.from_s === from_s && whole.to_s === to_s ? null : statesOf(now),
	]);
	if (!current()) return;
	told = now;
	axis = { from_s, to_s };
	// Other servers' meters belong to their own pages.
	const meters = power.meters.filter(
		(each) => each.of === server || each.of === "box" || each.of === null,
	);
	const options = {
		title: t("history.power_title"),
		unit: "W",
		format: watts,
		from_s,
		to_s,
		step_s: Math.max(1, ...meters.map((each) => each.step_s)),
		series: seriesOf(meters),
		legend: true,
		none: meters.length ? t("history.power_none") : t("history.no_meter"),
		laidOut: () => {
			band?.draw();
			brush?.draw();
		},
	};
	if (!band || !brush) [band, brush] = parts();
	if (plot) plot.update(options);
	else {
		plot = await timeChart(figure, options);
		place(figure, band, brush);
	}
	const own = meters.filter((each) => each.of === server);
	band.show({ server, from_s, to_s, states, zoom: now.zoom, meters: own });
	brush.show(whole, axis, whole ? (around ?? states) : null);
	buttons();
}

/** The strip and the brush, with their actions. @returns {[Band, Brush]} */
function parts() {
	const area = () => plot?.chart?.chartArea;
	return [
		new Band(at("band"), area, { scale: (factor, around_s) => scale(factor, around_s), back }),
		new Brush(area, { preview, settle }),
	];
}

/**
 * Put them under the picture's own axis, and their words under the picture's legend.
 * @param {HTMLElement} figure @param {Band} band @param {Brush} brush
 */
function place(figure, band, brush) {
	const picture = one(":scope > .chart-area", figure);
	const strip = h("div.strip-area", band.svg);
	picture.after(strip, h("div.strip-area", brush.element));
	one(":scope > .legend", figure).after(at("band"));
	for (const element of [picture, strip]) {
		const find = () => {
			const area = plot?.chart?.chartArea;
			return area && axis && { ...axis, left: area.left, right: area.right };
		};
		new Gestures(element, { axis: () => find() ?? null, preview, settle });
	}
}

/** @type {{ key: string, states: States | null }} */
let kept = { key: "", states: null };

/** The states of the whole, of which a part is shown; asked for once. @param {Told} now */
async function statesOf({ server, whole }) {
	if (!whole) return null;
	const { from_s, to_s } = whole;
	const key = JSON.stringify([server, from_s, to_s]);
	if (kept.key !== key) {
		const states = await get("/api/history/states", { from_s, to_s, server });
		kept = { key, states };
	}
	return kept.states;
}

// Looking closer

/** Within what one moves: the whole; without one, all until now. @param {Told} told */
const limits = ({ whole, now_s, to_s }) => whole ?? { from_s: 0, to_s: Math.max(now_s, to_s) };

/** @param {Span} span */
function preview(span) {
	const chart = plot?.chart;
	if (!chart || !told) return;
	axis = allowed(span, limits(told));
	const x = chart.options.scales?.x;
	if (x) Object.assign(x, { min: axis.from_s, max: axis.to_s });
	chart.update("none");
	band?.move(axis);
	brush?.at(axis);
}

/** @param {Span | null} span */
function settle(span) {
	if (!told) return;
	const { from_s, to_s } = span ?? told;
	const wanted = allowed({ from_s, to_s }, limits(told));
	if (span && (wanted.from_s !== told.from_s || wanted.to_s !== told.to_s))
		told.zoom(wanted.from_s, wanted.to_s);
	else preview(told);
}

/** @param {number} factor @param {number} [around_s] */
const scale = (factor, around_s) => told && settle(scaled(told, factor, around_s));
const back = () => told?.back();

function buttons() {
	if (!told) return;
	const { whole, from_s, to_s } = told;
	at("zoom-back").disabled = !whole || (whole.from_s === from_s && whole.to_s === to_s);
}

at("zoom-in").addEventListener("click", () => scale(0.5));
at("zoom-out").addEventListener("click", () => scale(2));
at("zoom-back").addEventListener("click", back);
