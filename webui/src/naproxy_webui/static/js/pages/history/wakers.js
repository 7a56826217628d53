// Who wakes the server most, and one that stands out.

import { all, at, button, cell, fill, get, h, icon, t, tableOf } from "../../kit/core.js";
import { duration, energy, share } from "../../kit/format.js";
import { agentWords, nothing, price, unread } from "./words.js";
import { mayChange, ruleDialog } from "./rules.js";

const LEAST_NOISY = 5,
	NOISY_SHARE = 0.1,
	SHOWN = 8;
const buttons = all("[data-by]");
/** @type {By} */
let by = "path";
/** @type {Told | null} */
let told = null;

for (const button of buttons) {
	button.addEventListener("click", () => {
		by = /** @type {By} */ (button.dataset.by);
		for (const each of buttons) each.setAttribute("aria-pressed", String(each === button));
		const place = at("wakers");
		if (told) showWakers(place, told).catch((error) => unread(place, error));
	});
}

/** @param {HTMLElement} place @param {Told} options */
export async function showWakers(place, options) {
	told = options;
	const { server, from_s, to_s, current } = options,
		kind = by;
	const said = await get("/api/history/wakers", { server, from_s, to_s, by: kind });
	if (!current() || kind !== by) return;
	fill(at("noisy"), noisy(said, server));
	if (!said.groups.length) {
		place.replaceChildren(nothing(t("history.wakers_none"), "moon"));
		return;
	}
	const columns = [
		t(`history.by_${kind}`),
		t("history.col_who"),
		t("history.col_wakes"),
		t("history.col_awake"),
		t("history.col_extra"),
		...(mayChange ? [t("history.col_action")] : []),
	];

	const again = said.groups.filter((group) => group.wakes > 1).slice(0, SHOWN);
	const shown = again.length ? again : said.groups.slice(0, 3);
	const rows = shown.map((group) => row(group, said, columns, server));
	const isFigure = (/** @type {number} */ index) => index > 1 && index < 5;
	const rest =
		again.length &&
		again.length === said.groups.filter((group) => group.wakes > 1).length &&
		said.groups.length > again.length;
	const table = tableOf(".cards", t("history.wakers_title"), columns, rows, isFigure);
	fill(place, h("div.stack.tight", table, rest ? h("p.hint", t("history.rarely")) : null));
}

/** @param {Group} group */
const keyWords = (group) => (group.kind === "agent" ? agentWords(group.key) : group.key);

/** @type {Record<By, ("paths" | "addresses" | "agents")[]>} */
const OTHERS = {
	path: ["agents", "addresses"],
	address: ["paths", "agents"],
	agent: ["paths", "addresses"],
};

/**
 * What a group's wakes were by: the other two of page, address and program.
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

/** @param {Group} group @param {Wakers} said @param {string[]} columns @param {string} server */
function row(group, said, [key, who, wakes, awake, extra, rule], server) {
	const part = group.wakes / said.wakes;
	const bar = h("span");
	bar.style.width = `${100 * part}%`;
	const cells = [
		cell(
			key,
			".wrap",
			h(
				"div",
				h(
					"span",
					{
						class: group.kind === "agent" ? "noisy-key" : "noisy-key path",
						title: group.key,
					},
					keyWords(group),
				),
				group.every_s
					? h("span.under", t("history.every", { time: duration(group.every_s) }))
					: null,
			),
		),
		cell(
			who,
			".wrap",
			h(
				"div",
				others(group).map((words) => h("span.under", words)),
			),
		),
		cell(
			wakes,
			".end",
			h(
				"div",
				String(group.wakes),
				h("span.share-bar", { "aria-hidden": "true" }, bar),
				h("span.under", t("history.of_wakes", { share: share(part, 0) })),
				group.persons
					? h("span.under", t("history.persons", { count: group.persons }))
					: null,
			),
		),
		cell(awake, ".end", duration(group.awake_s)),
		cell(
			extra,
			".end",
			h(
				"div",
				group.extra_j === null
					? h("span.soft", t("history.not_measured"))
					: energy(group.extra_j),
				price(group.cost) ? h("span.under", price(group.cost)) : null,
			),
		),
	];
	if (mayChange) cells.push(cell(rule, "", action(group, server)));
	return h("tr", cells);
}

/** @param {Group} group @param {string} server */
const action = (group, server) =>
	group.why_not
		? h("span.under", t("history.no_suggestion", { why: group.why_not }))
		: stopButton(group, server);

/** @param {Group} group @param {string} server */
const stopButton = (group, server) =>
	button(
		".small.nowrap",
		t("history.stop_it"),
		() => ruleDialog({ server, kind: group.kind, suggestions: { [group.kind]: group.rule } }),
		{ "aria-label": `${t("history.stop_it")}: ${keyWords(group)}` },
	);

/**
 * One that wakes again and again and is no person; who comes by a clock before others.
 * @param {Wakers} said @param {string} server
 */
function noisy(said, server) {
	const loud = said.groups.filter(
		(each) =>
			each.rule &&
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
			mayChange ? stopButton(found, server) : null,
		),
	];
}
