// The possible savings: bounds, rules, and the curves of the thesis.

import { at, button, fill, h, icon, refusal, t } from "../../kit/core.js";
import {
	co2,
	duration,
	energy,
	midnight,
	money,
	number,
	share,
	span,
	when,
} from "../../kit/format.js";
import { barChart, curveChart } from "../../kit/bars.js";
import { table } from "../../kit/plot.js";
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
		const { message } = refusal(error);
		if (current()) fill(at("more-state"), h("p.error", { role: "alert" }, message));
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
	fill(at("more-state"), words);
	if (mayChange && !said.fresh && said.state !== "running") {
		const words = [icon("refresh-cw"), t(found ? "savings.work_again" : "savings.work_out")];
		const again = async () => {
			const after = await work(told);
			if (after && told.current()) await show(after, told);
		};
		fill(at("more-act"), button(".small", words, again));
	}
	at("more-found").hidden = !found;
	if (!found) {
		fill(at("exact-rules"));
		return;
	}
	at("span").textContent = spanWords(found);
	at("reached").textContent = reached(found);
	showRules(found);
	showCosts(found);
	await Promise.all([
		barChart(at("ladder"), ladder(found)),
		curveChart(at("curve"), curve(found)),
		curveChart(at("budget"), budget(found)),
	]);
}

/** @param {Findings} found @returns {number | null} */
const really = ({ actual }) =>
	actual.sums.always_j ? actual.sums.gross_j / actual.sums.always_j : null;
/** @param {Findings} found @param {string} name */
const row = ({ rows }, name) => rows.find((each) => each.policy === name);

/** @param {Findings} found */
function spanWords(found) {
	const { requests, needs, cut } = found.span;
	const all = found.actual.requests ?? requests;
	const words = [
		t("savings.span_in", { span: daysOf(found), requests: number(all) }),
		t(all === requests ? "savings.span_needs" : "savings.span_gone_through", {
			requests: number(requests),
			needs: number(needs),
		}),
	];
	if (cut) words.push(t("savings.span_cut"));
	words.push(t("savings.span_made", { time: when(found.made_s) }));
	return words.join(" ");
}

/** The days that it is about: the end may be any time of the last one. @param {Findings} found */
const daysOf = ({ span: { from_s, to_s } }) => span(midnight(from_s), midnight(to_s - 1, 1));

/** @param {Findings} found */
function reached(found) {
	const most = row(found, "bound-reactive")?.saving_gross,
		got = really(found);
	return most > 0 && got !== null && got > 0
		? t("savings.reached_in", { share: share(got / most), span: daysOf(found) })
		: "";
}

/** The possible costs beside the actual ones. @param {Findings} found */
function showCosts({ costs, actual, question }) {
	// Answers kept by an older release have none.
	if (!costs || !actual?.used || !actual.sums.always_j) {
		fill(at("compared"));
		return;
	}
	// Unknown time counts like the rest.
	const scale = costs.always.energy_j / actual.sums.always_j;
	/** @param {Loose} server @param {boolean} box */
	const amounts = (server, box, times = 1) =>
		["energy_j", "money", "co2_g"].map((name) =>
			server[name] === null
				? null
				: times * server[name] + (box ? scale * (actual.box[name] ?? 0) : 0),
		);
	const waited = actual.requests ? actual.delayed / actual.requests : null;
	const { always, timeout, idealised } = costs;
	/** @type {[string, (number | null)[], number | null][]} */
	const rows = [
		[t("savings.sum_always"), amounts(always, false), 0],
		[t("savings.really"), amounts(actual.used, true, scale), waited],
		[t("savings.rule.idealised"), amounts(idealised, true), 0],
	];
	if (timeout) {
		const time = duration(timeout.threshold_s);
		const name = t("savings.cost_timeout", { time });
		rows.splice(1, 0, [name, amounts(timeout, true), timeout.delayed_fraction]);
	}
	const priced = always.money !== null;
	const weighed = always.co2_g !== null;
	fill(
		at("compared"),
		h("h3", t("savings.cost_title")),
		table({
			label: t("savings.cost_title"),
			columns: [
				t("savings.ladder_along"),
				t("savings.cost_energy"),
				...(priced ? [t("savings.cost_money")] : []),
				...(weighed ? ["CO₂"] : []),
				t("savings.if_waited"),
			],
			rows: rows.map(([name, [j, amount, grams], share_]) => [
				name,
				energy(j),
				...(priced ? [money(amount)] : []),
				...(weighed ? [co2(grams)] : []),
				share(share_, 2),
			]),
		}),
		h("p.hint", t("savings.cost_words")),
		!timeout &&
			h("p.hint", t("savings.cost_no_timeout", { share: share(question.promise.f, 2) })),
	);
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
	const labels = shown.map(([name]) => wrapped(name, narrow ? 20 : 34));
	const lines = Math.max(...labels.map((words) => [words].flat().length));
	return {
		title: t("savings.ladder_title"),
		along: t("savings.ladder_along"),
		horizontal: true,
		stacked: true,
		// Labels of three lines would lie upon each other.
		size: narrow || lines > 2 ? "tall" : "",
		labels,
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

// Curves

/** @param {Findings} found @returns {CurveOptions} */
function curve({ thresholds }) {
	/** @param {(each: Loose) => number} pick */
	const of = (pick) => thresholds.map((each) => [each.threshold_s, Math.max(0, pick(each))]);
	return {
		curves: [
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
		title: t("savings.curve_title"),
		along: t("savings.curve_x"),
		words: duration,
		ticks: [5, 15, 60, 300, 1200, 3600, 14400, 28800],
	};
}

/** @param {Findings} found @returns {CurveOptions} */
function budget({ budgets }) {
	/** @param {string} policy */
	const of = (policy) =>
		budgets
			.filter((each) => each.policy === policy && each.promise.f > 0)
			.map((each) => [100 * each.promise.f, Math.max(0, each.saving_gross)]);
	return {
		curves: [
			{ name: t("savings.budget_reactive"), points: of("bound-reactive"), colour: "c3" },
			{
				name: t("savings.budget_pre"),
				points: of("bound-pre-wake"),
				colour: "c1",
				dashed: true,
			},
		],
		title: t("savings.budget_title"),
		along: t("savings.budget_x"),
		words: (value) => `${number(value, 1)} %`,
		ticks: [0.1, 0.2, 0.5, 1, 2, 5, 10, 20],
	};
}

/** @param {Findings} found */
function showRules({ rows }) {
	/** @param {number | null} value @param {number} digits */
	const cell = (value, digits) => (value === null ? "–" : number(value, digits));
	fill(
		at("exact-rules"),
		h("h3", t("savings.rules_title")),
		table({
			label: t("savings.rules_title"),
			columns: ["rule", "wh", "gross", "net", "reactive", "delayed", "p99", "cycles"].map(
				(name) => t(`savings.col_${name}`),
			),
			rows: rows.map((each) => [
				`${t(`savings.rule.${each.policy}`)} (${each.policy})`,
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
