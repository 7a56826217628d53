// Texts to be pasted elsewhere.

import { button, h, icon, t } from "./core.js";
import { toast } from "./dialog.js";

/** A button that copies a text. @param {string} text */
export const copier = (text) =>
	button(".small", [icon("copy"), t("kit.copy")], async () => {
		if (await copied(text)) toast(t("kit.copied"));
		else toast(t("kit.not_copied"), "warn");
	});

/** @param {string} text */
async function copied(text) {
	try {
		await navigator.clipboard.writeText(text);
		return true;
	} catch {
		// Without TLS browsers have no clipboard for scripts but this one.
		const area = h("textarea.visually-hidden", { value: text, "aria-hidden": "true" });
		document.body.append(area);
		area.select();
		const done = document.execCommand("copy");
		area.remove();
		return done;
	}
}
