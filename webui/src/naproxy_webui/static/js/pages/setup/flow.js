// What the steps share: where to go next, work that takes a while, messages.

import { all, ApiError, at, button, get, h, icon, post, put, t } from "../../kit/core.js";
import { toast } from "../../kit/dialog.js";

const EVERY_MS = 500;
/** So often a job that must be fresh is begun again, if another is under way. */
const PATIENCE = 60;

export const page = at("setup");
export const again = "again" in page.dataset;
/** The server that is meant; null before there is one. */
export const server = page.dataset.server || null;

/** Go to a step, and let the box remember it. @param {string} step */
export async function go(step) {
	await put("/api/setup", { step });
	location.assign(`/setup/${step}`);
}

/** On from here: the next step, or back to the list where a step is done by itself. */
export async function onward() {
	if (again) location.assign("/setup/again");
	else await go(page.dataset.after ?? "");
}

for (const link of all("a[data-go]", page)) {
	link.addEventListener("click", (event) => {
		event.preventDefault();
		go(link.dataset.go ?? "").catch(() => location.assign(link.href));
	});
}

/** @param {number} ms @returns {Promise<void>} */
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Begin a job (if `body` is given) and follow it to its end: `show(status)` meanwhile. `fresh`:
 * what another found, or found a moment ago, will not do. Resolves to its status; ApiError if it
 * cannot be begun or came to nothing.
 * @param {string} path @param {Following} options @returns {Promise<SetupJob>}
 */
export async function follow(
	path,
	{ body = null, query = null, fresh = false, show = () => {} } = {},
) {
	if (body) await begun(path, body, fresh ? PATIENCE : 0);
	let missed = 0;
	for (;;) {
		try {
			const status = await get(path, query);
			missed = 0;
			show(status);
			if (status.state === "failed") {
				const { error, code } = status.error;
				throw Object.assign(new ApiError(409, { error }), { code });
			}
			if (status.state !== "running") return status;
		} catch (error) {
			// A box that is busy may miss a question.
			if (!(error instanceof ApiError) || error.status !== 0 || ++missed > 5) throw error;
		}
		await pause(EVERY_MS);
	}
}

/** @param {string} path @param {object} body @param {number} tries */
async function begun(path, body, tries) {
	try {
		await post(path, body);
	} catch (error) {
		// It is under way, or was just done.
		if (!(error instanceof ApiError) || error.status !== 429) throw error;
		if (tries > 0) {
			await pause(EVERY_MS);
			await begun(path, body, tries - 1);
		}
	}
}

/** A button that copies a text. @param {string} text */
export const copier = (text) =>
	button(".small", [icon("copy"), t("setup.copy")], async () => {
		if (await copied(text)) toast(t("setup.copied"));
		else toast(t("setup.not_copied"), "warn");
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

/** The body of a request about this server, or a new one. @param {Loose} more @returns {Loose} */
export const about = (more = {}) => (server ? { server, ...more } : more);
