// Working out what could have been saved: asking, how far it is, and ending it.

import { button, del, get, h, one, pause, post, t } from "../../kit/core.js";
import { share } from "../../kit/format.js";
import { refused } from "../../kit/dialog.js";

const EVERY_MS = 700;

/** The current state of a question. @param {Query} question @returns {Promise<Hindsight>} */
export const state = (question) => get("/api/savings/hindsight", question);

/**
 * Have the box compute it, and show the progress in `place`. Resolves to the last state, or null if
 * `current()` has become false; ApiError if it is refused.
 * @param {Query} question @param {HTMLElement} place @param {() => boolean} current
 * @returns {Promise<Hindsight | null>}
 */
export async function workOut(question, place, current) {
	let said = null;
	try {
		said = await post("/api/savings/hindsight", question);
		while (said.state === "running" && current()) {
			showRunning(place, said.share);
			await pause(EVERY_MS);
			if (current()) said = await state(question);
		}
	} finally {
		if (current()) place.replaceChildren(...(said ? trouble(said) : []));
	}
	return current() ? said : null;
}

/** Why there is no answer, as paragraphs; none if there is one. @param {Hindsight} said */
export function trouble(said) {
	if (said.state === "failed")
		return [h("p.error", { role: "alert" }, t(`savings.failed_${said.why}`))];
	if (said.state === "cancelled") return [h("p.hint", t("savings.cancelled"))];
	if (said.found?.not_enough) return [h("p", t("savings.not_enough"))];
	return [];
}

/** @param {HTMLElement} place @param {number} part */
function showRunning(place, part) {
	let bar = one("progress", place);
	if (!bar) {
		bar = h("progress", { max: "1", "aria-label": t("savings.working") });
		const cancel = button(".small", t("savings.cancel"), (event) => stop(event.currentTarget));
		place.replaceChildren(
			h("p", t("savings.working")),
			h("div.row", bar, h("span.number", { "data-share": true }), cancel),
		);
	}
	bar.value = part;
	one("[data-share]", place).textContent = t("savings.working_share", {
		share: share(part, 0),
	});
}

/** @param {HTMLButtonElement} pressed */
async function stop(pressed) {
	pressed.disabled = true;
	await del("/api/savings/hindsight").catch(refused);
}
