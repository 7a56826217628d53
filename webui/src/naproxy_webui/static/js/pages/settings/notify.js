// Notifications: those already sent, and a test of the channels.

import { all, at, get, h, one, post, t } from "../../kit/core.js";
import { when } from "../../kit/format.js";

/**
 * @param {{channel: string, words: string, sent_s?: number | null}} way
 * @param {string} otherwise
 */
const said = (way, otherwise) =>
	h(
		way.words ? "p.hint.bad" : "p.hint",
		`${t(`settings.notify_way_${way.channel}`)}: ${way.words || otherwise}`,
	);

export async function notifications() {
	if (!one("[data-told]")) return;
	const button = at("notify-test");
	button.addEventListener("click", async () => {
		button.disabled = true;
		at("notify-results").replaceChildren(h("p", t("settings.notify_testing")));
		try {
			const { results } = await post("/api/settings/notify/test");
			at("notify-results").replaceChildren(
				...results.map((/** @type {any} */ way) => said(way, t("settings.notify_sent"))),
			);
		} catch (error) {
			at("notify-results").replaceChildren(
				h("p.error", /** @type {Error} */ (error).message),
			);
		}
		button.disabled = false;
	});
	const { channels, in_clear, told } = await get("/api/settings/notify");
	one('[data-consequence="in_clear"]').dataset.saved = in_clear.join(" ");
	document.dispatchEvent(new Event("change"));
	const nothing = t(channels.length ? "settings.notify_none" : "settings.notify_nobody");
	at("notify-told").replaceChildren(
		...(told.length
			? told.map((/** @type {any} */ each) =>
					h(
						"li",
						h("b", each.title),
						" ",
						h("span.soft", when(each.t_s)),
						each.to.map((/** @type {any} */ way) =>
							said(way, t(`settings.notify_${way.sent_s ? "sent" : "waits"}`)),
						),
					),
				)
			: [h("li.soft", nothing)]),
	);
	for (const each of all("#notify-test")) each.hidden = document.body.dataset.mayChange === "no";
}
