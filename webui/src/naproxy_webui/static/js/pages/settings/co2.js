// The API for carbon dioxide, asked now.

import { button, h, one, post, t } from "../../kit/core.js";
import { number } from "../../kit/format.js";

export function carbonDioxide() {
	const place = one("[data-co2-try]");
	if (!place || document.body.dataset.mayChange === "no") return;
	const said = h("p.hint", { role: "status" });
	const ask = async () => {
		said.textContent = t("settings.co2_trying");
		try {
			/** @type {any} */
			const { co2, words } = await post("/api/settings/co2/look");
			said.textContent =
				words || t("settings.co2_read", { grams: number(co2.co2_g_per_kwh) });
		} catch (error) {
			said.textContent = /** @type {Error} */ (error).message;
		}
	};
	place.replaceChildren(button(".small", t("settings.co2_try"), ask), said);
}
