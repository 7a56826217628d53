// Texts that several parts of the page share.

import { fill, h, has, icon, refusal, stateParts, t } from "../../kit/core.js";
import { clock, clockS, date, day, money } from "../../kit/format.js";

/** With the day on which clocks change. */
const DAY_S = 90_000;

/** A state as a badge. @param {string} state */
export const stateBadge = (state) =>
	h("span.badge", { "data-state": state }, stateParts(state)[0], stateWords(state));

/** The same as a mark without words. @param {string} state */
export const stateMark = (state) =>
	h("span.mark", { "data-state": state, "aria-hidden": "true" }, stateParts(state)[0]);

/**
 * When, as short as can be told apart in a span of so many seconds.
 * @param {number} t_s @param {number} length_s
 */
export const stamp = (t_s, length_s) =>
	h(
		"time",
		{ datetime: new Date(t_s * 1000).toISOString() },
		length_s <= DAY_S ? clockS(t_s) : `${day(t_s)}, ${clock(t_s)}`,
	);

/** When, in full. @param {number} t_s */
export const full = (t_s) => `${date(t_s)}, ${clockS(t_s)}`;

/** In the past nothing is still to be found out. @param {string} state */
export const stateWords = (state) =>
	state === "unknown"
		? t("history.state_unknown")
		: has(`kit.state.${state}`)
			? t(`kit.state.${state}`)
			: state;

/**
 * A text of the catalogue if there is one, else what is there.
 * @param {string} prefix @param {string} value
 */
export function named(prefix, value) {
	const key = `${prefix}${value.replaceAll(" ", "_")}`;
	return has(key) ? t(key) : value;
}

/**
 * Money, with a third digit where it is little; null where there is none to speak of.
 * @param {Maybe} amount
 */
export const price = (amount) =>
	amount && amount >= 0.0005 ? money(amount, amount < 0.095 ? 3 : 2) : null;

/** The request; null for a wake without one. @param {Wake} wake */
export const request = (wake) =>
	wake.class ? `${wake.method} ${wake.host}${wake.path}`.trim() : null;

/** Why it was woken, in words. @param {Wake} wake */
export const cause = (wake) =>
	wake.class ? named("history.cause_", wake.reason) : named("history.cause_", wake.who);

/** @type {[RegExp, string][]} */
const BROWSERS = [
	[/Edg(?:e|A|iOS)?\/(\d+)/, "Edge"],
	[/OPR\/(\d+)/, "Opera"],
	[/SamsungBrowser\/(\d+)/, "Samsung Internet"],
	[/(?:Firefox|FxiOS)\/(\d+)/, "Firefox"],
	[/(?:Chrome|CriOS)\/(\d+)/, "Chrome"],
	[/(?:Mac|iP(?:hone|ad)).*Version\/(\d+)/, "Safari"],
];
/** @type {[RegExp, string][]} */
const SYSTEMS = [
	[/iPhone/, "iPhone"],
	[/iPad/, "iPad"],
	[/Android/, "Android"],
	[/Windows/, "Windows"],
	[/Mac OS X|Macintosh/, "Mac"],
	[/CrOS/, "ChromeOS"],
	[/Linux|X11/, "Linux"],
];

/**
 * A program's User-Agent, in short if it is exactly that of one of the usual browsers.
 * @param {string | undefined} agent
 */
export function agentWords(agent) {
	if (!agent) return t("history.no_agent");
	const browser = BROWSERS.find(([mark]) => mark.test(agent)),
		system = SYSTEMS.find(([mark]) => mark.test(agent));
	if (
		!agent.startsWith("Mozilla/5.0 (") ||
		!browser ||
		!system ||
		/bot|crawl|spider|compatible|http/i.test(agent)
	)
		return agent;
	return t("history.browser_on", {
		browser: `${browser[1]} ${browser[0].exec(agent)?.[1]}`,
		system: system[1],
	});
}

/** The client: its address and its User-Agent. @param {Wake} wake */
const whoAsked = (wake) =>
	wake.class
		? t("history.by_whom", { who: wake.who, agent: agentWords(wake.agent) })
		: cause(wake);

/** One line on a wake: the request and its client, or else the reason. @param {Wake} wake */
export const wakeLine = (wake) =>
	wake.class ? `${request(wake)} · ${whoAsked(wake)}` : wake.words || cause(wake);

/** The empty state of a part. @param {string} words @param {string} name */
export const nothing = (words, name = "history") => h("div.empty", icon(name), h("p", words));

/**
 * Show in a part's place that it could not be read.
 * @param {Element} place @param {unknown} error
 */
export const unread = (place, error) =>
	fill(
		place,
		h("p.hint", { role: "alert" }, t("history.failed", { error: refusal(error).message })),
	);
