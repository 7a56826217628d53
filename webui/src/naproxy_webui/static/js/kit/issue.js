// Certificates that the box gets by itself: tried, asked for, and followed until they are there.

import { ApiError, all, fill, get, h, notice, one, refusal, t } from "./core.js";
import { freeId } from "./certificate.js";
import { clearErrors, field } from "./form.js";
import { when } from "./format.js";
import { follow } from "./jobs.js";
import { saveSettings } from "./saving.js";

/** @param {string} id */
const renewal = (id) => `/api/certificates/${encodeURIComponent(id)}/renew`;

/** The part of a form that issue_fields made. @param {HTMLFormElement} form */
const part = (form) => one("[data-issue]", form);

/** Names with *. are only issued by the DNS. @param {HTMLFormElement} form */
export function issueForm(form) {
	const hook = field(form, "hook");
	const look = () => {
		const shut = !hook.value.trim();
		for (const site of all("input[name=site]", form))
			if (site.value.startsWith("*.") && site.disabled !== shut) {
				site.disabled = shut;
				site.checked = !shut;
			}
	};
	hook.addEventListener("input", look);
}

/** An id that no certificate has. @param {string} name */
async function free(name) {
	const { certificates } = await get("/api/certificates");
	return freeId(name, new Set(certificates.map((each) => each.id)));
}

/**
 * The values of the form, as a certificate's id and changes of the settings.
 * @param {HTMLFormElement} form @returns {Promise<{ id: string, changes: Change[] }>}
 */
async function wanted(form) {
	if (!field(form, "acme_terms").checked)
		throw new ApiError(422, { error: t("certificate.agree"), where: "acme_terms" });
	const sites = all("input[name=site]", form).filter((each) => !each.disabled);
	const names = sites.filter((each) => each.checked).map((each) => each.value);
	// The guide offers no choice.
	if (field(form, "hook") && !names.length)
		throw new ApiError(422, {
			error: t("certificate.which_names"),
			where: sites.length ? "site" : null,
		});
	const { issue, more } = part(form).dataset;
	const id = issue || (await free("issued"));
	/** @type {Change[]} */
	const changes = [
		{ op: "set", where: "https.acme_email", value: field(form, "acme_email").value.trim() },
		{ op: "set", where: "https.acme_terms", value: true },
	];
	if (!issue) changes.push({ op: "add", where: "certificate", value: { id, source: "acme" } });
	if (sites.length) {
		const hook = field(form, "hook").value.trim();
		const own = {
			// None: all that the box serves, also those to come.
			names: more === undefined && names.length === sites.length ? [] : names,
			hook,
			challenge: hook ? "dns-01" : "http-01",
		};
		for (const [key, value] of Object.entries(own))
			changes.push({ op: "set", where: `certificate.${id}.${key}`, value });
	}
	return { id, changes };
}

/** Write changes of the settings, even if others changed meanwhile. @param {Change[]} changes */
async function write(changes) {
	const { version } = await get("/api/settings");
	const said = await saveSettings(changes, version);
	for (const each of all("[data-version]")) each.dataset.version = said.version;
}

/** Have the box get one by itself, as the form has it. @param {HTMLFormElement} form */
export async function configureIssue(form) {
	const { id, changes } = await wanted(form);
	await write(changes);
	clearErrors(form);
	part(form).dataset.issue = id;
	return id;
}

/** Have the box fetch one from a server; resolves to its id. @param {string} server */
export async function configureFetch(server) {
	const id = await free(`from-${server}`);
	await write([{ op: "add", where: "certificate", value: { id, source: "server", server } }]);
	return id;
}

/**
 * Try what the form has, with further changes of the settings; nothing is changed.
 * @param {HTMLFormElement} form @param {Change[]} also
 */
export async function tryIssue(form, also = []) {
	const place = one("[data-tried]", form);
	fill(place);
	const { id, changes } = await wanted(form);
	clearErrors(form);
	fill(place, h("p.loading", t("certificate.trying")));
	try {
		const body = { staging: true, changes: [...also, ...changes] };
		const { result } = await follow(renewal(id), { body, fresh: true });
		const names = result.names.join(", ");
		fill(place, notice("good", h("p", t("certificate.would_work", { names }))));
	} catch (error) {
		const { status, message } = refusal(error);
		fill(place);
		if (status === 422) throw error;
		fill(place, notice("bad", h("p", message), h("p", t("certificate.nothing_changed"))));
	}
}

/**
 * Have one issued or fetched now, or follow that; in `place` how it is. Resolves to whether it
 * came.
 * @param {string} id @param {HTMLElement} place @param {{ begin?: boolean, words: string }} how
 */
export async function renewNow(id, place, { begin = true, words }) {
	fill(place, h("p.loading", words));
	try {
		await follow(renewal(id), { body: begin ? {} : null, fresh: begin });
		return true;
	} catch (error) {
		const { message } = refusal(error);
		const { certificates } = await get("/api/certificates");
		const next_s = certificates.find((each) => each.id === id)?.next_try_s;
		const next = next_s && h("p", t("certificate.next_try", { when: when(next_s) }));
		fill(place, notice("bad", h("p", message), next));
		return false;
	}
}

/** Whether that is under way. @param {string} id */
export const isRenewing = async (id) => (await get(renewal(id))).state === "running";
