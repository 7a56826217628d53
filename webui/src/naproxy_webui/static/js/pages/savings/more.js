// What could have been saved: bounds, rules, and the curves of the thesis.

import { ApiError, at, h, icon, t } from "../../kit/core.js";
import { date, dateTime, duration, number, share, when } from "../../kit/format.js";
import { anyChart, barChart } from "../../kit/bars.js";
import { colour, table } from "../../kit/plot.js";
import { state, trouble, workOut } from "./work.js";

const mayChange = at("more").dataset.change === "true";

/** @param {Savings} told */
export async function showMore(told) {
	const { scope, current } = told;
	at("more-act").replaceChildren();
	at("more-state").replaceChildren(h("p.loading", t("savings.working")));
	/** @type {Hindsight | null} */
	let said = await state(scope);
	if (!current()) return;
	if (said.state === "none" && mayChange && !said.busy) said = await work(told);
	if (said && current()) await show(said, told);
}

/** @param {Savings} told */
async function work({ scope, current }) {
	at("more-act").replaceChildren();
	try {
		return await workOut(scope, at("more-state"), current);
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		if (current())
			at("more-state").replaceChildren(h("p.error", { role: "alert" }, error.message));
		return null;
	}
}

/** @param {Hindsight} said @param {Savings} told */
async function show(said, told) {
	const found = said.found?.rows ? /** @type {Findings} */ (said.found) : null;
	const words = trouble(said);
	if (!found && !words.length)
		words.push(h("p", t(said.busy ? "savings.other_running" : "savings.not_worked")));
	if (!found && !mayChange) words.push(h("p.hint", t("savings.not_yours")));
	at("more-state").replaceChildren(...words);
	if (mayChange && !said.fresh && said.state !== "running") {
		const again = h(
			"button.button.small",
			{
				type: "button",
				onclick: async () => {
					const after = await work(told);
					if (after && told.current()) await show(after, told);
				},
			},
			icon("refresh-cw"),
			t(found ? "savings.work_again" : "savings.work_out"),
		);
		at("more-act").replaceChildren(again);
	}
	at("more-found").hidden = !found;
	if (!found) {
		at("exact-rules").replaceChildren();
		return;
	}
	at("span").textContent = spanWords(found);
	at("reached").textContent = reached(found);
	showRules(found);
	await Promise.all([
		barChart(at("ladder"), ladder(found)),
		anyChart(at("curve"), curve(found)),
		anyChart(at("budget"), budget(found)),
	]);
}

/** @param {Findings} found @returns {number | null} */
const really = ({ actual }) =>
	actual.sums.always_j ? actual.sums.gross_j / actual.sums.always_j : null;
/** @param {Findings} found @param {string} name */
const row = ({ rows }, name) => rows.find((each) => each.policy === name);

/** @param {Findings} found */
function spanWords(found) {
	const { from_s, to_s, requests, needs, cut } = found.span;
	const words = [
		t("savings.span", {
			from: dateTime(from_s),
			to: dateTime(to_s),
			requests: number(requests),
			needs: number(needs),
		}),
	];
	if (cut) words.push(t("savings.span_cut"));
	words.push(t("savings.span_made", { time: when(found.made_s) }));
	return words.join(" ");
}

/** @param {Findings} found */
function reached(found) {
	const most = row(found, "bound-reactive")?.saving_gross,
		got = really(found);
	return most > 0 && got !== null && got > 0
		? t("savings.reached", {
				share: share(got / most),
				from: date(found.span.from_s),
				to: date(found.span.to_s),
			})
		: "";
}

/** @param {Findings} found @returns {BarOptions} */
function ladder(found) {
	const shown = [
		[t("savings.really"), really(found)],
		...["teacher", "thesis", "bound-reactive", "bound-pre-wake", "idealised"].map((name) => [
			t(`savings.rule.${name}`),
			row(found, name)?.saving_gross ?? null,
		]),
	];
	/** @param {number | null} value */
	const percent = (value) => (value === null ? null : 100 * Math.max(0, value));
	/** @param {(index: number) => boolean} keep */
	const only = (keep) => shown.map(([, value], index) => (keep(index) ? percent(value) : null));
	// On a phone there is little room for words beside bars.
	const narrow = matchMedia("(max-width: 40rem)").matches;
	return {
		title: t("savings.ladder_title"),
		along: t("savings.ladder_along"),
		horizontal: true,
		stacked: true,
		size: narrow ? "tall" : "",
		labels: shown.map(([name]) => wrapped(name, narrow ? 20 : 34)),
		series: [
			{
				name: t("savings.ladder_really"),
				values: only((index) => index === 0),
				colour: "c3",
			},
			{
				name: t("savings.ladder_computed"),
				values: only((index) => index > 0),
				colour: "c1",
				hatched: "/",
			},
		],
		unit: "%",
		max: 100,
		format: (value) => share(value / 100, 1),
	};
}

/** @param {string} words @param {number} most */
function wrapped(words, most) {
	const lines = [""];
	for (const word of words.split(" ")) {
		if (lines.at(-1) && (lines.at(-1) + word).length > most) lines.push("");
		lines.push(`${lines.pop()} ${word}`.trim());
	}
	return lines.length > 1 ? lines : words;
}

// Curves: a logarithmic axis, with words for its ticks

/**
 * @param {string} name @param {number[][]} points @param {string} colourName @param {number[]} dash
 * @returns {ChartSet}
 */
function line(name, points, colourName, dash = []) {
	return {
		label: name,
		data: points.map(([x, y]) => ({ x, y })),
		borderColor: () => colour(colourName),
		backgroundColor: () => colour(colourName),
		borderWidth: 2,
		borderDash: dash,
		pointRadius: 2,
		pointHoverRadius: 5,
		tension: 0,
	};
}

/** @param {Curve[]} sets @param {CurveWords} words @returns {AnyOptions} */
function lines(sets, { title, x, xWords, ticks, none }) {
	const axis = { grid: { color: () => colour("line") }, border: { display: false } };
	/** @param {ChartItem} item */
	const label = (item) => `${item.dataset.label}: ${share(item.parsed.y / 100, 1)}`;
	return {
		title,
		none,
		config: {
			type: "line",
			data: {
				datasets: sets.map(({ name, points, colour: of, dashed }) =>
					line(name, points, of, dashed ? [6, 5] : []),
				),
			},
			options: {
				parsing: false,
				interaction: { mode: "nearest", axis: "x", intersect: false },
				scales: {
					x: {
						...axis,
						type: "logarithmic",
						min: ticks[0],
						max: ticks.at(-1),
						title: { display: true, text: x, color: () => colour("soft") },
						afterBuildTicks: (scale) => {
							scale.ticks = ticks.map((value) => ({ value }));
						},
						ticks: {
							color: () => colour("soft"),
							callback: xWords,
							maxRotation: 0,
							autoSkip: true,
						},
					},
					y: {
						...axis,
						min: 0,
						max: 100,
						ticks: {
							color: () => colour("soft"),
							callback: (value) => `${number(value)} %`,
							maxTicksLimit: 6,
						},
					},
				},
				plugins: {
					legend: { display: false },
					tooltip: {
						callbacks: {
							title: (items) =>
								items.length ? `${x}: ${xWords(items[0].parsed.x)}` : "",
							label,
						},
					},
				},
			},
		},
		series: sets.map(({ name, colour: of, dashed }) => ({ name, colour: of, dashed })),
		table: {
			columns: [x, ...sets.map((each) => each.name)],
			rows: sets[0].points.map(([value], index) => [
				xWords(value),
				...sets.map((each) => share(each.points[index][1] / 100, 2)),
			]),
		},
	};
}

/** @param {Findings} found */
function curve({ thresholds }) {
	/** @param {(each: Loose) => number} pick */
	const of = (pick) =>
		thresholds.map((each) => [each.threshold_s, 100 * Math.max(0, pick(each))]);
	return lines(
		[
			{
				name: t("savings.curve_saved"),
				points: of((each) => each.saving_gross),
				colour: "c3",
			},
			{
				name: t("savings.curve_ideal"),
				points: of((each) => each.idealised_gross),
				colour: "c1",
				dashed: true,
			},
			{
				name: t("savings.curve_delayed"),
				points: of((each) => each.delayed_fraction),
				colour: "c2",
			},
		],
		{
			title: t("savings.curve_title"),
			x: t("savings.curve_x"),
			xWords: (value) => duration(value),
			ticks: [5, 15, 60, 300, 1200, 3600, 14400, 28800],
		},
	);
}

/** @param {Findings} found */
function budget({ budgets }) {
	/** @param {string} policy */
	const of = (policy) =>
		budgets
			.filter((each) => each.policy === policy && each.promise.f > 0)
			.map((each) => [100 * each.promise.f, 100 * Math.max(0, each.saving_gross)]);
	return lines(
		[
			{ name: t("savings.budget_reactive"), points: of("bound-reactive"), colour: "c3" },
			{
				name: t("savings.budget_pre"),
				points: of("bound-pre-wake"),
				colour: "c1",
				dashed: true,
			},
		],
		{
			title: t("savings.budget_title"),
			x: t("savings.budget_x"),
			xWords: (value) => `${number(value, 1)} %`,
			ticks: [0.1, 0.2, 0.5, 1, 2, 5, 10, 20],
		},
	);
}

/** @param {Findings} found */
function showRules({ rows }) {
	/** @param {number | null} value @param {number} digits */
	const cell = (value, digits) => (value === null ? "–" : number(value, digits));
	at("exact-rules").replaceChildren(
		h("h3", t("savings.rules_title")),
		...table({
			label: t("savings.rules_title"),
			columns: ["rule", "wh", "gross", "net", "reactive", "delayed", "p99", "cycles"].map(
				(name) => t(`savings.col_${name}`),
			),
			rows: rows.map((each) => [
				t(`savings.rule.${each.policy}`),
				number(each.energy_wh, 1),
				share(each.saving_gross, 2),
				share(each.saving_net, 2),
				share(each.share_of_reactive, 1),
				share(each.delayed_fraction, 2),
				cell(each.delay_p99_s, 1),
				number(each.cycles_per_day, 1),
			]),
		}),
	);
}
