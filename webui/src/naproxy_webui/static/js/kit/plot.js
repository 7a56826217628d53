// Charts: Chart.js with the palette, the office's time zone, gaps as gaps, and a table of the same
// figures behind every one. Chart.js is loaded when the first chart is made. A picture is drawn
// when one comes near it, each in a turn of its own: a phone stays quick while a page opens.

import { all, h, one, s, t, tableOf } from "./core.js";
import {
	clock,
	clockS,
	date,
	dateTime,
	day,
	fromLocal,
	month,
	number,
	offset_s,
	toInput,
} from "./format.js";

const MINUTE = 60,
	HOUR = 3600,
	DAY = 86400;
const STEPS_S = [
	1,
	5,
	10,
	30,
	MINUTE,
	2 * MINUTE,
	5 * MINUTE,
	10 * MINUTE,
	30 * MINUTE,
	HOUR,
	2 * HOUR,
	3 * HOUR,
	6 * HOUR,
	12 * HOUR,
	DAY,
	2 * DAY,
	7 * DAY,
	14 * DAY,
];
/** Longer steps are of the calendar: months. */
const STEPS_MONTHS = [1, 2, 3, 6, 12, 24, 60, 120];
const MONTH = 30.4375 * DAY;
const MOST_ROWS = 500;
const TICK_PX = 84;
const STRIP_PX = 8;

// Loading, colours

/** @type {Promise<unknown> | null} */
let loading = null;

/** Load Chart.js, once. @returns {Promise<unknown>} */
export function ready() {
	loading ??= new Promise((resolve, reject) => {
		if (window.Chart) return resolve(window.Chart);
		const script = document.createElement("script");
		script.src = one('meta[name="chart-js"]').content;
		script.onload = () => resolve(window.Chart);
		script.onerror = () => reject(new Error("Chart.js could not be loaded"));
		document.head.append(script);
	});
	return loading;
}

/** Whether one sees it, or nearly. @type {WeakMap<Element, (near: boolean) => void>} */
const watchers = new WeakMap();
const watcher = new IntersectionObserver(
	(seen) => {
		for (const { target, isIntersecting } of seen) watchers.get(target)?.(isIntersecting);
	},
	{ rootMargin: "50% 0px" },
);

let last = Promise.resolve();
/** Let the browser do what waits before the next picture is drawn. */
function turn() {
	last = last.then(() => new Promise((go) => setTimeout(go)));
	return last;
}

/** Figure -> its plot. @type {Map<HTMLElement, Plot<any>>} */
const plots = new Map();
addEventListener("beforeprint", () => {
	for (const plot of plots.values()) plot.draw();
});

/** @type {Map<string, string>} */
const colours = new Map();

/**
 * The value of a colour of the design now: `c1` to `c8`, `awake`, `ink`, `line`, ...
 * @param {string} name @returns {string}
 */
export function colour(name) {
	let found = colours.get(name);
	if (found === undefined) {
		found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
		colours.set(name, found);
	}
	return found;
}

/** The same, see-through. @param {string} name @param {number} alpha */
export function tint(name, alpha) {
	const hex = colour(name).replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3");
	const [r, g, b] = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
	return `rgb(${r} ${g} ${b} / ${alpha})`;
}

document.addEventListener("naproxy:theme", () => {
	colours.clear();
	patterns.clear();
	for (const plot of plots.values()) plot.update({});
});

/** @type {Map<string, CanvasPattern | null>} */
const patterns = new Map();

/**
 * A hatched fill, so that a series or a state is told apart without its colour too.
 * @param {string} name @param {Hatch} kind @param {number} alpha @returns {CanvasPattern | null}
 */
export function hatch(name, kind = "/", alpha = 1) {
	const key = `${name} ${kind} ${alpha}`;
	const known = patterns.get(key);
	if (known) return known;
	const canvas = document.createElement("canvas");
	canvas.width = canvas.height = 8;
	const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
	pen.fillStyle = tint(name, 0.25 * alpha);
	pen.fillRect(0, 0, 8, 8);
	pen.strokeStyle = tint(name, alpha);
	pen.lineWidth = 2;
	pen.beginPath();
	for (const at of [-8, 0, 8]) {
		if (kind !== "\\") {
			pen.moveTo(at, 8);
			pen.lineTo(at + 8, 0);
		}
		if (kind !== "/") {
			pen.moveTo(at, 0);
			pen.lineTo(at + 8, 8);
		}
	}
	pen.stroke();
	const made = pen.createPattern(canvas, "repeat");
	patterns.set(key, made);
	return made;
}

// States under a time axis: a strip along it, each state with its own pattern

/** @type {Record<string, Hatch | null>} */
const STATES = {
	awake: null,
	asleep: "/",
	waking: "\\",
	falling_asleep: "\\",
	trouble: "x",
	unknown: "x",
};
/** @param {string | undefined} state */
const hatchOf = (state) => (state ? STATES[state] : null);
/** @param {string} state */
const stateFill = (state) =>
	STATES[state] ? hatch(stateColour(state), STATES[state]) : colour(stateColour(state));
/** @param {string} state */
const stateColour = (state) =>
	state === "falling_asleep" ? "falling" : state in STATES ? state : "unknown";

/** @type {ChartPlugin} */
const bandsPlugin = {
	id: "bands",
	beforeDatasetsDraw(chart) {
		eachBand(chart, ({ state }, left, width) => {
			if (state === "awake") return;
			chart.ctx.fillStyle = tint(stateColour(state), 0.09);
			chart.ctx.fillRect(
				left,
				chart.chartArea.top,
				width,
				chart.chartArea.bottom - chart.chartArea.top,
			);
		});
	},
	afterDatasetsDraw(chart) {
		eachBand(chart, ({ state }, left, width) => {
			for (const fill of [colour("card"), stateFill(state)]) {
				chart.ctx.fillStyle = fill ?? "";
				// Below the axis: above it, it would hide what a sleeping server draws.
				chart.ctx.fillRect(left, chart.chartArea.bottom + 1, width, STRIP_PX);
			}
		});
	},
};

/** @param {Chart} chart @param {(band: Band, left: number, width: number) => void} draw */
function eachBand({ chartArea: area, scales: { x }, ctx, naproxyBands }, draw) {
	ctx.save();
	for (const band of naproxyBands ?? []) {
		const left = Math.max(area.left, x.getPixelForValue(band.from_s));
		const right = Math.min(area.right, x.getPixelForValue(band.to_s));
		if (right > left) draw(band, left, Math.max(1, right - left));
	}
	ctx.restore();
}

// The time axis: linear, in seconds, with ticks at round times of the office's clocks

/**
 * Times of the ticks between two times, at most `most`, and the step between them in seconds.
 * @param {number} from_s @param {number} to_s @param {number} most
 */
export function timeTicks(from_s, to_s, most) {
	const step_s = STEPS_S.find((each) => (to_s - from_s) / each <= Math.max(2, most));
	if (step_s === undefined) return monthTicks(from_s, to_s, most);
	const times = [];
	const first_s = Math.floor((from_s + offset_s(from_s)) / step_s) * step_s;
	// Hours that clocks show twice or not at all are real: up to an hour, steps are of real time.
	const real = step_s <= HOUR;
	// Above, each tick is rounded by its own offset: when clocks change the hours stay round.
	/** @param {number} at_s */
	const tick = (at_s) => at_s - offset_s(real ? from_s : at_s - offset_s(at_s));
	for (let at_s = first_s; tick(at_s) <= to_s; at_s += step_s) {
		if (tick(at_s) >= from_s) times.push(tick(at_s));
	}
	return { times, step_s };
}

/**
 * The same with the first days of months, so that a month's name is where it begins.
 * @param {number} from_s @param {number} to_s @param {number} most
 */
function monthTicks(from_s, to_s, most) {
	const months =
		STEPS_MONTHS.find((each) => (to_s - from_s) / (each * MONTH) <= Math.max(2, most) - 1) ??
		/** @type {number} */ (STEPS_MONTHS.at(-1));
	const [year = 0, month = 1] = toInput(from_s).split("-").map(Number);
	const times = [];
	for (let at = Math.ceil((year * 12 + month - 1) / months) * months; ; at += months) {
		const t_s = fromLocal(Date.UTC(Math.floor(at / 12), at % 12) / 1000);
		if (t_s > to_s) return { times, step_s: months * MONTH };
		if (t_s >= from_s) times.push(t_s);
	}
}

/** @param {number} t_s @param {number} step_s */
function tickWords(t_s, step_s) {
	if (step_s >= MONTH) return month(t_s);
	if (step_s >= DAY) return day(t_s).replace(",", "");
	if (step_s >= MINUTE) return clock(t_s) === "00:00" ? day(t_s).replace(",", "") : clock(t_s);
	return clockS(t_s);
}

/** @param {TimeOptions} options @returns {AxisOptions} */
function timeScale(options) {
	let step_s = 1;
	return {
		type: "linear",
		min: options.from_s,
		max: options.to_s,
		grid: {
			color: () => colour("line"),
			drawTicks: true,
			tickLength: options.bands ? 6 + STRIP_PX : 5,
		},
		border: { color: () => colour("edge") },
		afterBuildTicks: (axis) => {
			const found = timeTicks(
				axis.min,
				axis.max,
				Math.floor((axis.width || axis.chart.width) / TICK_PX),
			);
			step_s = found.step_s;
			axis.ticks = found.times.map((value) => ({ value }));
		},
		ticks: {
			callback: (value) => tickWords(value, step_s),
			color: () => colour("soft"),
			maxRotation: 0,
			autoSkip: false,
			padding: 4,
		},
	};
}

/** As many digits as tell one tick from the next. @param {ChartTick[]} ticks */
const digitsBetween = (ticks) =>
	ticks.length < 2
		? 2
		: Math.min(
				6,
				Math.max(
					0,
					Math.ceil(-Math.log10(Math.abs(ticks[1].value - ticks[0].value)) - 1e-9),
				),
			);

/** @param {PlotOptions} options @returns {AxisOptions} */
export function valueScale(options) {
	return {
		beginAtZero: options.fromZero !== false,
		min: options.min,
		max: options.max,
		suggestedMax: options.suggestedMax,
		stacked: Boolean(options.stacked),
		grid: { color: () => colour("line") },
		border: { display: false },
		title: { display: Boolean(options.unit), text: options.unit, color: () => colour("soft") },
		ticks: {
			color: () => colour("soft"),
			maxTicksLimit: options.size === "small" ? 4 : 7,
			callback: (value, _, ticks) =>
				options.tick ? options.tick(value) : number(value, digitsBetween(ticks)),
		},
	};
}

const FONT = {
	size: 12,
	family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif",
};

/**
 * @param {(items: ChartItem[]) => string} title @param {(item: ChartItem) => string} label
 * @returns {TooltipOptions}
 */
export const tooltip = (title, label) => ({
	backgroundColor: () => colour("ink"),
	titleColor: () => colour("card"),
	bodyColor: () => colour("card"),
	padding: 10,
	cornerRadius: 8,
	boxPadding: 5,
	filter: (item) => item.dataset.naproxyHidden !== true && item.parsed.y !== null,
	callbacks: { title, label },
});

// The parts of a figure: picture, legend, table

/** @param {Entry} series */
function swatch(series) {
	const made = s("svg", { viewBox: "0 0 28 12", "aria-hidden": "true" });
	const name = `var(--${series.state ? stateColour(series.state) : series.colour})`;
	const box = series.kind === "bar" || series.state || series.area;
	const shape = box
		? s("rect", { x: 1, y: 1, width: 26, height: 10, rx: 2 })
		: s("path", { d: "M1 6h26", "stroke-width": 3, "stroke-linecap": "round" });
	if (box) {
		shape.style.fill = name;
		shape.style.fillOpacity =
			series.dashed || series.hatched || hatchOf(series.state) ? "0.3" : "1";
		shape.style.stroke = name;
	} else shape.style.stroke = name;
	if (series.dashed) shape.setAttribute("stroke-dasharray", box ? "3 2" : "5 6");
	made.append(shape);
	const kind = hatchOf(series.state) ?? series.hatched;
	if (kind) {
		const lines = s("path", {
			d:
				kind === "/"
					? "M4 11l8-10M12 11l8-10M20 11l6-8"
					: kind === "x"
						? "M4 11l8-10M4 1l8 10M16 11l8-10M16 1l8 10"
						: "M4 1l8 10M12 1l8 10M20 1l6 8",
			"stroke-width": 1.5,
			fill: "none",
		});
		lines.style.stroke = name;
		made.append(lines);
	}
	return made;
}

/** @param {Shown} options */
function legendOf(options) {
	const states = [...new Set((options.bands ?? []).map((each) => each.state))];
	const entries = [
		...options.series.filter((each) => each.name),
		...states.map((state) => ({ state, name: t(`kit.state.${state}`) })),
	];
	return entries.length > 1 || options.legend
		? entries.map((each) => h("li", swatch(each), each.name))
		: [];
}

/**
 * A table from `{columns: [words], rows: [[words]], end: false}`; a cell may be an element.
 * @param {Rows} figures
 */
export function table({ columns, rows, end = false, label }) {
	const shown =
		rows.length <= MOST_ROWS ? rows : end ? rows.slice(-MOST_ROWS) : rows.slice(0, MOST_ROWS);
	const body = shown.map((row) =>
		h(
			"tr",
			row.map((cell, index) => h(index ? "td.end" : "td", cell)),
		),
	);
	const made = tableOf("", label, columns, body, (index) => index > 0);
	return shown.length < rows.length
		? [h("p.hint", t("kit.more_rows", { count: shown.length, all: rows.length })), made]
		: [made];
}

/**
 * A figure with its picture, legend and table: the common part of all kinds of charts.
 * @template {PlotOptions} O
 */
export class Plot {
	/** @type {Chart | undefined} */
	chart;
	/** @type {(() => Rows) | undefined} */
	table;
	/** Show it with other options. @type {(changes: Partial<O>) => void} */
	update = () => {};
	/** @type {{ config: ChartConfig, bands: readonly Band[] } | null} */
	#wanted = null;
	#near = false;

	/** @param {HTMLElement} figure @param {PlotOptions} options */
	constructor(figure, options) {
		this.figure = figure;
		this.canvas = h("canvas", { role: "img" });
		this.none = h("p.chart-none", { hidden: true });
		this.area = h(
			"div",
			{ class: `chart-area ${options.size ?? ""}`.trim() },
			this.canvas,
			this.none,
		);
		this.legend = h("ul.legend");
		this.details = h("details.details.plain", h("summary", t("kit.as_table")));
		this.details.addEventListener("toggle", () => this.#fillTable());
		for (const each of all(":scope > .chart-area, :scope > .legend, :scope > details", figure))
			each.remove();
		figure.append(this.area, this.legend, this.details);
		/** It is known whether one sees it; if so, it is drawn. @type {Promise<void>} */
		this.looked = new Promise((resolve, reject) => {
			watchers.set(this.area, (near) => this.#comes(near).then(resolve, reject));
		});
		watcher.observe(this.area);
	}

	/** @param {boolean} near */
	async #comes(near) {
		this.#near = near;
		if (!near) return;
		await ready();
		await turn();
		this.draw();
	}

	/**
	 * Update everything but the picture.
	 * @param {Shown} options @param {() => Rows} table @param {boolean} isEmpty
	 */
	show(options, table, isEmpty) {
		const title = options.title ?? one("figcaption", this.figure)?.textContent ?? "";
		this.canvas.setAttribute("aria-label", options.summary ?? t("kit.chart_words", { title }));
		this.none.hidden = !isEmpty;
		this.none.textContent = isEmpty ? (options.none ?? t("kit.no_data")) : "";
		const legend = legendOf(options);
		const words = JSON.stringify([
			options.series.map((each) => [each.name, each.colour, each.dashed]),
			legend.map((each) => each.textContent),
		]);
		if (this.legend.dataset.words !== words) {
			this.legend.dataset.words = words;
			this.legend.replaceChildren(...legend);
			this.legend.hidden = !legend.length;
		}
		this.table = () => ({
			label: title ? t("kit.table_of", { title }) : t("kit.as_table"),
			...table(),
		});
		this.details.hidden = options.table === false;
		// Not while it streams: a table that changes under the reader cannot be read.
		if (!options.live) this.#fillTable();
	}

	/** @param {ChartConfig} config @param {readonly Band[]} bands */
	want(config, bands) {
		this.#wanted = { config, bands };
		if (this.#near) this.draw();
	}

	/** Draw what is wanted, if it is not. */
	draw() {
		if (!this.#wanted || !window.Chart) return;
		const { config, bands } = this.#wanted;
		this.#wanted = null;
		if (this.chart) {
			this.#change(this.chart, config);
			this.chart.naproxyBands = bands;
			return this.chart.update("none");
		}
		window.Chart.defaults.font = { ...window.Chart.defaults.font, ...FONT };
		this.chart = new window.Chart(this.canvas, config);
		this.chart.naproxyBands = bands;
		if (bands.length) this.chart.draw();
	}

	/** @param {Chart} chart @param {ChartConfig} config */
	#change(chart, config) {
		chart.options.scales = config.options?.scales;
		chart.options.plugins = config.options?.plugins;
		chart.options.onClick = config.options?.onClick;
		const old = chart.data.datasets,
			now = config.data.datasets;
		if (old.length === now.length)
			for (const [index, each] of now.entries()) Object.assign(old[index], each);
		else chart.data.datasets = now;
		chart.data.labels = config.data.labels;
	}

	#fillTable() {
		if (!this.details.open || !this.table) return;
		this.details.replaceChildren(one("summary", this.details), ...table(this.table()));
	}

	/** Take it away. */
	destroy() {
		plots.delete(this.figure);
		watcher.unobserve(this.area);
		this.chart?.destroy();
		for (const each of [this.area, this.legend, this.details]) each.remove();
	}
}

/**
 * The plot of a figure with these options: a new one, or the existing one updated.
 * @template {PlotOptions} O
 * @param {HTMLElement} figure @param {O} options @param {(options: O) => Picture} picture
 * @returns {Promise<Plot<O>>}
 */
export async function plotted(figure, options, picture) {
	const there = plots.get(figure);
	if (there) {
		there.update(options);
		return there;
	}
	/** @type {Plot<O>} */
	const plot = new Plot(figure, options);
	plots.set(figure, plot);
	plot.update = (changes) => {
		options = { ...options, ...changes };
		const { config, table, isEmpty, series } = picture(options);
		plot.show({ ...options, series }, table, isEmpty);
		plot.want(config, options.bands ?? []);
	};
	plot.update({});
	// It may be printed before one comes near.
	ready().catch(() => {});
	await plot.looked;
	return plot;
}

// Power and the like over time

/** @param {Point} point */
const timeOf = (point) => /** @type {number} */ (point[0]);

/**
 * Put a null where two points are further apart than `step_s`: a gap is not drawn.
 * @param {readonly Point[]} points @param {number | undefined} step_s
 */
export function withGaps(points, step_s) {
	if (!step_s) return points;
	/** @type {Point[]} */
	const made = [];
	for (const [index, point] of points.entries()) {
		const before = points[index - 1];
		if (before && timeOf(point) - timeOf(before) > 1.5 * step_s)
			made.push([timeOf(before) + step_s, null]);
		made.push(point);
	}
	return made;
}

/** @param {TimeSeries} series @param {TimeOptions} options @returns {ChartSet[]} */
function lineSets(series, options) {
	const points = withGaps(series.points, series.step_s ?? options.step_s);
	const name = series.colour;
	const dots = points.some((_, index) => alone(points, index));
	/** @type {ChartSet} */
	const line = {
		label: series.name,
		data: points.map(([x, y]) => ({ x, y })),
		// Values, not functions: Chart.js would call those for each of the points.
		borderColor: colour(name),
		backgroundColor: series.hatched ? hatch(name, series.hatched, 0.6) : tint(name, 0.16),
		borderWidth: series.width ?? 2,
		borderDash: series.dashed ? [6, 5] : [],
		fill: series.area ? "origin" : false,
		stepped: series.step ? "before" : false,
		pointRadius: dots ? (context) => (alone(points, context.dataIndex) ? 2 : 0) : 0,
		pointHoverRadius: 4,
		pointBackgroundColor: colour(name),
		spanGaps: false,
		tension: 0,
	};
	if (!points.some((each) => each.length > 3)) return [line];
	/** @param {number} at @returns {ChartSet} */
	const edge = (at) => ({
		data: points.map((p) => ({ x: p[0], y: p[1] === null ? null : p[at] })),
		borderWidth: 0,
		pointRadius: 0,
		pointHoverRadius: 0,
		fill: false,
		naproxyHidden: true,
		spanGaps: false,
	});
	return [line, edge(2), { ...edge(3), fill: "-1", backgroundColor: tint(name, 0.22) }];
}

/**
 * A point between two gaps has no line: it needs a dot.
 * @param {readonly Point[]} points @param {number} at
 */
const alone = (points, at) =>
	points[at]?.[1] != null && points[at - 1]?.[1] == null && points[at + 1]?.[1] == null;

/** @param {TimeOptions} options @returns {ChartConfig} */
function timeConfig(options) {
	const format =
		options.format ??
		((/** @type {number} */ value) => `${number(value, 1)} ${options.unit ?? ""}`);
	/** @param {ChartItem} context */
	const y = (context) => format(context.parsed.y);
	/** @param {ChartItem} context */
	const label = (context) =>
		context.dataset.label ? `${context.dataset.label}: ${y(context)}` : y(context);
	const time = options.to_s - options.from_s > DAY ? clock : clockS;
	/** @param {ChartItem[]} items */
	const title = (items) =>
		items.length ? `${date(items[0].parsed.x)}, ${time(items[0].parsed.x)}` : "";
	return {
		type: "line",
		data: { datasets: options.series.flatMap((each) => lineSets(each, options)) },
		options: {
			...COMMON,
			parsing: false,
			normalized: true,
			interaction: { mode: "nearest", axis: "x", intersect: false },
			scales: { x: timeScale(options), y: valueScale(options) },
			plugins: { legend: { display: false }, tooltip: tooltip(title, label) },
		},
		plugins: [bandsPlugin, { id: "laidOut", afterLayout: () => options.laidOut?.() }],
	};
}

/** @type {ChartOptions} */
export const COMMON = {
	animation: false,
	responsive: true,
	maintainAspectRatio: false,
	resizeDelay: 50,
};

/** @param {TimeOptions} options @returns {Rows} */
function timeTable({ series: all, ...options }) {
	const series = all.filter((each) => !each.aside);
	const format = options.format ?? ((/** @type {number} */ value) => number(value, 1));
	const times = [
		...new Set(series.flatMap((each) => each.points.filter((p) => p[1] !== null).map(timeOf))),
	].sort((a, b) => b - a);
	const by = series.map((each) => new Map(each.points.map((p) => [timeOf(p), p[1]])));
	/** @param {number} t_s */
	const stamp = (t_s) =>
		options.to_s - options.from_s > 2 * DAY ? dateTime(t_s) : `${day(t_s)}, ${clockS(t_s)}`;
	/** @param {Map<number, number | null>} map @param {number} t_s */
	const cell = (map, t_s) => {
		const value = map.get(t_s);
		return value === null || value === undefined ? "–" : format(value);
	};
	return {
		columns: [t("kit.time"), ...series.map((each) => each.name ?? options.title ?? "")],
		rows: times.map((t_s) => [stamp(t_s), ...by.map((map) => cell(map, t_s))]),
	};
}

/**
 * Draw figures over time into a `<figure class="chart">`.
 *
 * Options:
 *
 * `series`: [{name, points: [[t_s, value|null, least?, most?]], colour: "c1", dashed
 * (an estimate), area, step, hatched, step_s, aside (a line to compare with: not in the table)}],
 *
 * `from_s`, `to_s`, `step_s` (further apart is a gap), `unit`, `format` (value -> words), `bands`:
 * [{from_s, to_s, state}],
 *
 * `size`: small or tall, `title`, `summary`, `none` (words without data), `fromZero`,
 * `suggestedMax`, `live`, `table: false`.
 *
 * Resolves to a plot: `update(options)`, `destroy()`, `chart` (Chart.js's own).
 * @param {HTMLElement} figure @param {TimeOptions} options
 */
export const timeChart = (figure, options) =>
	plotted(figure, options, (now) => ({
		series: now.series,
		config: timeConfig(now),
		table: () => timeTable(now),
		isEmpty: !now.series.some((each) => !each.aside && each.points.some((p) => p[1] !== null)),
	}));
