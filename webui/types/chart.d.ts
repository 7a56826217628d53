// The part of Chart.js that the kit and the pages use: `window.Chart`, once it is loaded.

type Paint = string | CanvasPattern | null;
type Scriptable<T> = T | ((context: ChartItem) => T);

/** A point that is drawn, or that the pointer is at; a gap's `y` is null, and it is not at one. */
interface ChartItem {
	dataset: ChartSet;
	dataIndex: number;
	label: string;
	parsed: { x: number; y: number };
}
interface ChartSet {
	label?: string;
	type?: "line" | "bar";
	data: readonly unknown[];
	borderColor?: Scriptable<Paint>;
	backgroundColor?: Scriptable<Paint>;
	pointBackgroundColor?: Scriptable<Paint>;
	borderWidth?: Scriptable<number>;
	borderDash?: number[];
	borderRadius?: number;
	pointRadius?: Scriptable<number>;
	pointHoverRadius?: number;
	maxBarThickness?: number;
	fill?: "origin" | "-1" | false;
	stepped?: "before" | false;
	spanGaps?: boolean;
	tension?: number;
	stack?: string;
	/** Neither a point of its own nor in the tooltip. */
	naproxyHidden?: boolean;
}
interface ChartTick {
	value: number;
}
interface ChartAxis {
	min: number;
	max: number;
	width: number;
	chart: Chart;
	ticks: ChartTick[];
	getPixelForValue(value: number): number;
}
interface AxisOptions {
	type?: "linear" | "logarithmic";
	min?: number;
	max?: number;
	suggestedMax?: number;
	beginAtZero?: boolean;
	stacked?: boolean;
	grid?: { display?: boolean; color?: () => string; drawTicks?: boolean; tickLength?: number };
	border?: { display?: boolean; color?: () => string };
	title?: { display: boolean; text?: string | undefined; color: () => string };
	ticks?: {
		callback?: (value: number, index: number, ticks: ChartTick[]) => string;
		color?: () => string;
		maxRotation?: number;
		maxTicksLimit?: number;
		autoSkip?: boolean;
		autoSkipPadding?: number;
		padding?: number;
	};
	afterBuildTicks?: (axis: ChartAxis) => void;
}
interface TooltipOptions {
	backgroundColor?: () => string;
	titleColor?: () => string;
	bodyColor?: () => string;
	footerColor?: () => string;
	padding?: number;
	cornerRadius?: number;
	boxPadding?: number;
	filter?: (item: ChartItem) => boolean;
	callbacks: {
		title?: (items: ChartItem[]) => string;
		label?: (item: ChartItem) => string;
		footer?: (items: ChartItem[]) => string | string[];
	};
}
interface ChartOptions {
	animation?: false;
	responsive?: boolean;
	maintainAspectRatio?: boolean;
	resizeDelay?: number;
	parsing?: false;
	normalized?: boolean;
	indexAxis?: "x" | "y";
	interaction?: { mode: "nearest" | "index"; axis: "x" | "y"; intersect: boolean };
	onClick?: (event: unknown, items: { index: number }[]) => unknown;
	scales?: Record<string, AxisOptions>;
	plugins?: { legend?: { display: boolean }; tooltip?: TooltipOptions };
}
interface ChartConfig {
	type: "line" | "bar";
	data: { labels?: readonly (string | string[])[]; datasets: ChartSet[] };
	options?: ChartOptions;
	plugins?: ChartPlugin[];
}
interface ChartPlugin {
	id: string;
	afterLayout?(): void;
	beforeDatasetsDraw?(chart: Chart): void;
	afterDatasetsDraw?(chart: Chart): void;
}
declare class Chart {
	readonly width: number;
	static readonly defaults: { font: object };
	constructor(canvas: HTMLCanvasElement, config: ChartConfig);
	options: ChartOptions;
	data: ChartConfig["data"];
	readonly chartArea: { left: number; right: number; top: number; bottom: number };
	readonly ctx: CanvasRenderingContext2D;
	readonly scales: Record<string, ChartAxis>;
	naproxyBands?: readonly Band[];
	draw(): void;
	update(mode?: "none"): void;
	destroy(): void;
}
interface Window {
	Chart?: typeof Chart;
}
