// Requests by hour of the week, as a table of figures with a colour each: it needs no other table.

import { h, t } from "../../kit/core.js";
import { number, weekday } from "../../kit/format.js";

const LEVELS = 6;

const narrow = matchMedia("(max-width: 52rem)");
/** @type {Map<HTMLElement, (number | null)[]>} */
const shown = new Map();

/** @param {number} hour */
const clock = (hour) => `${String(hour).padStart(2, "0")}:00`;

/**
 * Means of the 168 hours from the API's answer; null for hours outside the range.
 * @param {Week} said @param {string} who
 */
export function hours({ times, classes }, who) {
	const of =
		who === "all"
			? Object.values(classes)
			: [classes[/** @type {keyof typeof classes} */ (who)]];
	return times.map((count, hour) =>
		count ? of.reduce((sum, each) => sum + each[hour], 0) / count : null,
	);
}

/** @param {number | null} value */
const words = (value) =>
	value === null
		? "–"
		: value >= 9950
			? `${number(value / 1000)}k`
			: value >= 995
				? `${number(value / 1000, 1)}k`
				: number(value, value < 9.95 ? 1 : 0);

/**
 * Show the means of 168 hours, from Monday 0:00 on; days are columns on a phone, rows elsewhere.
 * @param {HTMLElement} place @param {(number | null)[]} means
 */
export function showWeek(place, means) {
	shown.set(place, means);
	const most = Math.max(0, ...means.filter((each) => each !== null));
	// The root spreads the few: most hours of most offices are quiet.
	/** @param {number | null} value */
	const level = (value) =>
		value && most ? Math.max(1, Math.ceil(LEVELS * Math.sqrt(value / most))) : 0;
	/** @param {number} day @param {number} hour */
	const cell = (day, hour) => {
		const value = means[day * 24 + hour];
		const title = t("traffic.week.cell", {
			day: weekday(day, "long"),
			hour: clock(hour),
			value: value === null ? "–" : number(value, 2),
		});
		return h("td", { "data-level": String(level(value)), title }, words(value));
	};
	const days = Array.from({ length: 7 }, (_, day) => day),
		all = Array.from({ length: 24 }, (_, hour) => hour);
	/** @param {number} day @param {string} scope */
	const dayHead = (day, scope) =>
		h(
			"th",
			{ scope },
			h("span", { "aria-hidden": "true" }, weekday(day, "short")),
			h("span.visually-hidden", weekday(day, "long")),
		);
	const [head, rows] = narrow.matches
		? [
				[
					h("th", { scope: "col" }, t("traffic.week.hour")),
					...days.map((day) => dayHead(day, "col")),
				],
				all.map((hour) =>
					h(
						"tr",
						h("th", { scope: "row" }, clock(hour)),
						days.map((day) => cell(day, hour)),
					),
				),
			]
		: [
				[
					h("th", { scope: "col" }, t("traffic.week.day")),
					...all.map((hour) => h("th", { scope: "col" }, String(hour))),
				],
				days.map((day) =>
					h(
						"tr",
						dayHead(day, "row"),
						all.map((hour) => cell(day, hour)),
					),
				),
			];
	place.replaceChildren(
		h(
			"div.stack.tight",
			h(
				"table.heat",
				h("caption.visually-hidden", t("traffic.week.caption")),
				h("thead", h("tr", head)),
				h("tbody", rows),
			),
			scale(),
			h("p.hint", peak(means, most)),
		),
	);
}

function scale() {
	const steps = Array.from({ length: LEVELS + 1 }, (_, level) =>
		h("td", { "data-level": String(level) }),
	);
	return h(
		"div.heat-scale",
		{ "aria-hidden": "true" },
		t("traffic.week.less"),
		h("table.heat", { role: "presentation" }, h("tbody", h("tr", steps))),
		t("traffic.week.more"),
	);
}

/** @param {(number | null)[]} means @param {number} most */
function peak(means, most) {
	if (!most) return t("kit.no_data");
	const known = means.flatMap((value, hour) => (value === null ? [] : [{ value, hour }]));
	const top = known.reduce((best, each) => (each.value > best.value ? each : best));
	const low = known.reduce((best, each) => (each.value < best.value ? each : best));
	/** @param {number} hour */
	const name = (hour) => ({
		day: weekday(Math.floor(hour / 24), "long"),
		hour: clock(hour % 24),
	});
	const quiet = name(low.hour);
	return t("traffic.week.peak", {
		...name(top.hour),
		value: number(top.value, 1),
		quiet_day: quiet.day,
		quiet_hour: quiet.hour,
		quiet_value: number(low.value, 1),
	});
}

narrow.addEventListener("change", () => {
	for (const [place, means] of shown) {
		if (place.isConnected) showWeek(place, means);
		else shown.delete(place);
	}
});
