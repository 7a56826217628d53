// HTTPS: who serves it, and the certificates.

import { all, ApiError, del, one, post, t } from "../../kit/core.js";
import { check, use } from "../../kit/certificate.js";
import { confirm } from "../../kit/dialog.js";
import { date } from "../../kit/format.js";
import { clearErrors, onPress, onSend, showErrors } from "../../kit/form.js";
import { again } from "./forms.js";

const LOOK = { timeout_ms: 60_000 };
const form = one("form[data-certificate-form]");
let replaced = "";

for (const card of all("[data-https]")) servedBy(card);
for (const place of all("[data-date]")) place.textContent = date(Number(place.dataset.date));
for (const button of all("[data-look]"))
	onPress(button, async () => {
		const server = encodeURIComponent(button.dataset.look ?? "");
		await post(`/api/servers/${server}/look`, {}, LOOK);
		again(t("settings.https.looked"));
	});
for (const row of all("tbody[data-certificate]")) {
	const { certificate = "", names = "", used = "" } = row.dataset;
	const [name = certificate] = names.split(" ").filter(Boolean);
	const [replace] = all("[data-replace-certificate]", row);
	const begin = () => {
		replaced = certificate;
		const title = one("#send-title", form);
		title.textContent = t("settings.https.send_new", { name });
		clearErrors(form);
		title.scrollIntoView({ block: "start" });
		title.focus();
	};
	// One that the box fetches itself is not sent.
	if (replace) onPress(replace, begin);
	onPress(one("[data-remove-certificate]", row), () => remove(certificate, name, used));
}
form.noValidate = true;
form.addEventListener("submit", (event) => {
	form.dataset.only = event.submitter?.matches("[data-check]") ? "check" : "";
});
onSend(
	form,
	async () => {
		if (form.dataset.only === "check") await check(form);
		else if (await use(form, replaced)) again(t("settings.https.kept"));
	},
	(error) => showErrors(form, error),
);

/** What only the box's own HTTPS has, is off without it. @param {HTMLElement} card */
function servedBy(card) {
	const more = one("[data-with-box]", card);
	const mode = one("fieldset[data-key=mode]", card);
	const look = () => {
		const serves = one("input:checked", mode)?.value === "box";
		more.hidden = !serves;
		if (serves) return;
		const [redirect] = all("input[data-key=redirect]", more);
		const [hsts] = all("input[data-key=hsts_s]", more);
		redirect.checked = false;
		hsts.value = "0";
	};
	mode.addEventListener("change", look);
	look();
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
