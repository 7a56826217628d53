// Power as lines with least and most, and below, on the same axis, the states.

import { get, t } from "../../kit/core.js";
import { watts } from "../../kit/format.js";
import { timeChart } from "../../kit/plot.js";
import { Band } from "./band.js";

const COLOURS = ["c1", "c2", "c3", "c4", "c7", "c8"];
let plot = null,
	band = null;

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

const seriesOf = (meters) =>
	meters.map((meter, index) => ({
		name: nameOf(meter, meters),
		colour: COLOURS[index % COLOURS.length],
		dashed: meter.estimated,
		points: meter.points,
	}));

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
	};
	const place = document.getElementById("band");
	band ??= new Band(place, () => plot?.chart?.chartArea);
	if (plot) plot.update(options);
	else {
		plot = await timeChart(figure, options);
		// Under the picture's own axis; what explains it under the picture's legend.
		figure.querySelector(":scope > .chart-area").after(band.svg);
		figure.querySelector(":scope > .legend").after(place);
	}
	band.show({ server, from_s, to_s, states, zoom });
}
