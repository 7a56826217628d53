// The visitors who may wait, in the settings: a card fills in both fields of the promise, which are
// saved like the others.

import { all, one } from "../../kit/core.js";
import { waiting } from "../../kit/waiting.js";
import { put, valueIn } from "./values.js";

const LEAST = 1e-9;

/** @param {HTMLElement} place */
export async function waitingCards(place) {
	const server = place.dataset.waiting ?? "";
	/** @param {string} key @returns {Field} */
	const field = (key) =>
		/** @type {any} */ (one(`[data-where="server.${server}.promise.${key}"]`));
	const fraction = field("fraction");
	/** @type {Record<string, { fraction: number, delta_s: number }>} */
	let promises = {};

	/** The card is that of the share, also while it is typed. */
	function follow() {
		const value = valueIn(fraction);
		for (const each of /** @type {HTMLInputElement[]} */ (all("input", place)))
			each.checked = Math.abs(promises[each.value]?.fraction - value) < LEAST;
	}

	fraction.addEventListener("input", follow);
	place.addEventListener("change", (event) => {
		const promise = promises[/** @type {HTMLInputElement} */ (event.target).value];
		if (!promise) return;
		for (const key of /** @type {const} */ (["fraction", "delta_s"])) {
			const { scale = "1" } = field(key).dataset;
			put(field(key), String(promise[key] * Number(scale)));
		}
	});
	await waiting(place, server, (said) => {
		promises = said.promises;
		follow();
	});
}
