// HTTPS: the machine that serves it, and the certificates.

import { all, one, pause, post, t } from "../../kit/core.js";
import { check, use, ways } from "../../kit/certificate.js";
import { date } from "../../kit/format.js";
import { clearErrors, onPress, onSend, showErrors } from "../../kit/form.js";
import { configureIssue, issueForm, renewNow, tryIssue } from "../../kit/issue.js";
import { certificateRow } from "./certificates.js";
import { fetchForm } from "./fetching.js";
import { again } from "./forms.js";

const LOOK = { timeout_ms: 60_000 };
const LIVE_MS = 2000;
const LIVE_TIMES = 5;
const form = one("form[data-certificate-form]");
const issue = one("form[data-issue-form]");
let replaced = "";

for (const card of all("[data-https]")) servedBy(card);
for (const place of all("[data-date]")) place.textContent = date(Number(place.dataset.date));
for (const button of all("[data-look]"))
	onPress(button, async () => {
		const server = encodeURIComponent(button.dataset.look ?? "");
		await post(`/api/servers/${server}/look`, {}, LOOK);
		again(t("settings.https.looked"));
	});
for (const row of all("tbody[data-certificate]")) certificateRow(row, replace);
ways(one("[data-new-certificate]"));
fetchForm();
issueForm(issue);
for (const each of [form, issue]) {
	each.noValidate = true;
	each.addEventListener("submit", (event) => {
		each.dataset.only = event.submitter?.matches("[data-check]") ? "check" : "";
	});
}
// If this fails, the state is shown when the page is opened next.
live().catch(() => {});
onSend(
	issue,
	async () => {
		if (issue.dataset.only === "check") return tryIssue(issue);
		const id = await configureIssue(issue);
		const words = t("certificate.issuing");
		if (await renewNow(id, one("[data-tried]", issue), { words }))
			again(t("settings.https.kept"));
		return undefined;
	},
	(error) => showErrors(issue, error),
);
onSend(
	form,
	async () => {
		if (form.dataset.only === "check") await check(form);
		else if (await use(form, replaced)) again(t("settings.https.kept"));
	},
	(error) => showErrors(form, error),
);

/** A change is in force, and judged, a moment after it was saved: show its effect then. */
async function live() {
	for (let n = 0; n < LIVE_TIMES; n += 1) {
		await pause(LIVE_MS);
		const answer = await fetch(location.href);
		const now = new DOMParser().parseFromString(await answer.text(), "text/html");
		for (const place of all("[data-live]")) {
			const said = now.querySelector(`[data-live="${place.dataset.live}"]`);
			if (said && said.innerHTML !== place.innerHTML)
				place.replaceChildren(...said.childNodes);
		}
	}
}

/** Turn off options that require the box to serve HTTPS. @param {HTMLElement} card */
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

/** Have another sent in the place of one. @param {string} certificate @param {string} name */
function replace(certificate, name) {
	replaced = certificate;
	one("input[name=way][value=upload]").click();
	const title = one("#send-title", form);
	title.textContent = t("settings.https.send_new", { name });
	clearErrors(form);
	title.scrollIntoView({ block: "start" });
	title.focus();
}
