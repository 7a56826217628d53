// The page Now: the servers' cards, updated each second, and above them one sentence, the savings,
// and the remaining tasks.

import {
	all,
	at,
	button,
	fill,
	get,
	h,
	icon,
	notice,
	one,
	poll,
	post,
	redraw,
	say,
	stat,
	t,
} from "../kit/core.js";
import { clockS, energy, money, number, when } from "../kit/format.js";
import { showBox } from "../kit/shell.js";
import { Card } from "./now/card.js";
import { mayChange, showHttps } from "./now/reasons.js";

const SUMS_EVERY_MS = 60_000;
/** Where one does it. @type {Record<string, (server: string | null) => string>} */
const PLACES = {
	proof: (server) => `/setup/again/proof?server=${encodeURIComponent(server ?? "")}`,
	visitors: (server) => `/setup/again/live?server=${encodeURIComponent(server ?? "")}`,
	https: () => "/settings/https",
	price: () => "/settings/office",
	meter: () => "/settings/meters",
	backup: () => "/settings/backup",
	notify: () => "/settings/notifications",
};
const STATES = ["trouble", "waking", "falling_asleep", "awake", "asleep", "unknown"];

/** @type {Overview} */
const told = JSON.parse(at("overview").textContent);
let saved = told.saved;

/** The sentence: the servers' states, the savings, and their price. @param {Now} now */
function showSentence({ servers, now_s }) {
	if (!servers.length) return;
	const parts = [doing(servers, now_s), ...(saved ? [amount(saved), ...promise(saved)] : [])];
	say(at("sentence"), parts.join(" "));
}

/** @param {Server[]} servers @param {number} now_s */
function doing(servers, now_s) {
	if (servers.length === 1) {
		const [{ state, since_s }] = servers;
		return t(`now.say.${STATES.includes(state) ? state : "unknown"}`, {
			time: when(since_s, now_s),
		});
	}
	const states = STATES.map((state) => ({
		state,
		count: servers.filter((each) => each.state === state).length,
	}));
	const words = states
		.filter(({ count }) => count)
		.map(({ state, count }) => t(`now.many.${state}`, { number: number(count) }));
	return t("now.say_many", { number: number(servers.length), states: words.join(", ") });
}

/** @param {Sums} sums */
function amount({ kind, net_j, money: worth }) {
	if (kind === "none") return t("now.saved_none");
	const shown = worth === null ? energy(Math.abs(net_j)) : money(Math.abs(worth));
	if (shown === (worth === null ? energy(0) : money(0))) return t("now.saved_none");
	const lost = (worth ?? net_j) < 0;
	return t(lost ? `now.lost.${kind}` : `now.saved.${kind}`, { amount: shown });
}

/** @param {Sums} sums */
function promise({ promises }) {
	const asked = promises.filter((each) => each.requests);
	const broken = asked.filter((each) => each.delayed > each.allowed);
	if (!asked.length) return [];
	if (!broken.length) return [t("now.promise_kept")];
	const [{ delayed, requests, allowed }] = broken;
	if (promises.length > 1)
		return [
			t("now.promise_broken_of", { servers: broken.map((each) => each.server).join(", ") }),
		];
	const numbers = { delayed: number(delayed), all: number(requests), allowed: number(allowed) };
	return [t("now.promise_broken", numbers)];
}

// Savings

/** @param {string} label @param {Sums["month"] | undefined} of @param {string} note */
function figure(label, of, note, about = false) {
	const value = of ? (of.money === null ? energy(of.net_j) : money(of.money)) : "–";
	const more = of && of.money !== null ? `${energy(of.net_j)}, ${note}` : note;
	const made = stat(label, value, more);
	made.classList.toggle("estimated", about && Boolean(of));
	return made;
}

function showSums() {
	const known = saved && saved.kind !== "none" ? saved : undefined;
	const expected = saved?.forecast;
	const rests = expected
		? t("now.rests", { count: expected.days })
		: (saved?.no_forecast ?? "\u00a0");
	fill(
		at("sums"),
		figure(t("now.sum_month"), known, t(known ? `now.kind.${known.kind}` : "now.kind.none")),
		figure(t("now.sum_expected"), expected?.month, rests, true),
		figure(t("now.sum_year"), expected?.year, rests, true),
	);
}

// Whether it pays

/**
 * By the days that the forecast rests on. A server that is not armed cannot save anything yet.
 * @param {Now} now
 */
function showPays({ servers }) {
	const year = servers.some(({ armed }) => armed) ? saved?.forecast?.year : undefined;
	const loses = year && (year.money ?? year.net_j) < 0;
	const amount = loses ? (year.money === null ? energy(-year.net_j) : money(-year.money)) : "";
	redraw(at("pays"), amount, () =>
		loses
			? [
					notice(
						"bad",
						h("p", h("b", t("now.pays_not", { amount }))),
						mayChange &&
							h("p", h("a", { href: "/settings/sleep" }, t("now.pays_not_do"))),
					),
				]
			: [],
	);
}

/** No visitor has come through the box for days: the server stays on. @param {Now} now */
function showQuiet({ servers }) {
	const quiet = servers.filter(({ silent }) => silent);
	redraw(
		at("quiet"),
		quiet.map(({ id, silent }) => [id, silent]),
		() =>
			quiet.map(({ id, silent }) =>
				notice(
					"bad",
					h("p", h("b", silent)),
					mayChange && h("p", h("a", { href: PLACES.visitors(id) }, t("now.live_link"))),
				),
			),
	);
}

/** The box's proposals after two weeks; few boxes have any, so the code is loaded late. */
async function showProposals() {
	const places = all("[data-proposal]");
	if (!places.length) return;
	const { proposal } = await import("../kit/waiting.js");
	for (const place of places) {
		// The next visit is soon enough; the page already says that the box is not reached.
		proposal(place, place.dataset.proposal ?? "").catch(() => {});
	}
}

// Remaining tasks

/** @param {Todo[]} lines */
function showTodo(lines) {
	const open = lines.filter((each) => !each.done && !each.dismissed);
	const done = lines.filter((each) => each.done);
	at("todo").hidden = !open.length;
	const all_ = open.length + done.length;
	say(at("todo-count"), t("now.todo_count", { done: number(done.length), all: number(all_) }));
	fill(at("todo-lines"), open.map(line));
	at("todo-done").hidden = !done.length;
	say(one("summary", at("todo-done")), t("now.todo_done", { count: done.length }));
	fill(
		one("ul", at("todo-done")),
		done.map(({ words }) => h("li.soft", icon("circle-check"), h("span", words))),
	);
}

/** @param {Todo} todo */
function line({ name, words, server }) {
	const href = PLACES[name]?.(server);
	const label = `${t("now.todo_dismiss")}: ${words}`;
	const dismiss = button(".quiet.icon-only", icon("x"), () => setDismissed(name, true), {
		"aria-label": label,
		title: t("now.todo_dismiss"),
	});
	return h(
		"li",
		icon("arrow-right"),
		h("span", mayChange && href ? h("a", { href }, words) : words),
		mayChange && dismiss,
	);
}

/** @param {string} name @param {boolean} dismissed */
async function setDismissed(name, dismissed) {
	const { refused, toast } = await import("../kit/dialog.js");
	try {
		const said = await post(`/api/now/checklist/${name}`, { dismissed });
		showTodo(said.lines);
		const undo = { words: t("now.todo_undo"), press: () => setDismissed(name, false) };
		if (dismissed) toast(t("now.todo_dismissed"), "good", undo);
	} catch (error) {
		refused(error);
	}
}

/** @param {() => void} changed is told when the sentence is another one */
function follow(changed) {
	showSums();
	showTodo(told.lines);
	if (!one("#servers .server")) return;
	const ask = async () => {
		if (document.hidden) return;
		const [sums, list] = await Promise.all([
			get("/api/now/overview", undefined, { timeout_ms: 60_000 }),
			get("/api/now/checklist"),
		]).catch(() => []);
		if (!sums || !list) return;
		saved = sums;
		showSums();
		showTodo(list.lines);
		changed();
	};
	if (!saved) ask();
	setInterval(ask, SUMS_EVERY_MS);
	at("log").addEventListener("toggle", async () => {
		if (!at("log").open) return;
		const { showLog } = await import("./now/log.js");
		showLog(at("log"), at("log-body"));
	});
}

// The page

const EVERY_S = 1;
const PATIENCE = 2;
const servers = at("servers");
const stale = at("stale");
const given = at("now");
const live_s = Number(given.dataset.liveS);
/** @type {Map<string, Card>} */
const cards = new Map();
/** @type {number | null} */
let last_s = null;
/** @type {Now | null} */
let newest = null;
let failed = 0;

/** @param {Now} said */
function show(said) {
	failed = 0;
	one("#first")?.remove();
	showBox(said);
	showHttps(at("https"), said.https);
	if (!said.controller) return old();
	last_s = said.now_s;
	newest = said;
	stale.hidden = true;
	showSentence(said);
	showPays(said);
	showQuiet(said);
	at("sums").hidden = at("log").hidden = !said.servers.length;
	if (!said.servers.length) return nobody();
	for (const each of all(":scope > :not(.server)", servers)) each.remove();
	const ids = new Set(said.servers.map((each) => each.id));
	for (const [id, card] of cards) {
		if (ids.has(id)) continue;
		card.remove();
		cards.delete(id);
	}
	for (const server of said.servers) {
		const open = said.servers.length === 1;
		const card = cards.get(server.id) ?? new Card(servers, server.id, live_s, asking, open);
		cards.set(server.id, card);
		card.show(server, said.now_s);
	}
}

function nobody() {
	for (const card of cards.values()) card.remove();
	cards.clear();
	if (!one(".empty", servers)) servers.replaceChildren(at("no-server").content.cloneNode(true));
}

/** The data is no longer live; it stays, with its time. */
function old() {
	stale.hidden = last_s === null;
	if (last_s !== null) say(stale, t("now.gone", { time: clockS(last_s) }));
	else servers.replaceChildren();
	for (const card of cards.values()) card.old();
}

/** Do not report a single lost answer: a phone may be changing its network. */
function lost() {
	failed += 1;
	if (failed < PATIENCE) return;
	showBox(null);
	old();
}

/** Ask for the missing seconds, and a few more, as they are collected with a delay. */
const since = () => ({
	since_s: Math.min(
		...[...cards.values()].map((card) => card.since_s()),
		last_s ?? Date.now() / 1000,
	),
});

/** @type {ReturnType<typeof poll> | undefined} */
let ask;
const asking = { again: () => ask?.again() };
show(JSON.parse(given.textContent));
follow(() => newest && showSentence(newest));
const begin = () => {
	ask = poll("/api/now", { every_s: EVERY_S, query: since, data: show, error: lost });
};
setTimeout(begin, last_s === null ? 0 : EVERY_S * 500);
showProposals();
