// Power as lines with least and most, and below, on the same axis, the states.

import { at, get, one, t } from "../../kit/core.js";
import { watts } from "../../kit/format.js";
import { timeChart } from "../../kit/plot.js";
import { Band } from "./band.js";

const COLOURS = ["c1", "c2", "c3", "c4", "c7", "c8"];
/** @type {Plot<TimeOptions> | null} */
let plot = null;
/** @type {Band | null} */
let band = null;

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

/** @param {HTMLElement} figure @param {Told} told */
export async function showPower(figure, { server, from_s, to_s, zoom, current }) {
	const query = { from_s, to_s };
	const [power, states] = await Promise.all([
		get("/api/history/power", query),
		get("/api/history/states", { ...query, server }),
	]);
	if (!current()) return;
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
		laidOut: () => band?.draw(),
	};
	const place = at("band");
	band ??= new Band(place, () => plot?.chart?.chartArea);
	if (plot) plot.update(options);
	else {
		plot = await timeChart(figure, options);
		// Under the picture's own axis; what explains it under the picture's legend.
		one(":scope > .chart-area", figure).after(band.svg);
		one(":scope > .legend", figure).after(place);
	}
	band.show({ server, from_s, to_s, states, zoom });
}
