// Pauses between requests that need the server: how many of each length, how much of the time.

import { barChart } from "../../kit/bars.js";
import { at, t } from "../../kit/core.js";
import { duration, number, share } from "../../kit/format.js";

const LONG_S = 300;

/** @param {number} s */
const length = (s) => (s === 60 ? `1\u00a0${t("kit.unit.min")}` : duration(s));

/** Words for each bucket, from its edges in seconds. @param {number[]} edges_s */
function bucketWords(edges_s) {
	const between = edges_s
		.slice(1)
		.map((to_s, n) =>
			t("traffic.gaps.between", { from: length(edges_s[n]), to: length(to_s) }),
		);
	return [
		t("traffic.gaps.under", { length: length(edges_s[0]) }),
		...between,
		t("traffic.gaps.over", { length: length(edges_s[edges_s.length - 1]) }),
	];
}

/** @param {number[]} values */
const sum = (values) => values.reduce((all, each) => all + each, 0);

/**
 * Show what `/api/traffic/gaps` said of a range.
 * @param {Gaps} said @param {{ from_s: number, to_s: number }} range
 */
export async function showGaps(said, { from_s, to_s }) {
	const { edges_s, counts, sums_s, worth_s, watched_s } = said;
	const lower_s = [0, ...edges_s],
		all = sum(counts);
	const words = at("gaps-words"),
		note = at("gaps-note");
	words.textContent = all ? sentence(said, lower_s, all) : t("traffic.gaps.none");
	const seen = Math.min(1, watched_s / (to_s - from_s));
	note.hidden = seen > 0.98;
	note.textContent = t("traffic.gaps.unwatched", { share: share(seen, 0) });
	const long = lower_s.map((from) => worth_s !== null && from >= worth_s);
	/** @param {number[]} values @returns {BarSeries[]} */
	const parts = (values) => [
		{
			name: t("traffic.gaps.short"),
			colour: "c8",
			hatched: "/",
			values: values.map((each, n) => (long[n] ? null : each)),
		},
		{
			name: t("traffic.gaps.long"),
			colour: "c1",
			values: values.map((each, n) => (long[n] ? each : null)),
		},
	];
	/** @param {string} name @param {number[]} values @returns {BarSeries[]} */
	const plain = (name, values) => [{ name, colour: "c1", values }];
	/** @type {Omit<BarOptions, "series">} */
	const common = {
		labels: bucketWords(edges_s),
		along: t("traffic.gaps.length"),
		stacked: true,
		horizontal: true,
		size: "tall",
	};
	const times = sums_s.map((each) => (watched_s ? each / watched_s : 0));
	/** @param {string} name @param {number[]} values */
	const series = (name, values) => (worth_s === null ? plain(name, values) : parts(values));
	await Promise.all([
		barChart(at("gaps-count"), {
			...common,
			title: t("traffic.gaps.count_title"),
			format: (value) => number(value),
			series: series(t("traffic.gaps.count"), counts),
		}),
		barChart(at("gaps-time"), {
			...common,
			title: t("traffic.gaps.time_title"),
			format: share,
			tick: (value) => share(value, 0),
			series: series(t("traffic.gaps.time"), times),
		}),
	]);
}

/** @param {Gaps} said @param {number[]} lower_s @param {number} all */
function sentence({ counts, sums_s, worth_s, watched_s }, lower_s, all) {
	const from = lower_s.indexOf(LONG_S);
	const values = {
		count: share(sum(counts.slice(from)) / all),
		time: share(Math.min(1, sum(sums_s.slice(from)) / watched_s)),
		length: duration(LONG_S),
	};
	return worth_s === null
		? t("traffic.gaps.sentence_plain", values)
		: t("traffic.gaps.sentence", { ...values, worth: duration(worth_s) });
}
