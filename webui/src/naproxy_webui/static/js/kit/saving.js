// Settings are saved here and nowhere else: also where the controller takes long to answer, the
// page says what came of it.

import { ApiError, get, patch, pause, t } from "./core.js";
import { toast } from "./dialog.js";

const AGAIN_MS = 2000;
/** How often to check whether a change without an answer is in force. */
const MOST_LOOKS = 60;

/**
 * Save changes of the settings; ApiError if they are refused. Without an answer it asks until the
 * box says whether they are in force; the typed values stay on the page.
 * @param {Change[]} changes @param {string} version @returns {Promise<Loose>}
 */
export async function saveSettings(changes, version) {
	try {
		return await patch("/api/settings", { changes, version });
	} catch (error) {
		if (!(error instanceof ApiError) || ![0, 504].includes(error.status)) throw error;
		const close = toast(t("kit.saving.looking"), "warn");
		try {
			return await found(changes, version, error);
		} finally {
			close();
		}
	}
}

/** @param {Change[]} changes @param {string} version @param {ApiError} unanswered */
async function found(changes, version, unanswered) {
	let same = 0;
	for (let look = 0; look < MOST_LOOKS; look += 1) {
		await pause(AGAIN_MS);
		const now = await get("/api/settings").catch(() => null);
		if (!now) continue;
		if (now.version !== version) {
			if (changes.every((each) => holds(now, each))) return now;
			throw new ApiError(409, { error: t("kit.saving.others"), where: "version" });
		}
		// A controller that answers again has perhaps not taken up the change yet.
		same += 1;
		if (same > 1) throw new ApiError(unanswered.status, { error: t("kit.saving.not_saved") });
	}
	throw new ApiError(unanswered.status, { error: t("kit.saving.unknown") });
}

/**
 * Whether a change is in force, as far as one can see.
 * @param {Loose} config @param {Change} change
 */
function holds(config, { op, where, value }) {
	if (op !== "set" || (typeof value === "object" && !Array.isArray(value))) return true;
	/** @type {any} */
	let at = config;
	for (const part of where.split("."))
		at = Array.isArray(at)
			? (at.find((each) => each?.id === part) ?? at[Number(part)])
			: at?.[part];
	return at === undefined || JSON.stringify(at) === JSON.stringify(value);
}
