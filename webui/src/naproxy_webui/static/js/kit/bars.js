// Bars, and any other picture that Chart.js knows.

import { t } from "./core.js";
import { number, share } from "./format.js";
import { colour, COMMON, hatch, plotted, tint, tooltip, valueScale } from "./plot.js";

// Bars by day, hour or name

/** @param {BarOptions} options @returns {ChartConfig} */
function barConfig(options) {
	const format =
		options.format ??
		((/** @type {number} */ value) => `${number(value, 1)} ${options.unit ?? ""}`);
	const across = options.horizontal ? "x" : "y",
		along = options.horizontal ? "y" : "x";
	/** @param {ChartItem} item */
	const label = ({ dataset, parsed }) =>
		`${dataset.label ? `${dataset.label}: ` : ""}${format(parsed[across])}`;
	/** @type {ChartSet[]} */
	const sets = options.series.map((each) => ({
		label: each.name,
		type: each.kind === "line" ? "line" : "bar",
		data: each.values,
		borderColor: colour(each.colour),
		backgroundColor:
			each.hatched || each.dashed
				? hatch(each.colour, each.hatched || "/")
				: each.kind === "line"
					? tint(each.colour, 0.2)
					: colour(each.colour),
		borderWidth: each.kind === "line" ? 2 : each.hatched || each.dashed ? 1 : 0,
		borderDash: each.kind === "line" && each.dashed ? [6, 5] : [],
		borderRadius: options.stacked ? 0 : 3,
		maxBarThickness: 48,
		pointRadius: 2,
		stack: options.stacked ? (each.stack ?? "all") : undefined,
	}));
	/** @type {AxisOptions} */
	const names = {
		grid: { display: false },
		border: { color: () => colour("edge") },
		stacked: Boolean(options.stacked),
		ticks: {
			color: () => colour("soft"),
			maxRotation: 0,
			autoSkip: !options.horizontal,
			autoSkipPadding: 12,
		},
	};
	const tip = tooltip((items) => items[0]?.label ?? "", label);
	tip.filter = (item) => item.parsed[across] !== null;
	return {
		type: "bar",
		data: { labels: options.labels, datasets: sets },
		options: {
			...COMMON,
			indexAxis: options.horizontal ? "y" : "x",
			interaction: { mode: "index", axis: along, intersect: false },
			scales: { [along]: names, [across]: valueScale(options) },
			plugins: { legend: { display: false }, tooltip: tip },
		},
	};
}

/** @param {BarOptions} options @returns {Rows} */
function barTable(options) {
	const format = options.format ?? ((/** @type {number} */ value) => number(value, 1));
	/** @param {Maybe} value */
	const cell = (value) => (value === null || value === undefined ? "–" : format(value));
	return {
		columns: [
			options.along ?? t("kit.time"),
			...options.series.map((each) => each.name ?? options.title ?? ""),
		],
		rows: options.labels.map((words, index) => [
			// In the picture it may have several lines.
			Array.isArray(words) ? words.join(" ") : words,
			...options.series.map((each) => cell(each.values[index])),
		]),
	};
}

/**
 * Draw bars. Options: `labels` (words), `series`: [{name, values: [number|null], colour, hatched,
 * dashed, kind: "line"}], `along` (the table's heading of the labels), `stacked`, `horizontal`.
 * The other options are those of `timeChart`.
 * @param {HTMLElement} figure @param {BarOptions} options
 */
export const barChart = (figure, options) =>
	plotted(figure, options, (now) => ({
		config: barConfig(now),
		table: () => barTable(now),
		isEmpty: !now.series.some((each) => each.values.some((value) => value !== null)),
		series: now.series.map((each) => ({ kind: "bar", ...each })),
	}));

/**
 * Any other picture: `config` is Chart.js's own (use `colour()` and `hatch()` as functions in it).
 * `table` `{columns, rows}` has the same figures, `series` the entries of the legend.
 * @param {HTMLElement} figure @param {AnyOptions} options
 */
export const anyChart = (figure, options) =>
	plotted(figure, options, ({ config, table, isEmpty, series = [] }) => ({
		series,
		config: {
			...config,
			options: {
				...COMMON,
				...config.options,
				plugins: { legend: { display: false }, ...config.options?.plugins },
			},
		},
		table: () => table,
		isEmpty: Boolean(isEmpty),
	}));

/**
 * Shares over something that grows by factors, as lines: `along` names it, `words` say a value of
 * it, and its axis is logarithmic with these `ticks`. Other options as `anyChart`.
 * @param {HTMLElement} figure @param {CurveOptions} options
 */
export function curveChart(figure, { curves, along, words, ticks, ...options }) {
	const format = (/** @type {number} */ value) => share(value, 0);
	/** @param {Curve} curve @returns {ChartSet} */
	const line = ({ name, colour: of, dashed, points }) => ({
		label: name,
		data: points.map(([x, y]) => ({ x, y })),
		borderColor: () => colour(of),
		backgroundColor: () => colour(of),
		borderWidth: 2,
		borderDash: dashed ? [6, 5] : [],
		pointRadius: points.length > 60 ? 0 : 2,
		pointHoverRadius: 5,
		tension: 0,
	});
	/** @type {AxisOptions} */
	const x = {
		type: "logarithmic",
		min: ticks[0],
		max: ticks.at(-1),
		grid: { color: () => colour("line") },
		border: { color: () => colour("edge") },
		title: { display: true, text: along, color: () => colour("soft") },
		afterBuildTicks: (axis) => {
			axis.ticks = ticks.map((value) => ({ value }));
		},
		ticks: { callback: words, color: () => colour("soft"), maxRotation: 0, autoSkip: true },
	};
	return anyChart(figure, {
		...options,
		series: curves,
		config: {
			type: "line",
			data: { datasets: curves.map(line) },
			options: {
				parsing: false,
				interaction: { mode: "nearest", axis: "x", intersect: false },
				scales: { x, y: valueScale({ max: 1, tick: format }) },
				plugins: {
					tooltip: tooltip(
						(items) => (items.length ? `${along}: ${words(items[0].parsed.x)}` : ""),
						(item) => `${item.dataset.label}: ${share(item.parsed.y, 1)}`,
					),
				},
			},
		},
		table: {
			columns: [along, ...curves.map((each) => each.name)],
			rows: curves[0].points.map(([value], index) => [
				words(value),
				...curves.map((each) => share(each.points[index][1], 2)),
			]),
		},
	});
}
