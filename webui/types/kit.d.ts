// Names for the JSDoc of the scripts. Nothing in this folder is served. `Api` and `Ids`, what the
// API answers and what is in the templates, are made by declare.py.

// Elements

type Tag<T extends string> = T extends keyof HTMLElementTagNameMap
	? HTMLElementTagNameMap[T]
	: HTMLElement;
type Before<S extends string, Mark extends string> = S extends `${infer T}${Mark}${string}` ? T : S;

/** What `h("p.hint")` makes. */
type Made<K extends string> = Tag<Before<K, ".">>;

/** What a selector finds, as far as its last part names an element. */
type Found<S extends string> = S extends `${string},${string}`
	? HTMLElement
	: S extends `${string} ${infer Last}`
		? Found<Last>
		: Tag<Before<Before<Before<Before<S, "#">, ".">, "[">, ":">>;

type Child = Node | string | number | false | null | undefined | Child[];
type Attribute = string | number | boolean | null | undefined | ((event: any) => unknown);
type Attributes = { [name: string]: Attribute };
/** Any control of a form. */
interface Field extends HTMLElement {
	name: string;
	type: string;
	value: string;
	disabled: boolean;
	checked?: boolean;
	multiple?: boolean;
	selectedOptions?: Iterable<HTMLOptionElement>;
}
type Words = Record<string, unknown>;

// The API

type Answer<Method extends string, Path extends string> = `${Method} ${Path}` extends keyof Api
	? Api[`${Method} ${Path}`]
	: any;
type Query = Record<string, unknown>;
interface Problem {
	where: string | null;
	error: string;
}

/** One stage of a wake. */
type Stage = { stage: "power" | "link" | "network" | "port" | "answer"; took_s: number };

// Charts

type Maybe = number | null | undefined;
type Hatch = "/" | "\\" | "x";
/** Time, value, and perhaps the least and the most. */
type Point = readonly (number | null)[];
interface Band {
	from_s: number;
	to_s: number;
	state: string;
}
interface Series {
	name?: string;
	colour: string;
	dashed?: boolean;
	hatched?: Hatch | "" | false;
	kind?: "line" | "bar";
}
interface TimeSeries extends Series {
	points: readonly Point[];
	area?: boolean;
	step?: boolean;
	step_s?: number;
	width?: number;
	/** A line to compare with: not in the table. */
	aside?: boolean;
}
interface BarSeries extends Series {
	values: readonly Maybe[];
	stack?: string;
}
/** What the legend names: a series, or a state. */
interface Entry extends Partial<Series> {
	area?: boolean;
	state?: string;
}
interface Rows {
	columns: Child[];
	rows: Child[][];
	/** Which end of many rows is shown. */
	end?: boolean;
	label?: string;
}
/** What a plot shows: those options that pictures of every kind have, and what its legend names. */
type Shown = PlotOptions & { series: readonly Entry[]; table?: unknown };
/** What a plot is to show for its options. */
interface Picture {
	config: ChartConfig;
	table: () => Rows;
	isEmpty: boolean;
	series: readonly Entry[];
}
interface PlotOptions {
	title?: string;
	summary?: string;
	none?: string;
	unit?: string;
	size?: "small" | "tall" | "";
	format?: (value: number) => string;
	tick?: (value: number) => string;
	min?: number;
	max?: number;
	fromZero?: boolean;
	suggestedMax?: number;
	stacked?: boolean;
	live?: boolean;
	legend?: boolean;
	isEmpty?: boolean;
	bands?: readonly Band[];
}
interface TimeOptions extends PlotOptions {
	series: readonly TimeSeries[];
	from_s: number;
	to_s: number;
	step_s?: number;
	table?: false;
	/** Called when the chart's area has its place and size: at first, and at each change. */
	laidOut?: () => void;
}
interface BarOptions extends PlotOptions {
	series: readonly BarSeries[];
	labels: readonly (string | string[])[];
	along?: string;
	horizontal?: boolean;
	table?: false;
}
interface AnyOptions extends PlotOptions {
	config: ChartConfig;
	table: Rows;
	series?: readonly Entry[];
}

interface Curve extends Series {
	name: string;
	points: readonly number[][];
}
interface CurveOptions extends PlotOptions {
	curves: readonly Curve[];
	along: string;
	words: (value: number) => string;
	ticks: readonly number[];
}

interface Options {
	query?: Query | null;
	body?: unknown;
	timeout_ms?: number;
}
interface Polling<Said> {
	every_s: number;
	query?: Query | (() => Query);
	data: (said: Said) => unknown;
	error?: (problem: import("../src/naproxy_webui/static/js/kit/core.js").ApiError) => unknown;
}

/** A question for `confirm`. */
interface Question {
	title: string;
	text?: Node | string;
	yes: string;
	no?: string;
	danger?: boolean;
}
/** What the top of a page says of the box; the page Now has more of the same. */
type Box = Api["GET /api/box"];
type Upload = Api["POST /api/uploads"];
interface Sending {
	kind: string;
	sha256?: string;
	progress?: (sent: number, size: number, words: string | null) => unknown;
	signal?: AbortSignal;
}
type Plot<O extends PlotOptions> = import("../src/naproxy_webui/static/js/kit/plot.js").Plot<O>;
