// The words of a server's card: the reason of its state, its problems, and its last wake.

import { button, facts, h, icon, notice, redraw, redrawList, t } from "../../kit/core.js";
import { duration, money, when } from "../../kit/format.js";
import { CLASSES } from "./figures.js";

export const mayChange = document.body.dataset.role !== "viewer";
const WAKERS = new Set(["command", "policy", "schedule", "naproxy"]);

/** @param {Server} server */
const aroundWords = ({ around }) => (around ? t("now.around", { count: around }) : null);

/** @param {Server} server */
const servesWords = ({ serves }) =>
	serves.length ? t("now.serves", { names: serves.join("; ") }) : null;

/** @param {readonly (string | null | undefined)[]} words */
const known = (words) => words.filter((each) => typeof each === "string");

/** The problems of a server, in words. @param {Server} server */
export function wrongOf(server) {
	const { alert, past, power, calendar } = server;
	const meter = power?.problem
		? t("now.meter_problem", { meter: power.meter, words: power.problem })
		: null;
	return known([alert, past, aroundWords(server), servesWords(server), meter, calendar?.problem]);
}

/** @param {HTMLElement} place @param {{ kind: string, words: string }[]} said */
export function showHttps(place, said) {
	const link = () => h("a", { href: "/settings/https" }, t("now.https_link"));
	redrawList(place, said, ({ kind, words }) => notice(kind, h("p", words), h("p", link())));
}

/** @param {Server} server @param {number} now_s */
function engineWords({ engines }, now_s) {
	return engines
		.filter((each) => each.refused_since_s !== null || each.let_in_s !== null)
		.map(({ name, refused_since_s, let_in_s }) =>
			refused_since_s === null
				? t("now.engine_let_in", { name, since: when(let_in_s ?? 0, now_s) })
				: t("now.engine_refused", { name, since: when(refused_since_s, now_s) }),
		);
}

/**
 * Events in a server's calendar, and the reason if they are unknown.
 * @param {Server} server @param {number} now_s
 */
function agenda({ calendar }, now_s) {
	if (!calendar) return [];
	const events = calendar.events.map(({ name, t_s, end_s }) =>
		t("now.calendar_to", { name, begin: when(t_s, now_s), end: when(end_s, now_s) }),
	);
	return calendar.problem ? [calendar.problem, ...events] : events;
}

/** Today's cost of strangers. @param {Server} server */
const strangersWords = ({ strangers }) =>
	strangers
		? t("now.strangers_cost", { cost: money(strangers.cost), most: money(strangers.most) })
		: null;

/** Titles, each with its sentences. @param {Server} server @param {number} now_s */
function reasonsOf(server, now_s) {
	const awake = server.state === "awake";
	const coming = server.appointments.map(({ t_s, name }) => `${name}, ${when(t_s, now_s)}`);
	/** @type {[string, string[]][]} */
	const parts = [
		[t("now.why"), server.why],
		[t("now.alert"), known([server.alert])],
		[t("now.next"), awake && server.mode === "auto" ? server.decision : []],
		[t("now.keeps"), awake ? server.inhibitors : []],
		[t("now.appointments"), coming],
		[t("now.engines"), engineWords(server, now_s)],
		[t("now.strangers"), known([strangersWords(server)])],
		[t("now.itself"), known([server.sleeps_itself])],
		[t("now.calendar"), agenda(server, now_s)],
	];
	return parts.filter(([, words]) => words.length);
}

/**
 * The actions that a person may take.
 * @param {Server} server @returns {("adopt" | "leave" | "arm" | "live" | "proof")[]}
 */
function offersOf({ moved, sleeps_itself, armed, commissioning, tripped, waits, state }) {
	if (!mayChange) return [];
	if (moved) return ["adopt"];
	/** @type {["leave"] | []} */
	const always = sleeps_itself ? ["leave"] : [];
	if (armed || commissioning) return always;
	if (tripped) return [...always, "arm"];
	if (waits) return [...always, "live"];
	return state === "awake" ? [...always, "proof"] : always;
}

export class Reasons {
	/**
	 * @param {string} name of the server
	 * @param {(action: "adopt" | "leave" | "arm" | "live") => unknown} act
	 */
	constructor(name, act) {
		const server = encodeURIComponent(name);
		this.https = h("div");
		this.serves = h("div");
		this.words = h("div.server-why");
		this.woken = h("div.server-woken");
		this.servicesHref = `/settings/sleep?server=${server}#services`;
		/** @type {Server["moved"]} */
		this.moved = null;
		this.offers = {
			adopt: () =>
				button(".small", [icon("check"), t("now.adopt", this.moved ?? {})], () =>
					act("adopt"),
				),
			leave: () => button(".small", [icon("moon"), t("now.leave")], () => act("leave")),
			arm: () => button(".small", [icon("check"), t("now.arm")], () => act("arm")),
			live: () => [
				button(".small", [icon("check"), t("now.live")], () => act("live")),
				h("a", { href: `/setup/again/live?server=${server}` }, t("now.live_link")),
			],
			proof: () =>
				h(
					"a.button.small",
					{ href: `/setup/again/proof?server=${server}` },
					t("now.untested_link"),
				),
		};
	}

	/** @param {Server} server @param {number} now_s */
	show(server, now_s) {
		const https = known([server.past, aroundWords(server)]).join(" ");
		showHttps(this.https, https ? [{ kind: server.past ? "warn" : "info", words: https }] : []);
		redrawList(this.serves, known([servesWords(server)]), (words) =>
			notice(
				"warn",
				h("p", words),
				mayChange && h("p", h("a", { href: this.servicesHref }, t("now.serves_link"))),
			),
		);
		const reasons = reasonsOf(server, now_s),
			offers = offersOf(server);
		this.moved = server.moved;
		redraw(this.words, [reasons, offers, this.moved], () => [
			h(
				"dl.facts",
				reasons.map(([title, words]) => [
					h("dt", title),
					h(
						"dd",
						words.map((each) => h("p", each)),
					),
				]),
			),
			offers.map((each) => h("p.row", this.offers[each]())),
		]);
		redraw(this.woken, server.woken, (woken) => [
			h("h3", icon("bell"), t("now.woken")),
			woken ? wokenParts(woken, now_s) : h("p.soft", t("now.woken_never")),
		]);
	}
}

/** @param {Woken} woken @param {number} now_s */
function wokenParts(woken, now_s) {
	const byBox = WAKERS.has(woken.who);
	const by = byBox ? woken.who : CLASSES.includes(woken.class) ? woken.class : "unknown";
	const took =
		woken.outcome === "waiting"
			? t("now.woken_open")
			: typeof woken.waited_s === "number"
				? t("now.woken_waited", { time: duration(woken.waited_s) })
				: "";
	/** @param {string | null} value */
	const mono = (value) => value && h("span.mono", value);
	const details = byBox
		? facts([t("now.why"), mono(woken.reason)])
		: facts(
				[
					t("now.woken_request"),
					mono([woken.method, woken.path].filter(Boolean).join(" ")),
				],
				[t("now.woken_from"), mono(woken.who)],
				[t("now.woken_agent"), mono(woken.agent)],
			);
	return [
		h(
			"p",
			h("span.strong.number", when(woken.t_s, now_s)),
			" ",
			t(`now.by.${by}`),
			took && `, ${took}`,
		),
		h("div.small", details),
		h("p.small", h("a.link", { href: "/history?tab=wakes" }, t("now.woken_all"))),
	];
}
