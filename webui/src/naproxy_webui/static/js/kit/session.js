// A session that ended while a user typed: they sign in on the page, and their input stays.

import { ApiError, h, logIn, one, t } from "./core.js";
import { open } from "./dialog.js";
import { onSubmit } from "./form.js";

/** @type {Promise<void> | null} */
let asking = null;

/** Resolves once the same user has signed in again; ApiError 401 if they cancel. */
export function signedIn() {
	asking ??= ask().finally(() => {
		asking = null;
	});
	return asking;
}

async function ask() {
	const name = document.body.dataset.user ?? "";
	const password = h("input.input", {
		type: "password",
		id: "again-password",
		name: "password",
		autocomplete: "current-password",
		required: true,
		autofocus: true,
	});
	const code = h("input.input", {
		id: "again-code",
		name: "code",
		autocomplete: "one-time-code",
		maxlength: 40,
	});
	const second = h(
		"div.field",
		{ hidden: true },
		h("label", { for: code.id }, t("kit.session.code")),
		code,
		h("p.hint", t("kit.session.code_hint")),
	);
	let step = "";
	const form = h(
		"form.dialog",
		h("h2", { id: "again-title" }, t("kit.session.title")),
		h("p", t("kit.session.words", { name })),
		h("div.field", h("label", { for: password.id }, t("kit.session.password")), password),
		second,
		h("footer", h("button.button.primary", t("kit.session.submit"))),
	);
	const dialog = h("dialog", { "aria-labelledby": "again-title" }, form);
	onSubmit(
		form,
		() => logIn(step ? { step, code: code.value } : { name, password: password.value }),
		(answer) => {
			const { csrf } = answer;
			if (answer.step) {
				step = answer.step;
				second.hidden = false;
				code.required = true;
				code.focus();
				return;
			}
			/** @type {HTMLMetaElement} */ (one('meta[name="csrf-token"]')).content = csrf;
			dialog.close("yes");
		},
	);
	if ((await open(dialog, { once: true })) === "yes") return;
	throw new ApiError(401, { error: t("kit.session.ended") });
}
