// Bars, and any other picture that Chart.js knows.

import { t } from "./core.js";
import { number } from "./format.js";
import { colour, COMMON, hatch, Plot, ready, tint, tooltip, valueScale } from "./plot.js";

// Bars by day, hour or name

function barConfig(options) {
	const format = options.format ?? ((value) => `${number(value, 1)} ${options.unit ?? ""}`);
	const across = options.horizontal ? "x" : "y",
		along = options.horizontal ? "y" : "x";
	const label = (context) =>
		`${context.dataset.label ? `${context.dataset.label}: ` : ""}${format(context.parsed[across])}`;
	const sets = options.series.map((each) => ({
		label: each.name,
		type: each.kind === "line" ? "line" : "bar",
		data: each.values,
		borderColor: () => colour(each.colour),
		backgroundColor: () =>
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

function barTable(options) {
	const format = options.format ?? ((value) => number(value, 1));
	return {
		columns: [
			options.along ?? t("kit.time"),
			...options.series.map((each) => each.name ?? options.title ?? ""),
		],
		rows: options.labels.map((words, index) => [
			words,
			...options.series.map((each) =>
				each.values[index] == null ? "–" : format(each.values[index]),
			),
		]),
	};
}

/**
 * Draw bars. Options: `labels` (words), `series`: [{name, values: [number|null], colour, hatched,
 * dashed, kind: "line"}], `along` (what the labels are, for the table), `stacked`, `horizontal`,
 * and as `timeChart`.
 */
export async function barChart(figure, options) {
	const plot = new Plot(figure, options);
	plot.update = (changes) => {
		options = { ...options, ...changes };
		const bars = {
			...options,
			series: options.series.map((each) => ({ kind: "bar", ...each })),
		};
		plot.show(
			bars,
			() => barTable(options),
			!options.series.some((each) => each.values.some((value) => value !== null)),
		);
		if (!window.Chart) return;
		plot.draw(window.Chart, barConfig(options));
		plot.chart.update("none");
	};
	await ready();
	plot.update({});
	return plot;
}

/**
 * Any other picture: `config` is Chart.js's own (use `colour()` and `hatch()` as functions in it),
 * `table` `{columns, rows}` the same figures, `series` what the legend names.
 */
export async function anyChart(figure, { config, table: rows, series = [], ...options }) {
	const plot = new Plot(figure, options);
	plot.update = (changes) => {
		({ config = config, table: rows = rows, series = series } = changes);
		options = { ...options, ...changes };
		plot.show({ ...options, series }, () => rows, Boolean(options.isEmpty));
		if (!window.Chart) return;
		plot.draw(window.Chart, {
			...config,
			options: {
				...COMMON,
				...config.options,
				plugins: { legend: { display: false }, ...config.options?.plugins },
			},
		});
		plot.chart.update("none");
	};
	await ready();
	plot.update({});
	return plot;
}
