// Overlays of the page: questions, short messages, words for screen readers.

import { button, h, icon, KIND_ICONS, one, refusal, t } from "./core.js";

/** @type {Record<string, number>} */
const TOAST_MS = { good: 6000, info: 8000, warn: 15_000, bad: 0 };
/** @type {HTMLElement | null} */
let region = null;

/** Say something to screen readers only, politely. @param {string} words */
export function announce(words) {
	const there = document.getElementById("announcer");
	const live = there ?? h("div.visually-hidden", { id: "announcer", "aria-live": "polite" });
	if (!there) document.body.append(live);
	live.textContent = "";
	setTimeout(() => (live.textContent = words), 50);
}

function toasts() {
	if (!region?.isConnected) {
		region = h("div.toasts", { role: "status", "aria-live": "polite" });
		document.body.append(region);
	}
	// A modal dialog makes the rest of the page inert: messages belong into it meanwhile.
	const open = one("dialog:modal");
	const home = open ?? document.body;
	if (region.parentNode !== home) home.append(region);
	return region;
}

/**
 * A short message in the corner; `kind` is good, info, warn or bad. A bad one stays until closed.
 * `action` `{words, press}` is a button in it, as for undoing.
 * @param {string} words @param {string} kind
 * @param {{ words: string, press: () => unknown } | null} action
 */
export function toast(words, kind = "good", action = null) {
	const shown = h(
		"div.toast",
		{ "data-kind": kind },
		icon(KIND_ICONS[kind] ?? "info"),
		h("p", words),
	);
	const close = () => shown.remove();
	if (action) {
		const press = () => {
			close();
			action.press();
		};
		one("p", shown).append(" ", button(".quiet.small", action.words, press));
	}
	shown.append(
		h("button", { type: "button", "aria-label": t("kit.close"), onclick: close }, icon("x")),
	);
	// Show a repeated message only once, as the newest.
	for (const other of [...toasts().children])
		if (other.textContent === shown.textContent) other.remove();
	toasts().append(shown);
	if (TOAST_MS[kind]) setTimeout(close, TOAST_MS[kind] * (action ? 3 : 1));
	return close;
}

// Esc closes the newest message, unless it closes something else.
addEventListener("keydown", (event) => {
	if (event.key !== "Escape" || event.defaultPrevented || one("dialog:modal")) return;
	region?.lastElementChild?.remove();
});

/** Show a refusal as a message; others are faults of ours. @param {unknown} error */
export const refused = (error) => toast(refusal(error).message, "bad");

/**
 * Open a `<dialog>`; resolves to its returnValue when it is closed, and removes it if `once`.
 * @param {HTMLDialogElement} dialog @param {{ once?: boolean }} options @returns {Promise<string>}
 */
export function open(dialog, { once = false } = {}) {
	if (!dialog.isConnected) document.body.append(dialog);
	dialog.returnValue = "";
	dialog.showModal();
	return new Promise((resolve) => {
		dialog.addEventListener(
			"close",
			() => {
				if (region && dialog.contains(region)) document.body.append(region);
				if (once) dialog.remove();
				resolve(dialog.returnValue);
			},
			{ once: true },
		);
	});
}

/**
 * Ask; resolves to whether it was agreed to. `text` may be an element; Escape means no.
 * @param {Question} question
 */
export async function confirm({ title, text = "", yes, no = t("kit.cancel"), danger = false }) {
	const id = `dialog-${Math.random().toString(36).slice(2)}`;
	const body = text instanceof Node ? text : h("p", text);
	const form = h("form.dialog", { method: "dialog" }, h("h2", { id }, title), body);
	const yesLooks = danger ? "danger" : "primary";
	form.append(
		h(
			"footer",
			h("button.button", { value: "", autofocus: danger }, no),
			h(`button.button.${yesLooks}`, { value: "yes", autofocus: !danger }, yes),
		),
	);
	return (await open(h("dialog", { "aria-labelledby": id }, form), { once: true })) === "yes";
}
