// Sends a large file to the box, in pieces. After an interruption it resumes by itself where it
// stopped, also if the page was closed and the same file is chosen again.

import { ApiError, del, get, post, t, token } from "./core.js";

const PIECE_TIMEOUT_MS = 60_000;
const WAITS_S = [1, 2, 4, 8, 15, 30, 30, 30, 30, 30];
const STORE = "naproxy-upload:";

/**
 * Send a file; resolves to the upload as the box has it, whose `id` other routes take.
 *
 * `kind` is its purpose (uploads.KINDS). `progress(sent, size, words)` is called after each piece,
 * and with words while the connection is lost. `signal` cancels the upload, and the box removes it.
 * The promise rejects with an AbortError after that, and with an ApiError if the box refuses.
 * @param {File} file @param {Sending} options @returns {Promise<Upload>}
 */
export async function upload(file, { kind, sha256, progress = () => {}, signal }) {
	/** @type {Upload | null} */
	let at = null;
	let broken = false,
		turn = 0;
	while (!at?.complete) {
		try {
			signal?.throwIfAborted();
			if (at === null) at = (await begun(file, kind)) ?? (await begin(file, kind, sha256));
			else if (broken) at = await get(`/api/uploads/${at.id}`);
			else {
				at = await send(file, at, signal);
				turn = 0;
			}
			broken = false;
			progress(at.offset, file.size, null);
		} catch (problem) {
			const elsewhere = problem instanceof ApiError && problem.status === 409;
			if (signal?.aborted || turn >= WAITS_S.length || !(elsewhere || lost(problem))) {
				return await given_up(problem, file, kind, at, signal);
			}
			if (!elsewhere) {
				progress(at?.offset ?? 0, file.size, t("upload.waiting"));
				await pause(WAITS_S[turn] * 1000, signal);
			}
			turn += 1;
			broken = at !== null;
		}
	}
	forget(file, kind);
	return at;
}

/**
 * @param {unknown} problem @param {File} file @param {string} kind @param {Upload | null} at
 * @param {AbortSignal | undefined} signal @returns {Promise<never>}
 */
async function given_up(problem, file, kind, at, signal) {
	if (signal?.aborted && at) await del(`/api/uploads/${at.id}`).catch(() => {});
	// An upload that only lost its connection can resume when the file is chosen again.
	if (signal?.aborted || !lost(problem)) forget(file, kind);
	throw signal?.aborted ? signal.reason : problem;
}

/** @param {File} file @param {string} kind */
const key = (file, kind) => `${STORE}${kind}:${file.name}:${file.size}:${file.lastModified}`;

/** @param {File} file @param {string} kind @param {string | undefined} sha256 */
async function begin(file, kind, sha256) {
	const made = await post("/api/uploads", {
		name: file.name.slice(-255),
		size: file.size,
		kind,
		...(sha256 ? { sha256 } : {}),
	});
	sessionStorage.setItem(key(file, kind), made.id);
	return made;
}

/**
 * The upload of this file that was begun before and is still there, or null.
 * @param {File} file @param {string} kind
 */
async function begun(file, kind) {
	const id = sessionStorage.getItem(key(file, kind));
	if (!id) return null;
	try {
		return await get(`/api/uploads/${id}`);
	} catch (problem) {
		if (!(problem instanceof ApiError)) throw problem;
		forget(file, kind);
		return null;
	}
}

/** @param {File} file @param {string} kind */
const forget = (file, kind) => sessionStorage.removeItem(key(file, kind));

/** Was it the connection, or the box for a moment, and not a refusal? @param {unknown} problem */
const lost = (problem) =>
	problem instanceof ApiError &&
	(problem.status === 0 || [502, 503, 504].includes(problem.status));

/** @param {number} ms @param {AbortSignal | undefined} signal @returns {Promise<void>} */
function pause(ms, signal) {
	return new Promise((resolve) => {
		const timer = setTimeout(done, ms);
		function done() {
			clearTimeout(timer);
			removeEventListener("online", done);
			signal?.removeEventListener("abort", done);
			resolve();
		}
		// The browser may know sooner that there is a network again.
		addEventListener("online", done);
		signal?.addEventListener("abort", done);
	});
}

/**
 * @param {File} file @param {Upload} at @param {AbortSignal | undefined} signal
 * @returns {Promise<Upload>}
 */
async function send(file, at, signal) {
	const body = await file
		.slice(at.offset, at.offset + at.piece_bytes)
		.arrayBuffer()
		.catch(() => {
			throw new ApiError(400, { error: t("upload.unreadable") });
		});
	const timeout = AbortSignal.timeout(PIECE_TIMEOUT_MS);
	let answer, said;
	try {
		answer = await fetch(`/api/uploads/${at.id}?offset=${at.offset}`, {
			method: "PUT",
			headers: {
				"Content-Type": "application/octet-stream",
				"X-CSRF-Token": token(),
			},
			body,
			credentials: "same-origin",
			signal: (signal && AbortSignal.any?.([signal, timeout])) ?? timeout,
		});
		said = await answer.json();
	} catch {
		signal?.throwIfAborted();
		throw new ApiError(answer && !answer.ok ? answer.status : 0, { error: t("kit.no_answer") });
	}
	if (!answer.ok) throw new ApiError(answer.status, said);
	return said;
}
