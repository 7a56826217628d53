// The most frequent wakers by page, address, program, kind or hour; and one that stands out.

import { all, at, fill, get, h, icon, facts, t } from "../../kit/core.js";
import { barChart } from "../../kit/bars.js";
import { duration, energy, number, share } from "../../kit/format.js";
import { line, lines } from "./list.js";
import { agentWords, nothing, price } from "./words.js";
import { mayChange, ruledBy, ruleDialog, stopButton } from "./rules.js";

const LEAST_NOISY = 5,
	NOISY_SHARE = 0.1,
	SHOWN = 8;
/** The kinds of visitors, each with its colour. @type {[keyof Group["classes"], string][]} */
const CLASSES = [
	["person", "c2"],
	["api", "c1"],
	["feed", "c3"],
	["monitor", "c4"],
	["crawler", "c8"],
	["scanner", "c5"],
];
const BY = ["path", "address", "agent", "class", "hour"];
const buttons = all("[data-by]");
/** @type {Told | null} */
let told = null;

for (const button of buttons)
	button.addEventListener("click", () => told?.go({ by: button.dataset.by }));

/** @param {HTMLElement} place @param {Told} options */
export async function showWakers(place, options) {
	told = options;
	const { asked } = options;
	const by = BY.includes(asked.by) ? asked.by : "path";
	for (const each of buttons) each.setAttribute("aria-pressed", String(each.dataset.by === by));
	place.hidden = by === "hour";
	at("hours").hidden = by !== "hour";
	if (by === "hour") await showHours(options);
	else await showGroups(place, options, /** @type {Group["kind"]} */ (by));
}

/** @param {Told} options */
async function showHours({ server, from_s, to_s, current }) {
	const said = await get("/api/history/hours", { server, from_s, to_s });
	if (!current()) return;
	fill(at("noisy"));
	await barChart(at("hours"), {
		title: t("history.hours_title"),
		labels: said.hours.map((_, hour) => String(hour).padStart(2, "0")),
		along: t("history.by_hour"),
		stacked: true,
		legend: true,
		size: "small",
		series: CLASSES.filter(([name]) => said.hours.some((each) => each[name])).map(
			([name, colour]) => ({
				name: t(`kit.class.${name}`),
				colour,
				values: said.hours.map((each) => each[name]),
			}),
		),
		format: (value) => number(value, 0),
		none: t("history.wakers_none"),
	});
}

/** @param {HTMLElement} place @param {Told} options @param {Group["kind"]} kind */
async function showGroups(place, { server, from_s, to_s, current }, kind) {
	const said = await get("/api/history/wakers", { server, from_s, to_s, by: kind });
	if (!current()) return;
	fill(at("noisy"), noisy(said, server));
	if (!said.groups.length) {
		place.replaceChildren(nothing(t("history.wakers_none"), "moon"));
		return;
	}
	const again = said.groups.filter((group) => group.wakes > 1);
	const shown = again.length ? again.slice(0, SHOWN) : said.groups.slice(0, 3);
	const rest = again.length && again.length <= SHOWN && said.groups.length > again.length;
	const list = lines(t("history.wakers_title"));
	for (const [n, group] of shown.entries()) list.append(line(row(group, said, server), n === 0));
	const there = CLASSES.filter(([name]) => shown.some((group) => group.classes[name]));
	const legend = h(
		"ul.legend",
		there.map(([name, colour]) => h("li", swatch(colour), t(`kit.class.${name}`))),
	);
	fill(place, h("div.stack.tight", list, legend, rest ? h("p.hint", t("history.rarely")) : null));
}

/** @param {string} colour @param {number} [share] of the line */
function swatch(colour, share) {
	const made = h(share === undefined ? "span.swatch" : "span");
	made.style.background = `var(--${colour})`;
	if (share !== undefined) made.style.width = `${100 * share}%`;
	return made;
}

/** @param {Group} group */
const keyWords = ({ kind, key }) =>
	kind === "agent" ? agentWords(key) : kind === "class" ? t(`kit.class.${key}`) : key;

/** @type {Record<Group["kind"], ("paths" | "addresses" | "agents")[]>} */
const OTHERS = {
	path: ["agents", "addresses"],
	address: ["paths", "agents"],
	agent: ["paths", "addresses"],
	class: ["paths", "agents"],
};

/**
 * Examples of a group's wakes by the other two of page, address and program.
 * @param {Group} group
 */
function others(group) {
	return OTHERS[group.kind].map((name) => examples(group[name], name)).filter(Boolean);
}

/** @param {Group["paths"]} counts @param {string} name */
function examples(counts, name) {
	const [first] = counts.most;
	if (!first) return "";
	const words = name === "agents" ? agentWords(first.key) : first.key;
	return counts.distinct > 1
		? `${words} ${t("history.more_of", { count: counts.distinct - 1 })}`
		: words;
}

/** @param {Group} group @param {Wakers} said @param {string} server @returns {Line} */
function row(group, said, server) {
	const part = group.wakes / said.wakes;
	const most = said.groups[0].wakes;
	const bars = CLASSES.map(([name, colour]) => swatch(colour, group.classes[name] / most));
	return {
		looks: ".bars",
		head: [
			h(group.kind === "path" ? "span.line-what.path" : "span.line-what", keyWords(group)),
			h(
				"span.line-count",
				t("history.wakes_share", { count: group.wakes, share: share(part, 0) }),
			),
			h("span.share-bar", { "aria-hidden": "true" }, bars),
		],
		body: () => [
			facts(
				[t(`history.by_${group.kind}`), h("span.path", group.key)],
				[t("history.col_who"), others(group).map((words) => h("div", words))],
				[
					t("history.col_wakes"),
					[
						t("history.wakes_share", { count: group.wakes, share: share(part, 0) }),
						group.every_s
							? t("history.every", { time: duration(group.every_s) })
							: null,
						group.persons ? t("history.persons", { count: group.persons }) : null,
					]
						.filter(Boolean)
						.join(", "),
				],
				[t("history.col_awake"), duration(group.awake_s)],
				[
					t("history.col_extra"),
					group.extra_j === null
						? t("history.not_measured")
						: [energy(group.extra_j), price(group.cost)].filter(Boolean).join(", "),
				],
			),
			action(group, server),
		],
	};
}

/** @param {Group} group @param {string} server */
function action(group, server) {
	if (group.ruled !== null) return ruledBy(group.ruled);
	if (!mayChange || group.kind === "class") return null;
	if (group.why_not) return h("p.hint", t("history.no_suggestion", { why: group.why_not }));
	return stopGroup(group, server);
}

/** @param {Group} group @param {string} server */
function stopGroup(group, server) {
	const kind = /** @type {By} */ (group.kind);
	return stopButton(keyWords(group), () =>
		ruleDialog({ server, kind, suggestions: { [kind]: group.rule } }),
	);
}

/**
 * One that wakes the server repeatedly and is not a person; periodic ones come first.
 * @param {Wakers} said @param {string} server
 */
function noisy(said, server) {
	const loud = said.groups.filter(
		(each) =>
			each.rule &&
			each.ruled === null &&
			each.wakes >= LEAST_NOISY &&
			each.wakes >= NOISY_SHARE * said.wakes &&
			(each.every_s || each.persons < each.wakes / 2),
	);
	const found = loud.find((each) => each.every_s) ?? loud[0];
	if (!found) return [];
	const agent = agentWords(found.agents.most[0]?.key);
	const what =
		found.kind === "agent" ? found.key : t("history.noisy_by", { path: found.key, agent });
	const words = [];
	if (found.every_s) words.push(t("history.noisy_every", { time: duration(found.every_s) }));
	if (found.extra_j !== null)
		words.push(
			price(found.cost)
				? t("history.noisy_cost_money", {
						energy: energy(found.extra_j),
						money: price(found.cost),
					})
				: t("history.noisy_cost", { energy: energy(found.extra_j) }),
		);
	return [
		h(
			"div.notice",
			{ "data-kind": "warn" },
			icon("bell"),
			h(
				"div",
				h("p.strong.noisy-key", t("history.noisy", { count: found.wakes, what })),
				words.length ? h("p", words.join(" ")) : null,
			),
			mayChange ? stopGroup(found, server) : null,
		),
	];
}
