// The outcomes of requests, day by day, and how many the box answered from its cache.

import { barChart } from "../../kit/bars.js";
import { at, t } from "../../kit/core.js";
import { locale, number, share } from "../../kit/format.js";

/** @type {{ end: keyof TrafficDays["ends"], colour: string, hatched?: Hatch }[]} */
const ENDS = [
	{ end: "fresh", colour: "c1" },
	{ end: "older", colour: "c6", hatched: "/" },
	{ end: "away", colour: "c8", hatched: "\\" },
	{ end: "spent", colour: "c3", hatched: "x" },
	{ end: "box", colour: "c7" },
	{ end: "server", colour: "c2" },
	{ end: "waited", colour: "c5", hatched: "x" },
	{ end: "failed", colour: "c4", hatched: "/" },
];

/** @param {TrafficDays["unit"]} unit */
function dayWords(unit) {
	/** @type {Intl.DateTimeFormatOptions} */
	const options =
		unit === "month" ? { month: "short", year: "numeric" } : { day: "numeric", month: "short" };
	const made = new Intl.DateTimeFormat(locale, { ...options, timeZone: "UTC" });
	return (/** @type {string} */ day) => made.format(Date.parse(`${day}T00:00Z`));
}

/**
 * Days between the first and the last without any request are there too, and empty.
 * @param {TrafficDays} said @returns {{ day: string, ends: TrafficDays["ends"] | null }[]}
 */
function filled({ unit, days }) {
	if (unit !== "day" || !days.length) return days;
	const by = new Map(days.map((each) => [each.day, each])),
		made = [];
	const last = Date.parse(days[days.length - 1].day);
	for (let at = Date.parse(days[0].day); at <= last; at += 86_400_000) {
		const day = new Date(at).toISOString().slice(0, 10);
		made.push(by.get(day) ?? { day, ends: null });
	}
	return made;
}

/** How many the box neither had to answer nor to ask for. @param {TrafficDays["ends"]} ends */
export const notAsked = (ends) => ends.away + ends.spent + ends.box;

/** @param {TrafficDays["ends"] | null} ends */
function rate(ends) {
	if (!ends) return null;
	const answered = Object.values(ends).reduce((sum, each) => sum + each, 0) - notAsked(ends);
	return answered ? (ends.fresh + ends.older) / answered : null;
}

/** Show what `/api/traffic/days` said. @param {TrafficDays} said */
export async function showDays(said) {
	const days = filled(said),
		words = dayWords(said.unit);
	const labels = days.map((each) => words(each.day)),
		along = t(`traffic.days.${said.unit}`);
	/** @type {BarOptions} */
	const counts = {
		labels,
		along,
		stacked: true,
		title: t("traffic.days.title"),
		format: (value) => number(value),
		series: ENDS.filter(({ end }) => said.ends[end]).map(({ end, ...look }) => ({
			...look,
			name: t(`traffic.end.${end}`),
			values: days.map((each) => each.ends?.[end] ?? null),
		})),
	};
	/** @type {BarOptions} */
	const rates = {
		labels,
		along,
		title: t("traffic.days.rate_title"),
		size: "small",
		max: 1,
		format: share,
		tick: (value) => share(value, 0),
		series: [
			{
				name: t("traffic.days.share"),
				values: days.map((each) => rate(each.ends)),
				colour: "c1",
				kind: "line",
			},
		],
	};
	await Promise.all([barChart(at("days"), counts), barChart(at("rate"), rates)]);
}
