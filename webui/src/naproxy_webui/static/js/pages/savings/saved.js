// The savings: the figures at the top, the bars, and their certainty.

import { at, fill, h, stat, t } from "../../kit/core.js";
import {
	clock,
	co2,
	date,
	dateTime,
	day,
	duration,
	energy,
	money,
	month,
	number,
	share,
	watts,
} from "../../kit/format.js";
import { barChart } from "../../kit/bars.js";
import { table } from "../../kit/plot.js";

/** The figures at the top. @param {Savings} told */
export async function showSaved({ saved }) {
	const { total, net_worth: worth, assumed } = saved;
	const known_s = total.measured_s + total.modelled_s;
	const shown = known_s && !saved.early;
	fill(at("stats"), shown ? stats(total, worth, assumed.office, known_s) : null);
	at("price").hidden = Boolean(assumed.office.price_per_kwh);
	const words = how(total, assumed, known_s);
	const since_s = saved.priced_since_s;
	if (since_s !== null) words.push(t("savings.how_priced", { date: date(since_s) }));
	const { host, problem, failed_since_s: failed_s } = assumed.office.co2_source ?? {};
	if (problem)
		words.push(t("savings.how_co2_failed", { host, time: dateTime(failed_s), why: problem }));
	at("how").replaceChildren(...words.map((each) => h("p.small", each)));
	await barChart(at("energy"), bars(saved));
}

/**
 * @param {Saved["total"]} total @param {Saved["net_worth"]} worth @param {Loose} office
 * @param {number} known_s
 */
function stats(total, worth, office, known_s) {
	const note =
		total.net_j < 0
			? t("savings.lost_note")
			: t("savings.saved_note", { share: share(total.net_j / total.always_j) });
	const price = office.price_changes
		? t("savings.money_each")
		: t("savings.money_note", { price: money(office.price_per_kwh) });
	const source = office.co2_source;
	const each = source ? t("savings.co2_said", { host: source.host }) : t("savings.co2_each");
	const grams = office.co2_changes
		? each
		: t("savings.co2_note", { grams: number(office.co2_g_per_kwh) });
	const naps = t("savings.asleep_note", { count: total.switches });
	return [
		stat(t("savings.saved"), energy(total.net_j), note),
		worth.money !== null && stat(t("savings.money"), money(worth.money), price),
		worth.co2_g !== null && stat(t("savings.co2"), co2(worth.co2_g), grams),
		stat(t("savings.asleep"), share(total.asleep_s / known_s), naps),
	];
}

/** @param {Saved["total"]} total @param {Loose} assumed @param {number} known_s */
function how(total, assumed, known_s) {
	if (!known_s) return [];
	const said = [measured(total, assumed, known_s)];
	const unknown_s = total.length_s - known_s;
	if (unknown_s > 120) said.push(t("savings.how_unknown", { time: duration(unknown_s) }));
	const { on_w, proxy_w } = assumed.values;
	said.push(t(`savings.how_always_${on_w.source}`, { watts: watts(on_w.value) }));
	said.push(
		assumed.box_meter
			? t("savings.how_box_measured", { meter: assumed.box_meter })
			: t("savings.how_box_configured", { watts: watts(proxy_w.value) }),
	);
	if (assumed.box_share < 1)
		said.push(t("savings.how_box_share", { share: share(assumed.box_share) }));
	return said;
}

/** @param {Saved["total"]} total @param {Loose} assumed @param {number} known_s */
function measured(total, assumed, known_s) {
	const part = total.measured_s / known_s;
	const values = { meter: assumed.meter, measured: share(part, 1) };
	if (!assumed.meter || part === 0) return t("savings.how_none");
	if (assumed.meter_estimated) return t("savings.how_estimated", values);
	return part > 0.9995 ? t("savings.how_all", values) : t("savings.how_mixed", values);
}

/** @type {Record<Saved["unit"], (t_s: number) => string>} */
const LABELS = { hour: clock, day, month };

/** @param {Saved} saved @returns {BarOptions} */
function bars({ parts, unit, assumed }) {
	/** @param {(sums: Saved["total"]) => number} pick */
	const kwh = (pick) =>
		parts.map(({ sums }) =>
			sums.measured_s + sums.modelled_s ? Math.max(0, pick(sums)) / 3.6e6 : null,
		);
	/** @param {(sums: Saved["total"]) => number} pick */
	const some = (pick) => parts.some(({ sums }) => pick(sums) > 0);
	const estimated = assumed.meter_estimated;
	/** @type {BarSeries[]} */
	const series = [];
	if (some((s) => s.measured_j))
		series.push({
			name: t(estimated ? "savings.series_estimated" : "savings.series_measured"),
			values: kwh((s) => s.measured_j),
			colour: "c1",
			hatched: estimated ? "/" : undefined,
		});
	if (some((s) => s.modelled_j))
		series.push({
			name: t("savings.series_modelled"),
			values: kwh((s) => s.modelled_j),
			colour: "c1",
			hatched: "x",
		});
	series.push(
		{ name: t("savings.series_box"), values: kwh((s) => s.box_j), colour: "c5" },
		{ name: t("savings.series_saved"), values: kwh((s) => s.net_j), colour: "c3" },
	);
	return {
		title: t("savings.energy_title"),
		unit: "kWh",
		stacked: true,
		along: t(`savings.along_${unit}`),
		labels: parts.map(({ from_s }) => LABELS[unit](from_s)),
		series,
		format: (value) => energy(value * 3.6e6),
	};
}

/** Exact figures and assumptions, for the researcher. @param {Savings} told */
export function showExact({ saved }) {
	const { total, assumed } = saved;
	/** @type {Record<string, string>} */
	const units = { on_w: "W", off_w: "W", proxy_w: "W", switch_j: "J", wake_s: "s", sleep_s: "s" };
	const values = Object.entries(assumed.values).map(([name, { value, source }]) => [
		t(`savings.value.${name}`),
		`${number(value, 3)} ${units[name]}`,
		t(`savings.source.${source}`),
	]);
	const { office, promise } = assumed;
	const configured = t("savings.source.configured");
	const { price_per_kwh: price, co2_g_per_kwh: grams, currency } = office;
	values.push(
		[
			t(`savings.value.price${office.price_changes ? "_mean" : ""}`),
			price === null ? "–" : `${number(price, 4)} ${currency}`,
			configured,
		],
		[
			t(`savings.value.co2${office.co2_changes ? "_mean" : ""}`),
			grams === null ? "–" : `${number(grams)} g`,
			(office.co2_changes && office.co2_source?.host) || configured,
		],
		[
			t("savings.value.promise"),
			`${number(100 * promise.fraction, 3)} %, ${number(promise.delta_s, 3)} s`,
			configured,
		],
	);
	at("exact-values").replaceChildren(
		...table({
			label: t("savings.exact_title"),
			columns: [t("savings.exact_what"), t("savings.exact_value"), t("savings.exact_from")],
			rows: values,
		}),
	);
	/** @type {[string, number, Saved["net_worth"]?][]} */
	const sums = [
		["savings.sum_always", total.always_j, saved.always_worth],
		["savings.sum_used", total.used_j, saved.used_worth],
		["savings.series_measured", total.measured_j],
		["savings.series_modelled", total.modelled_j],
		["savings.sum_gross", total.gross_j, saved.gross_worth],
		["savings.sum_box", total.box_j, saved.box_worth],
		["savings.sum_net", total.net_j, saved.net_worth],
	];
	const { money: priced, co2_g: weighed } = saved.always_worth;
	const rows = sums.map(([key, j, worth]) => [
		t(key),
		`${number(j / 3600, 3)} Wh`,
		total.always_j ? share(j / total.always_j, 2) : "–",
		...(priced === null ? [] : [money(worth?.money ?? null)]),
		...(weighed === null ? [] : [co2(worth?.co2_g ?? null)]),
	]);
	at("exact-sums").replaceChildren(
		...table({
			label: t("savings.sums_title"),
			columns: [
				t("savings.sums_title"),
				"Wh",
				"%",
				...(priced === null ? [] : [currency]),
				...(weighed === null ? [] : ["CO₂"]),
			],
			rows,
		}),
	);
}
