// Work of the box that takes a while: begun, and followed to its end.

import { ApiError, get, pause, post } from "./core.js";

const EVERY_MS = 500;
/** So often a job that must be fresh is begun again, if another is under way. */
const PATIENCE = 60;

/**
 * Begin a job (if `body` is given) and follow it to its end: `show(status)` meanwhile. `fresh`:
 * do not use the result of a job that was running or had just ended. Resolves to its status;
 * ApiError if the job cannot begin, or fails.
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
