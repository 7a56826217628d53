// A large file to the box, in pieces. What breaks off goes on by itself where it was; a file that
// is chosen again after the page was closed does too.

import { ApiError, del, get, post } from "./api.js";
import { t } from "./dom.js";

const PIECE_TIMEOUT_MS = 60_000;
const WAITS_S = [1, 2, 4, 8, 15, 30, 30, 30, 30, 30];
const STORE = "naproxy-upload:";

/**
 * Send a file; resolves to the upload as the box has it, whose `id` other routes take.
 *
 * `kind` is what it is for (uploads.KINDS). `progress(sent, size, words)` is told after each piece,
 * and with words while the connection is broken. `signal` ends it, and the box forgets it; then, and
 * when the box refuses, it rejects: with an ApiError, or an AbortError.
 */
export async function upload(file, { kind, sha256, progress = () => {}, signal } = {}) {
	let at = (await begun(file, kind)) ?? (await again(() => begin(file, kind, sha256), file, 0, progress, signal));
	try {
		while (!at.complete) {
			progress(at.offset, file.size, null);
			at = await again(() => send(file, at, signal), file, at.offset, progress, signal, () => get(`/api/uploads/${at.id}`));
		}
	} catch (problem) {
		if (signal?.aborted) await del(`/api/uploads/${at.id}`).catch(() => {});
		if (signal?.aborted || !lost(problem)) forget(file, kind);
		throw problem;
	}
	forget(file, kind);
	progress(file.size, file.size, null);
	return at;
}

const key = (file, kind) => `${STORE}${kind}:${file.name}:${file.size}:${file.lastModified}`;

async function begin(file, kind, sha256) {
	const made = await post("/api/uploads", { name: file.name.slice(-255), size: file.size, kind, ...(sha256 ? { sha256 } : {}) });
	sessionStorage.setItem(key(file, kind), made.id);
	return made;
}

/** The upload of this file that was begun before and is still there, or null. */
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

const forget = (file, kind) => sessionStorage.removeItem(key(file, kind));

/** Was it the connection, or the box for a moment, and not a refusal? */
const lost = (problem) => problem instanceof ApiError && (problem.status === 0 || [502, 503, 504].includes(problem.status));

/** Do it; while the connection is broken wait, ask how far it is and go on, for a few minutes. */
async function again(work, file, offset, progress, signal, ask = null) {
	for (let turn = 0; ; turn += 1) {
		signal?.throwIfAborted();
		try {
			if (turn && ask) return await ask();
			return await work();
		} catch (problem) {
			signal?.throwIfAborted();
			if (problem instanceof ApiError && problem.status === 409 && ask) return await ask();
			if (!lost(problem) || turn >= WAITS_S.length) throw problem;
			progress(offset, file.size, t("upload.waiting"));
			await pause(WAITS_S[turn] * 1000, signal);
		}
	}
}

function pause(ms, signal) {
	return new Promise((resolve, reject) => {
		const timer = setTimeout(done, ms);
		function done() {
			signal?.removeEventListener("abort", stopped);
			removeEventListener("online", done);
			clearTimeout(timer);
			resolve();
		}
		function stopped() {
			clearTimeout(timer);
			removeEventListener("online", done);
			reject(signal.reason);
		}
		// The browser may know sooner that there is a network again.
		addEventListener("online", done, { once: true });
		signal?.addEventListener("abort", stopped, { once: true });
	});
}

async function send(file, at, signal) {
	const body = await file.slice(at.offset, at.offset + at.piece_bytes).arrayBuffer().catch(() => {
		throw new ApiError(400, { error: t("upload.unreadable") });
	});
	const timeout = AbortSignal.timeout(PIECE_TIMEOUT_MS);
	let answer, said;
	try {
		answer = await fetch(`/api/uploads/${at.id}?offset=${at.offset}`, {
			method: "PUT",
			headers: {
				"Content-Type": "application/octet-stream",
				"X-CSRF-Token": document.querySelector('meta[name="csrf-token"]')?.content ?? "",
			},
			body,
			credentials: "same-origin",
			signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
		});
		said = await answer.json();
	} catch {
		signal?.throwIfAborted();
		throw new ApiError(answer && !answer.ok ? answer.status : 0, { error: t("kit.no_answer") });
	}
	if (!answer.ok) throw new ApiError(answer.status, said);
	return said;
}
