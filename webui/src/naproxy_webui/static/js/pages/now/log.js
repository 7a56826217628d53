// The live log of Now: events, newest on top, with a filter. It is updated only while it is open.

import {
	ApiError,
	all,
	fill,
	get,
	h,
	icon,
	notice,
	pause,
	say,
	stateParts,
	t,
} from "../../kit/core.js";
import { clockS, number } from "../../kit/format.js";

const EVERY_MS = 2000;
const BACK_S = 3600;
const MOST = 300;
const KINDS = ["request", "state", "decision", "system"];
const WAKERS = new Set(["command", "policy", "schedule", "naproxy"]);
/** @type {Record<string, string>} */
const ICONS = { request: "users", wake: "bell", decision: "list", system: "settings" };

/** @typedef {{ kind: string, text: string, element: HTMLElement }} Line */

/** @type {Map<string, Line>} */
const lines = new Map();
/** @type {Map<string, number>} */
const counts = new Map();
let since_s = Date.now() / 1000 - BACK_S;
let begun = false;
/** Closed and opened again at once, it asks no more often. */
let turning = false;
let first = true;

const search = h("input.input", {
	type: "search",
	placeholder: t("now.log_search"),
	"aria-label": t("now.log_search"),
	oninput: () => filter(),
});
const kinds = KINDS.map((kind) => ({
	kind,
	box: h("input", { type: "checkbox", checked: true, onchange: () => filter() }),
}));
const list = h("ol.now-log", { tabindex: "0", "aria-label": t("now.log") });
const nothing = h("p.soft", t("now.log_none"));
const problem = h("div");

/** @param {HTMLDetailsElement} place @param {HTMLElement} body */
export function showLog(place, body) {
	if (!begun) {
		fill(
			body,
			h(
				"p.hint",
				t("now.log_words"),
				" ",
				h("a", { href: "/history?tab=decisions" }, t("now.log_all")),
			),
			h(
				"div.row",
				h(
					"div.segmented",
					{ role: "group", "aria-label": t("now.log_kinds") },
					kinds.map(({ kind, box }) => h("label", box, t(`now.log_kind.${kind}`))),
				),
				h("div.now-log-search", search),
			),
			problem,
			nothing,
			list,
		);
		begun = true;
	}
	turn(place);
}

/** @param {HTMLDetailsElement} place */
async function turn(place) {
	if (turning) return;
	turning = true;
	try {
		while (place.open) {
			if (!document.hidden) await ask();
			await pause(EVERY_MS);
		}
	} finally {
		turning = false;
	}
}

async function ask() {
	try {
		const said = await get("/api/now/log", { since_s });
		fill(problem);
		for (const row of said.rows) add(row);
		for (const each of said.counts) count(each, said.now_s);
		since_s = Math.max(since_s, ...said.rows.map((row) => row.t_s));
		first = false;
		filter();
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		fill(problem, notice("warn", h("p", error.message)));
	}
}

/** @param {LogRow} row */
function add(row) {
	if (lines.has(row.key)) return;
	const { kind, t_s, server } = row;
	const picture = kind === "state" ? stateParts(row.state ?? "")[0] : icon(ICONS[kind]);
	put(row.key, kind === "wake" ? "state" : kind, t_s, server, picture, ...wordsOf(row));
}

/** A row's text: the bold part, and the rest. @param {LogRow} row @returns {[string, string]} */
function wordsOf(row) {
	switch (row.kind) {
		case "state":
			return [t(`kit.state.${row.state}`), row.words];
		case "decision":
			return [t(row.sleep ? "now.log_sleep" : "now.log_stay"), row.words];
		case "wake": {
			const by = WAKERS.has(row.who ?? "") ? row.who : (row.class ?? "unknown");
			const from = row.request ? [row.request, row.who] : [row.words];
			return [`${t("now.log_woken")} ${t(`now.by.${by}`)}`, from.filter(Boolean).join(", ")];
		}
		default:
			return ["", row.words];
	}
}

/** Requests since the last look, by class and outcome. @param {LogCount} each */
function count({ server, class: klass, end, count: now }, now_s = 0) {
	const key = `${server} ${klass} ${end}`;
	const before = counts.get(key);
	counts.set(key, now);
	if (first) return;
	const more = now - (before ?? 0);
	if (more <= 0) return;
	const who = `${t(`kit.class.${klass}`)}: ${number(more)}`;
	put(
		`${key} ${now_s}`,
		"request",
		now_s,
		server,
		icon(ICONS.request),
		who,
		t(`traffic.end.${end}`),
	);
}

/**
 * @param {string} key @param {string} kind @param {number} t_s @param {string | null} server
 * @param {Child} picture @param {string} strong @param {string} words
 */
function put(key, kind, t_s, server, picture, strong, words) {
	const text = [server, strong, words].filter(Boolean).join(" ").toLowerCase();
	const element = h(
		"li",
		{ "data-t": String(t_s) },
		h("time.number", clockS(t_s)),
		picture,
		h("span", server && h("b", `${server} `), strong && h("b", `${strong}. `), words),
	);
	const after = all(":scope > li", list).find((each) => Number(each.dataset.t) <= t_s);
	list.insertBefore(element, after ?? null);
	lines.set(key, { kind, text, element });
	if (lines.size <= MOST) return;
	const last = list.lastElementChild;
	for (const [name, line] of lines) if (line.element === last) lines.delete(name);
	last?.remove();
}

function filter() {
	const wanted = search.value.trim().toLowerCase();
	const shown = new Set(kinds.filter(({ box }) => box.checked).map(({ kind }) => kind));
	let some = false;
	for (const { kind, text, element } of lines.values()) {
		element.hidden = !shown.has(kind) || !text.includes(wanted);
		some ||= !element.hidden;
	}
	nothing.hidden = some;
	say(nothing, t(lines.size ? "now.log_filtered" : "now.log_none"));
}
