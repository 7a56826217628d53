// The two images of the box, and which of them runs.

import { badge, button, h, icon, notice, one, redraw, t } from "../../kit/core.js";
import { dateTime } from "../../kit/format.js";
import { pressing } from "./parts.js";

/**
 * Show them; `does` has what the buttons do.
 * @param {HTMLElement} card @param {Update} update @param {ImagesDo} does
 */
export function images(card, update, does) {
	const { supported, problem, slots, confirmed, version, board } = update;
	card.removeAttribute("aria-busy");
	redraw(card, [supported, problem, slots, confirmed, version, board], () => [
		one("header", card),
		contents(update, does),
	]);
}

/** @param {Update} update @param {ImagesDo} does */
function contents(update, does) {
	if (!update.supported) {
		const words = t("update.not_by_images_words", { version: update.version });
		return notice(
			"info",
			h("p.strong", t("update.not_by_images")),
			h("p", words),
			update.command && [
				h("p", t("update.by_packages")),
				h("pre.small", h("code", update.command)),
			],
		);
	}
	if (update.problem)
		return notice("bad", h("p.strong", t("update.no_rauc")), h("p.small.soft", update.problem));
	const sorted = [...update.slots].sort((a, b) => a.name.localeCompare(b.name));
	const runs = sorted.find((slot) => slot.booted),
		next = sorted.find((slot) => slot.boots_next);
	const made = [
		h("p.soft", t("update.board", { board: update.board })),
		h(
			"div.images",
			sorted.map((slot) => image(slot, update)),
		),
	];
	if (does.looks_only) return made;
	const other = sorted.find((slot) => !slot.booted);
	if (runs && next && next !== runs) made.push(pending(next, does));
	else if (other) made.push(way_back(other, does));
	return made;
}

/** @param {Slot} slot @param {Update} update */
function image(slot, update) {
	const version = slot.booted ? update.version : slot.version;
	return h(
		`div.image${slot.booted ? ".runs" : ""}`,
		h("h3", icon("hard-drive"), t("update.image", { name: slot.name })),
		h("p.version", version || t("update.version_unknown")),
		h("div.badges", badges(slot, update)),
		slot.installed
			? h(
					"p.small.soft",
					t("update.installed", { when: dateTime(Date.parse(slot.installed) / 1000) }),
				)
			: null,
	);
}

/** @param {Slot} slot @param {Update} update */
function badges(slot, update) {
	const made = [];
	if (slot.booted) made.push(badge("info", "play", t("update.runs")));
	if (slot.boots_next && !slot.booted)
		made.push(badge("warn", "rotate-ccw", t("update.runs_next")));
	if (slot.booted) {
		made.push(
			update.confirmed
				? badge("good", "circle-check", t("update.confirmed"))
				: badge("warn", "clock", t("update.not_confirmed")),
		);
	} else if (!slot.good) made.push(badge("bad", "circle-x", t("update.bad")));
	return made;
}

/** @param {Slot} next @param {ImagesDo} does */
function pending(next, does) {
	return h(
		"div.images-actions",
		h("p.strong", t("update.pending", { name: next.name })),
		button("", t("update.stay"), pressing(does.stay)),
		button(".primary", t("update.restart"), pressing(does.restart)),
	);
}

/** @param {Slot} other @param {ImagesDo} does */
function way_back(other, does) {
	if (!other.good) return h("p.soft", t("update.no_way_back"));
	return h(
		"div.images-actions",
		button("", [icon("history"), t("update.back")], pressing(does.back)),
		h("p.small.soft", t("update.back_hint")),
	);
}
