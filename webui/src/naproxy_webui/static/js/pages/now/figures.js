// The figures of a server on the page Now: its power, its requests, and the chart of both.

import { h, one, redrawList, say, stat, t } from "../../kit/core.js";
import { duration, number, share, unknown, watts } from "../../kit/format.js";
import { timeChart } from "../../kit/plot.js";

export const CLASSES = ["person", "api", "crawler", "monitor", "feed", "scanner"];

/** @param {HTMLElement} element made by `stat` @param {string} value @param {string} note */
function showStat(element, value, note = "") {
	const words = one(".stat-note", element);
	say(one(".stat-value", element), value);
	say(words, note);
	words.hidden = !note;
}

/** @param {number} window_s */
function windowWords(window_s) {
	if (window_s >= 58) return t("now.requests_minute");
	if (window_s < 1) return t("now.requests_wait");
	return t("now.requests_in", { time: duration(Math.round(window_s)) });
}

export class Figures {
	/** @type {number[][]} */
	#points = [];
	/** @type {Band[]} */
	#bands = [];
	/** @type {Plot<TimeOptions> | undefined} */
	#plot;

	/** @param {number} live_s how long the chart goes back */
	constructor(live_s) {
		this.live_s = live_s;
		this.draws = stat(t("now.draws"), unknown);
		this.always = stat(t("now.always"), unknown);
		this.less = stat(t("now.less"), unknown);
		this.requests = stat(t("now.requests"), unknown);
		this.waiting = stat(t("now.waiting"), unknown);
		this.byClass = h("ul.server-classes");
		this.figure = h("figure.chart", { hidden: true }, h("figcaption", t("now.chart")));
		this.meterWords = h("p.hint", { hidden: true });
		this.elements = [
			h("div.stats", this.draws, this.always, this.less, this.requests, this.waiting),
			this.byClass,
			this.figure,
			this.meterWords,
		];
	}

	/**
	 * @param {Server} server @param {number} now_s
	 * @param {boolean} visible nobody sees the chart of a closed card
	 */
	show(server, now_s, visible) {
		this.#showPower(server);
		this.#showRequests(server);
		this.#showChart(server, now_s, visible);
	}

	/** The newest second there is. */
	since_s() {
		return this.#points.at(-1)?.[0] ?? 0;
	}

	destroy() {
		this.#plot?.destroy();
	}

	/** @param {Server} server */
	#showPower({ power, always_on: always, state }) {
		const drawn_w = power?.power_w ?? null,
			meter = power?.meter;
		const kind = t(power?.estimated ? "now.estimated" : "now.measured");
		showStat(
			this.draws,
			watts(drawn_w),
			drawn_w !== null
				? `${kind} ${t("now.by_meter", { meter })}`
				: power
					? t("now.silent_meter", { meter })
					: t("now.no_meter"),
		);
		this.draws.classList.toggle("estimated", drawn_w !== null && Boolean(power?.estimated));
		if (always)
			showStat(
				this.always,
				watts(always.w),
				t(always.measured ? "now.always_measured" : "now.always_assumed"),
			);
		else showStat(this.always, unknown);
		this.less.hidden =
			drawn_w === null || !always || !["asleep", "falling_asleep"].includes(state);
		if (drawn_w !== null && always) {
			const less = Math.max(0, always.w - drawn_w);
			showStat(this.less, watts(less), `${share(less / always.w)}, ${t("now.less_note")}`);
		}
		this.meterWords.hidden = power !== null && !power.problem;
		if (!power) say(this.meterWords, t("now.no_meter_words"));
		else if (power.problem)
			say(this.meterWords, t("now.meter_problem", { meter, words: power.problem }));
	}

	/** @param {Server} server */
	#showRequests({ requests: { by_class, window_s }, held }) {
		const sum = CLASSES.reduce((total, name) => total + (by_class[name] ?? 0), 0);
		showStat(this.requests, number(sum), windowWords(window_s));
		if (held) showStat(this.waiting, number(held), t("now.waiting_note", { count: held }));
		else showStat(this.waiting, t("now.waiting_none"));
		const words = CLASSES.filter((name) => by_class[name]).map(
			(name) => `${t(`kit.class.${name}`)}: ${number(by_class[name])}`,
		);
		redrawList(this.byClass, words, (each) => h("li", each));
	}

	/** @param {Server} server @param {number} now_s @param {boolean} visible */
	#showChart(server, now_s, visible) {
		const newest = this.since_s();
		this.#points.push(...server.seconds.filter(([t_s]) => t_s > newest + 0.5));
		const from_s = now_s - this.live_s;
		while (this.#points.length && this.#points[0][0] < from_s) this.#points.shift();
		this.#addBands(server, from_s, now_s);
		const { power } = server;
		this.figure.hidden = !power;
		if (power && visible) this.#draw(server, power, from_s, now_s);
	}

	/** @param {Server} server @param {number} from_s @param {number} now_s */
	#addBands(server, from_s, now_s) {
		if (server.bands) this.#bands = server.bands;
		const last = this.#bands.at(-1);
		if (last?.state === server.state) last.to_s = now_s;
		else {
			const start_s = Math.min(now_s, Math.max(server.since_s, last?.from_s ?? from_s));
			if (last) last.to_s = start_s;
			this.#bands.push({ from_s: last ? start_s : from_s, to_s: now_s, state: server.state });
		}
		this.#bands = this.#bands.filter((each) => each.to_s > from_s);
	}

	/** @param {Server} server @param {Power} power @param {number} from_s @param {number} to_s */
	async #draw({ always_on: always }, { estimated }, from_s, to_s) {
		const kind = t(estimated ? "now.estimated" : "now.measured");
		/** @type {TimeSeries[]} */
		const series = [
			{
				name: `${t("now.server_draws")} (${kind})`,
				colour: estimated ? "c2" : "c1",
				area: true,
				dashed: estimated,
				hatched: estimated && "/",
				step_s: 1,
				points: this.#points,
			},
		];
		if (always)
			series.push({
				name: t("now.always"),
				colour: "c8",
				dashed: true,
				aside: true,
				width: 1.5,
				points: [
					[from_s, always.w],
					[to_s, always.w],
				],
			});
		const options = {
			title: t("now.chart"),
			unit: "W",
			format: watts,
			live: true,
			from_s,
			to_s,
			series,
			bands: this.#bands,
			none: t("now.chart_none"),
			suggestedMax: always ? always.w * 1.15 : undefined,
		};
		this.#plot = await timeChart(this.figure, options);
	}
}
