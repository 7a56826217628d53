// What several parts of the page say alike.

import { h, has, icon, STATE_ICONS, t } from "../../kit/dom.js";

/** A state as a badge. */
export const badge = (state) => h("span.badge", { "data-state": state }, icon(STATE_ICONS[state] ?? "circle-help"), stateWords(state));

export const stateWords = (state) => (has(`kit.state.${state}`) ? t(`kit.state.${state}`) : state);

/** A text of the catalogue if there is one, else what is there. */
export function named(prefix, value) {
	const key = `${prefix}${value.replaceAll(" ", "_")}`;
	return has(key) ? t(key) : value;
}

/** What was asked for; null where no request was. */
export const request = (wake) => (wake.class ? `${wake.method} ${wake.host}${wake.path}`.trim() : null);

/** Why it was woken, in words. */
export const cause = (wake) => (wake.class ? named("history.cause_", wake.reason) : named("history.cause_", wake.who));

/** Who asked: address and what they call themselves. */
export const asker = (wake) => (wake.class ? t("history.by_whom", { who: wake.who, agent: wake.agent || t("history.no_agent") }) : cause(wake));

/** One line on a wake: the request and who sent it, or why without one. */
export const wakeLine = (wake) => (wake.class ? `${request(wake)} · ${asker(wake)}` : wake.reason || cause(wake));

/** A cell that names its column on a phone. */
export const cell = (label, classes, ...children) => h(`td${classes}`, { "data-label": label }, ...children);

/** The empty state of a part. */
export const nothing = (words, name = "history") => h("div.empty", icon(name), h("p", words));
