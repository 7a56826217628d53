// The result of an estimate: the advice, its caveats, every rule, and the figures.

import { barChart, curveChart } from "../../kit/bars.js";
import { button, fill, h, has, icon, notice, one, stat, t, tableOf } from "../../kit/core.js";
import { duration, energy, money, number, offset_s, share, watts } from "../../kit/format.js";
import { table, timeChart } from "../../kit/plot.js";
import { showWeek } from "./week.js";

const HOUR_S = 3600,
	DAY_S = 86_400;
const OURS = "teacher";
const FIRST = ["bound-reactive", OURS, "thesis", "timeout-5m", "timeout-30m", "schedule"];
const BOUNDS = ["bound-reactive", "bound-pre-wake", "idealised"];
const narrow = matchMedia("(max-width: 52rem)");
const WEEK_H = 168,
	MONDAY_H = 72;

/**
 * Show the logs of a result; `forget` is the action of the button to delete it, if there is one.
 * @param {HTMLElement} place @param {Log[]} logs @param {{ forget: (() => unknown) | null }} does
 */
export async function showResult(place, logs, { forget }) {
	/** @type {LogCard[]} */
	const cards = logs.map((log) => ({ log, figures: {}, week: h("div") }));
	place.replaceChildren(
		...cards.map((card, n) => sectionOf(card, n, n === logs.length - 1 ? forget : null)),
	);
	await Promise.all(cards.map(draw));
}

/** @param {LogCard} card @param {number} number_ @param {(() => unknown) | null} forget */
function sectionOf(card, number_, forget) {
	const { log } = card,
		id = `result-${number_}`;
	/** @param {string} name @param {string} [title] */
	const figure = (name, title) => {
		const made = h("figure.chart", title && h("figcaption", title));
		card.figures[name] = made;
		return made;
	};
	const links = [
		["report", "traffic.result.report"],
		["rows", "traffic.result.rows"],
	];
	return h(
		"section.card",
		{ "aria-labelledby": id },
		h(
			"header",
			h("h2", { id, tabindex: "-1" }, t("traffic.result.of", { name: log.log })),
			h(
				"div.row",
				links.map(([name, words]) =>
					h(
						"a.button.small",
						{ href: `/api/traffic/estimate/${name}`, download: "" },
						icon("download"),
						t(words),
					),
				),
				forget &&
					button(".small.quiet", [icon("trash-2"), t("traffic.result.forget")], forget),
			),
		),
		understood(log),
		verdict(log),
		problems(log),
		lines(log),
		log.from_s !== null && [
			stats(log),
			h("h3", t("traffic.result.compare")),
			h("p.hint", t("traffic.result.compare_words")),
			rules(log),
			rulesFigure(figure),
			h("h3", t("traffic.week.title")),
			h("p.hint", t("traffic.week.words")),
			card.week,
			figure("days", t("traffic.result.chart_days")),
			h(
				"div.grid.two",
				["gaps", "ideal"].map((name) =>
					h(
						"div.stack.tight",
						h("h3", t(`traffic.result.chart_${name}`)),
						h("p.hint", t(`traffic.result.chart_${name}_words`)),
						figure(name),
					),
				),
			),
		],
	);
}

/** @param {(name: string, title: string) => HTMLElement} figure */
function rulesFigure(figure) {
	const made = figure("rules", t("traffic.result.chart_rules"));
	made.classList.add("rules-chart");
	return made;
}

// Words

/** @param {Log} log */
function understood({ understood: found }) {
	return found?.length ? h("p.hint", found.map((each) => each.words).join(" ")) : null;
}

/** @param {Log} log */
function verdict({ verdict: found, doubts = [], from_s }) {
	if (!found || from_s === null)
		return h(
			"div.verdict",
			{ "data-kind": "warn" },
			icon("circle-help"),
			h(
				"div",
				h("h3", t(from_s === null ? "traffic.result.none" : "traffic.result.doubt")),
				doubts.map((each) => h("p", each.words)),
			),
		);
	const values = {
		net: share(found.saving_net),
		gross: share(found.saving_gross),
		proxy: watts(found.proxy_w),
		share: share(found.proxy_share),
		fraction: share(found.fraction, 1),
		delta: duration(found.delta_s),
		kwh: energy(found.kwh_a_year * 3.6e6),
		count: number(found.people_a_day),
		money: found.money_a_year
			? t("traffic.result.money", { money: money(found.money_a_year, 0) })
			: "",
	};
	const words = found.buy
		? [t("traffic.result.buy_words", values)]
		: [
				t(
					found.saving_net > 0 ? "traffic.result.no_some" : "traffic.result.no_none",
					values,
				),
				t(found.busy ? "traffic.result.no_busy" : "traffic.result.no_pauses", values),
			];
	return h(
		"div.verdict",
		{ "data-kind": found.buy ? "good" : "bad" },
		icon(found.buy ? "circle-check" : "circle-x"),
		h(
			"div",
			h("h3", t(found.buy ? "traffic.result.buy" : "traffic.result.no")),
			words.map((each) => h("p", each)),
		),
	);
}

/** @param {Log} log */
function problems({ problems, doubts = [] }) {
	// The verdict's place has the doubts already, which come first.
	const found = problems.slice(doubts.length);
	if (!found.length) return null;
	const words = found.map((each) => h("li", each.words));
	return notice("warn", h("p.strong", t("traffic.result.problems")), h("ul", words));
}

/** @param {Log} log */
function lines({ not_understood: found }) {
	if (!found.length) return null;
	const rows = found.map((each) => [number(each.line), each.text || "–"]);
	const made = h(
		"details.details",
		h("summary", t("traffic.result.not_understood")),
		table({
			columns: [t("traffic.result.line"), t("traffic.result.text")],
			rows,
			label: t("traffic.result.not_understood"),
		}),
	);
	made.classList.add("odd-lines");
	return made;
}

/** @param {Log} log */
function stats({ requests, days, verdict: found, rows }) {
	const people = requests.person + requests.api,
		all = Object.values(requests).reduce((sum, each) => sum + each, 0);
	const best = rows.find((each) => each.policy === "bound-reactive");
	/** @param {string} name @param {string} value @param {string} note */
	const figure = (name, value, note) => stat(t(`traffic.result.${name}`), value, note);
	return h(
		"div.stats",
		figure("requests", number(all), t("traffic.result.days", { days: number(days, 1) })),
		figure("people", number(people / Math.max(days, 1 / 24)), t("traffic.result.a_day")),
		figure("robots", all ? share((all - people) / all) : "–", t("traffic.result.robots_note")),
		found &&
			figure(
				"saved",
				share(found.saving_net),
				t("traffic.result.saved_note", { best: best ? share(best.saving_net) : "–" }),
			),
	);
}

/** @param {string} policy */
const nameOf = (policy) =>
	has(`traffic.policy.${policy}`) ? t(`traffic.policy.${policy}`) : policy;
/** The promise holds from the second day on, where there is one. @param {Loose} row */
const breaks = (row) =>
	row.delay_mean_s !== null && (row.delayed_since_day_2 ?? row.delayed_fraction) > row.promise.f;

/** The rules that matter most for the decision; the others on demand. @param {Log} log */
function rules({ rows }) {
	const first = rows.filter((row) => FIRST.includes(row.policy));
	const place = h("div.stack.tight");
	const more =
		first.length < rows.length &&
		button(".small", t("traffic.result.all", { count: rows.length }), () => {
			fill(place, ruleTable(rows));
			one(".table-wrap", place).focus();
		});
	place.append(ruleTable(first), more || "");
	return place;
}

/** @param {Loose[]} rows */
function ruleTable(rows) {
	const columns = ["rule", "energy", "gross", "net", "delayed", "p99", "cycles"];
	const body = rows.map((row) => {
		const bound = BOUNDS.includes(row.policy);
		const wait = [
			share(row.delayed_fraction, 2),
			breaks(row) && h("span.breaks", icon("triangle-alert"), t("traffic.result.breaks")),
		];
		const cells = [
			energy(row.energy_wh * 3600),
			share(row.saving_gross),
			share(row.saving_net),
			h("span", wait),
			row.delay_p99_s === null ? "–" : duration(row.delay_p99_s),
			number(row.cycles_per_day, 1),
		];
		const limit = bound && h("span.small.soft", ` (${t("traffic.result.bound")})`);
		return h(
			"tr",
			{ "data-ours": row.policy === OURS, "data-bound": bound },
			h("th", { scope: "row" }, h("span", nameOf(row.policy), limit)),
			cells.map((each, n) =>
				h("td.end", { "data-label": t(`traffic.result.${columns[n + 1]}`) }, each),
			),
		);
	});
	const heads = columns.map((each) => t(`traffic.result.${each}`));
	return tableOf(".cards.rules", t("traffic.result.compare"), heads, body, (n) => n > 0);
}

// Figures

/** @type {Pick<CurveOptions, "size" | "words" | "ticks">} */
const OVER_LENGTHS = {
	size: "small",
	words: duration,
	ticks: [1, 10, 60, 600, 3600, 36_000, 86_400],
};

/** @param {LogCard} card */
async function draw({ log, figures, week }) {
	const { from_s } = log;
	if (from_s === null) return;
	showWeek(week, weekOf(log, from_s));
	const shown = log.rows.filter((row) => row.saving_gross > 0.001 || row.policy === OURS);
	await barChart(figures.rules, {
		labels: shown.map((row) =>
			narrow.matches ? twoLines(nameOf(row.policy)) : nameOf(row.policy),
		),
		along: t("traffic.result.rule"),
		horizontal: true,
		size: "tall",
		format: (value) => share(value, 1),
		tick: (value) => share(value, 0),
		title: t("traffic.result.chart_rules"),
		series: [
			{
				name: t("traffic.result.gross"),
				colour: "c1",
				values: shown.map((row) => row.saving_gross),
			},
			{
				name: t("traffic.result.delayed"),
				colour: "c5",
				hatched: "/",
				values: shown.map((row) =>
					row.delay_mean_s === null ? null : row.delayed_fraction,
				),
			},
		],
	});
	await byDay(figures.days, log, from_s);
	const { gaps, idealised } = log;
	await curveChart(figures.gaps, {
		...OVER_LENGTHS,
		title: t("traffic.result.chart_gaps"),
		along: t("traffic.result.at_least"),
		curves: [
			{
				name: t("traffic.result.gap_count"),
				colour: "c2",
				dashed: true,
				points: gaps.map((each) => [each.length_s, each.count_share]),
			},
			{
				name: t("traffic.result.gap_time"),
				colour: "c1",
				points: gaps.map((each) => [each.length_s, each.time_share]),
			},
		],
	});
	await curveChart(figures.ideal, {
		...OVER_LENGTHS,
		title: t("traffic.result.chart_ideal"),
		along: t("traffic.result.threshold"),
		curves: [
			{
				name: t("traffic.result.saving"),
				colour: "c1",
				points: idealised.map((each) => [each.threshold_s, Math.max(0, each.saving)]),
			},
		],
	});
}

/** A long name in two lines of a picture. @param {string} name */
function twoLines(name) {
	const at = name.indexOf(" ", Math.floor(name.length / 2) - 3);
	return name.length < 18 || at < 0 ? name : [name.slice(0, at), name.slice(at + 1)];
}

/**
 * Means of the hours of the week, by the office's clocks as they were then.
 * @param {Log} log @param {number} from_s
 */
function weekOf({ hours, days }, from_s) {
	const sums = new Array(WEEK_H).fill(0),
		times = new Array(WEEK_H).fill(0);
	/** @param {number} hour */
	const local = (hour) =>
		(((hour + Math.floor(offset_s(hour * HOUR_S) / HOUR_S) + MONDAY_H) % WEEK_H) + WEEK_H) %
		WEEK_H;
	const first = Math.floor(from_s / HOUR_S),
		count = Math.max(1, Math.ceil(days * 24));
	const whole = Math.floor(count / WEEK_H);
	for (let n = 0; n < WEEK_H; n += 1)
		times[local(first + n)] += whole + (n < count % WEEK_H ? 1 : 0);
	for (const [hour, people, robots] of hours) sums[local(hour)] += people + robots;
	return sums.map((sum, n) => (times[n] || sum ? sum / Math.max(1, times[n]) : null));
}

/** @param {HTMLElement} figure @param {Log} log @param {number} from_s */
function byDay(figure, { hours, days }, from_s) {
	const by = new Map();
	for (const [hour, people, robots] of hours) {
		const day = Math.floor((hour * HOUR_S + offset_s(hour * HOUR_S)) / DAY_S);
		const kept = by.get(day) ?? [0, 0];
		by.set(day, [kept[0] + people, kept[1] + robots]);
	}
	const all = [...by.keys()].sort((a, b) => a - b);
	/** @param {number} at */
	const points = (at) => all.map((day) => [day * DAY_S - offset_s(day * DAY_S), by.get(day)[at]]);
	return timeChart(figure, {
		title: t("traffic.result.chart_days"),
		from_s: from_s - DAY_S,
		to_s: from_s + (days + 0.5) * DAY_S,
		step_s: DAY_S,
		format: (value) => number(value),
		size: "small",
		series: [
			{ name: t("traffic.result.people_short"), colour: "c1", points: points(0) },
			{
				name: t("traffic.result.robots_short"),
				colour: "c2",
				dashed: true,
				points: points(1),
			},
		],
	});
}
