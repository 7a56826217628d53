// Over a restart of the box: the page waits, comes back, and says what became of it.

import { at, fill, h, notice, pause, t } from "../../kit/core.js";

const NOTE = "naproxy-update";
const EVERY_MS = 1500,
	PATIENCE_MS = 2500,
	LONG_MS = 180_000,
	NEVER_DOWN_MS = 60_000;

/**
 * Remember what is to run after the restart; null: nothing is awaited.
 * @param {Update | null} update
 */
export function note(update) {
	if (!update) return sessionStorage.removeItem(NOTE);
	const next = update.slots.find((slot) => slot.boots_next);
	sessionStorage.setItem(
		NOTE,
		JSON.stringify({ slot: next?.name, version: next?.version ?? "" }),
	);
}

/** Wait until the box was away and is back, then reload the page. */
export async function restarting() {
	const words = h("p", t("update.restarting_words"));
	const shown = h(
		"section.card",
		{ role: "status", id: "restarting" },
		h("h2", t("update.restarting")),
		h("progress", { "aria-label": t("update.restarting") }),
		words,
	);
	at("outcome").replaceChildren(shown);
	for (const card of [at("images"), at("new")]) card.hidden = true;
	const began = Date.now();
	let away = false;
	for (;;) {
		await pause(EVERY_MS);
		const here = await answers();
		const took = Date.now() - began;
		if (!here) away = true;
		if (here && (away || took > NEVER_DOWN_MS)) break;
		if (took > LONG_MS) words.textContent = t("update.restarting_long");
	}
	location.reload();
}

async function answers() {
	try {
		const answer = await fetch("/api/health", {
			cache: "no-store",
			signal: AbortSignal.timeout(PATIENCE_MS),
		});
		return answer.ok && (await answer.json()).controller === true;
	} catch {
		return false;
	}
}

/**
 * After a restart that was awaited: say which image runs.
 * @param {HTMLElement} place @param {Update} update
 */
export function outcome(place, update) {
	const kept = sessionStorage.getItem(NOTE);
	const runs = update.slots.find((slot) => slot.booted);
	if (!kept || !runs) return;
	note(null);
	const wanted = JSON.parse(kept);
	const good = runs.name === wanted.slot;
	const values = { name: runs.name, version: update.version };
	const so_far = update.confirmed ? "update.now_confirmed" : "update.now_not_confirmed";
	fill(
		place,
		notice(
			good ? "good" : "bad",
			h("p.strong", t(good ? "update.now_runs" : "update.went_back", values)),
			h("p", t(good ? so_far : "update.went_back_words", values)),
		),
	);
}
