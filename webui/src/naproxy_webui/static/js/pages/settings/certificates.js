// The certificates that there are: replaced, renewed, removed.

import { all, ApiError, del, one, t } from "../../kit/core.js";
import { confirm, refused } from "../../kit/dialog.js";
import { onPress, press } from "../../kit/form.js";
import { when } from "../../kit/format.js";
import { isRenewing, renewNow } from "../../kit/issue.js";
import { again } from "./forms.js";

/**
 * @param {HTMLElement} row
 * @param {(certificate: string, name: string) => unknown} replace
 */
export function certificateRow(row, replace) {
	const { certificate = "", names = "", used = "" } = row.dataset;
	const [name = certificate] = names.split(" ").filter(Boolean);
	for (const place of all("[data-next]", row))
		place.textContent = t(`settings.https.next_${place.dataset.words}`, {
			when: when(Number(place.dataset.next)),
		});
	for (const button of all("[data-replace-certificate]", row))
		onPress(button, () => replace(certificate, name));
	for (const button of all("button[data-renew-certificate]", row))
		renewable(row, button, certificate);
	onPress(one("[data-remove-certificate]", row), () => remove(certificate, name, used));
}

/** @param {HTMLElement} row @param {HTMLButtonElement} button @param {string} certificate */
function renewable(row, button, certificate) {
	/** @param {boolean} begin */
	const renew = async (begin) => {
		const how = { begin, words: t("certificate.renewing") };
		if (await renewNow(certificate, one("[data-renewal]", row), how))
			again(t("settings.https.kept"));
	};
	onPress(button, () => renew(true));
	// The renewal continues if the user leaves the page, and shows when they return. Until its
	// state is known the button is not busy, because a busy button would ignore a click.
	const look = async () => {
		if (await isRenewing(certificate)) await press(button, () => renew(false));
	};
	if (!button.disabled) look().catch(refused);
}

/** @param {string} certificate @param {string} name @param {string} used */
async function remove(certificate, name, used) {
	const path = `/api/certificates/${encodeURIComponent(certificate)}`;
	const words = used
		? t("settings.https.remove_used", { servers: used })
		: t("settings.https.remove_unused");
	if (!(await agreed(t("settings.https.remove_ask", { name }), words))) return;
	try {
		await del(path);
	} catch (error) {
		if (!(error instanceof ApiError) || error.status !== 409) throw error;
		if (!(await agreed(t("settings.https.remove_force"), error.message))) return;
		await del(path, undefined, { query: { force: true } });
	}
	again(t("settings.removed"));
}

/** @param {string} title @param {string} text */
const agreed = (title, text) => confirm({ title, text, yes: t("settings.remove"), danger: true });
