// Energy by day: bars by use, money, and how much of each day was measured.

import { at, fill, get, h, stat, t } from "../../kit/core.js";
import { anyChart } from "../../kit/bars.js";
import { clock, date, day, energy, month, number, share } from "../../kit/format.js";
import { colour, hatch, tint, tooltip, valueScale } from "../../kit/plot.js";
import { price } from "./words.js";

const WHOLE = 0.985,
	J_PER_KWH = 3.6e6;
/** @type {{ part: keyof NonNullable<EnergyDay["parts"]>, colour: string, hatched?: Hatch }[]} */
const PARTS = [
	{ part: "asleep", colour: "asleep", hatched: "/" },
	{ part: "changing", colour: "falling", hatched: "\\" },
	{ part: "awake", colour: "awake" },
	{ part: "unknown", colour: "unknown", hatched: "x" },
];

/** @param {EnergyDay} each */
const incomplete = (each) => each.covered < WHOLE;
/** @param {EnergyDay} each */
const noon_s = (each) => (each.start_s + each.end_s) / 2;
/**
 * The time of a bar: a short form under it, and the full form.
 * @type {Record<Energy["unit"], (each: EnergyDay) => string>}
 */
const SHORT = {
	hour: (each) => clock(each.start_s),
	day: (each) => day(noon_s(each)).replace(",", ""),
	month: (each) => month(noon_s(each)),
};
/** @type {Record<Energy["unit"], (each: EnergyDay) => string>} */
const FULL = {
	hour: (each) => `${date(each.start_s)}, ${clock(each.start_s)} – ${clock(each.end_s)}`,
	day: (each) => date(noon_s(each)),
	month: (each) => month(noon_s(each)),
};

/** @param {Energy} said */
function seriesOf({ days, estimated }) {
	const split = days.some((each) => each.parts);
	/** @type {EnergySeries[]} */
	const all = split
		? PARTS.map((each) => ({
				...each,
				name: t(`history.part_${each.part}`),
				values: days.map((d) => d.parts?.[each.part] ?? null),
			}))
		: [
				{
					name: t("history.part_all"),
					colour: "c1",
					hatched: estimated ? "/" : undefined,
					values: days.map((d) => d.server_j),
				},
			];
	if (days.some((each) => each.box_j !== null))
		all.push({ name: t("history.energy_box"), colour: "c8", values: days.map((d) => d.box_j) });
	return all.filter((each) => each.values.some((value) => value !== null && value > 0));
}

/** @param {HTMLElement} figure @param {Told} told */
export async function showEnergy(figure, { server, from_s, to_s, zoom, current }) {
	const said = await get("/api/history/energy", { server, from_s, to_s });
	if (!current()) return;
	const title = t(
		{
			hour: "history.energy_title_hour",
			day: "history.energy_title",
			month: "history.energy_title_month",
		}[said.unit],
	);
	at("energy-title").textContent = title;
	const known = said.days.filter((each) => each.covered > 0);
	totals(said, known.length > 0);
	notes(said, known);
	/** @type {EnergySeries[]} */
	const series = seriesOf(said).map((each) => ({ ...each, kind: "bar" }));
	await anyChart(figure, {
		config: config(said, series, zoom),
		table: rows(said, series),
		series,
		title,
		isEmpty: !known.length,
		none: t(said.measured ? "history.energy_none" : "history.no_meter"),
		size: "small",
	});
}

/**
 * @param {Energy} said @param {EnergySeries[]} series @param {Told["zoom"]} zoom
 * @returns {ChartConfig}
 */
function config({ days, unit }, series, zoom) {
	/** @param {EnergyDay} each */
	const label = (each) =>
		`${SHORT[unit](each)}${each.covered > 0 && incomplete(each) ? " ◐" : ""}`;
	const tip = tooltip(
		(items) => (items.length ? FULL[unit](days[items[0].dataIndex]) : ""),
		(context) => `${context.dataset.label}: ${energy(context.parsed.y * J_PER_KWH)}`,
	);
	tip.filter = (item) => item.parsed.y > 0;
	tip.callbacks.footer = (items) => (items.length ? footer(days[items[0].dataIndex]) : "");
	tip.footerColor = () => colour("card");
	return {
		type: "bar",
		data: {
			labels: days.map(label),
			datasets: series.map((each) => ({
				label: each.name,
				data: each.values.map((j) => (j === null ? null : j / J_PER_KWH)),
				// Bars that were not measured from beginning to end are paler, with an edge.
				backgroundColor: ({ dataIndex }) => {
					const pale = dataIndex !== undefined && incomplete(days[dataIndex]) ? 0.35 : 1;
					return each.hatched
						? hatch(each.colour, each.hatched, pale)
						: pale < 1
							? tint(each.colour, pale)
							: colour(each.colour);
				},
				borderColor: () => colour(each.colour),
				borderWidth: ({ dataIndex }) =>
					each.hatched || (dataIndex !== undefined && incomplete(days[dataIndex]))
						? 1
						: 0,
				maxBarThickness: 48,
				stack: "all",
			})),
		},
		options: {
			interaction: { mode: "index", axis: "x", intersect: false },
			onClick: (_, items) =>
				items.length &&
				days.length > 1 &&
				zoom(days[items[0].index].start_s, days[items[0].index].end_s),
			scales: {
				x: {
					stacked: true,
					grid: { display: false },
					border: { color: () => colour("edge") },
					ticks: {
						color: () => colour("soft"),
						maxRotation: 0,
						autoSkip: true,
						autoSkipPadding: 12,
					},
				},
				y: valueScale({ stacked: true, unit: "kWh", size: "small" }),
			},
			plugins: { tooltip: tip },
		},
	};
}

/** @param {EnergyDay} each */
function footer(each) {
	const lines = [t("history.tip_total", { energy: energy(each.server_j + (each.box_j ?? 0)) })];
	const cost = price(each.cost);
	if (cost) lines.push(cost);
	lines.push(t("history.tip_covered", { share: share(each.covered, 0) }));
	return lines;
}

/** @param {Energy} said @param {EnergySeries[]} series */
function rows({ days, unit }, series) {
	const priced = days.some((each) => each.cost !== null);
	/** @param {number | null} j */
	const cell = (j) => (j === null ? "–" : number(j / J_PER_KWH, 3, 3));
	return {
		columns: [
			t(`history.col_${unit}`),
			...series.map((each) => `${each.name} (kWh)`),
			...(priced ? [t("history.energy_cost")] : []),
			t("history.energy_covered"),
		],
		rows: days
			.map((each, index) => [
				FULL[unit](each),
				...series.map((one) => cell(one.values[index])),
				...(priced ? [price(each.cost) ?? "–"] : []),
				share(each.covered, 0),
			])
			.reverse(),
	};
}

/** @param {Energy} said @param {boolean} any */
function totals({ total, measured }, any) {
	const found = [];
	if (any && measured) found.push(stat(t("history.energy_server"), energy(total.server_j)));
	if (any && total.box_j !== null) found.push(stat(t("history.energy_box"), energy(total.box_j)));
	const cost = price(total.cost);
	if (any && cost) found.push(stat(t("history.energy_cost"), cost));
	if (any)
		found.push(
			stat(
				t("history.energy_covered"),
				share(total.covered, 0),
				t("history.energy_covered_note"),
			),
		);
	fill(at("energy-total"), found);
}

/** @param {Energy} said @param {EnergyDay[]} known */
function notes(said, known) {
	const found = [];
	const missing = known.filter(incomplete).length;
	if (missing) found.push(t("history.energy_incomplete", { count: missing }));
	if (said.estimated) found.push(t("history.energy_estimated"));
	if (known.some((each) => each.parts)) found.push(t("history.energy_parts_words"));
	if (known.length && said.unit !== "hour") found.push(t("history.energy_whole"));
	if (known.length && said.price_per_kwh === null) found.push(t("history.energy_no_price"));
	at("energy-notes").replaceChildren(...found.map((words) => h("p.hint", words)));
}
