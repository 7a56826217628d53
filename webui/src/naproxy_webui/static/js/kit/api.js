// The JSON API from the browser: errors are words, what changes something carries the CSRF token.

import { t } from "./dom.js";

const TIMEOUT_MS = 20_000;

/** A refusal: `message` is for people, `where` the field it is about, `problems` all of them. */
export class ApiError extends Error {
	constructor(status, { error, where = null, problems = [] }) {
		super(error);
		this.name = "ApiError";
		/** HTTP status; 0: there was no answer. */
		this.status = status;
		this.where = where;
		this.problems = problems.length ? problems : [{ where, error }];
	}
}

const token = () => document.querySelector('meta[name="csrf-token"]')?.content ?? "";

function target(path, query) {
	const known = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined);
	return known.length ? `${path}?${new URLSearchParams(known)}` : path;
}

async function call(method, path, { query, body, timeout_ms = TIMEOUT_MS } = {}) {
	const headers = { Accept: "application/json" };
	if (method !== "GET") headers["X-CSRF-Token"] = token();
	if (body !== undefined) headers["Content-Type"] = "application/json";
	let answer, read;
	try {
		answer = await fetch(target(path, query), {
			method,
			headers,
			body: body === undefined ? undefined : JSON.stringify(body),
			credentials: "same-origin",
			cache: "no-store",
			signal: AbortSignal.timeout(timeout_ms),
		});
		read = await answer.text();
	} catch {
		throw new ApiError(0, { error: t("kit.no_answer") });
	}
	if (answer.status === 401 && location.pathname !== "/login") {
		location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
	}
	return unpacked(answer, read);
}

function unpacked(answer, read) {
	let value = null;
	try {
		value = read ? JSON.parse(read) : null;
	} catch {
		throw new ApiError(answer.status, { error: t("kit.bad_answer", { status: answer.status }) });
	}
	if (answer.ok) return value;
	throw new ApiError(answer.status, value?.error ? value : { error: t("kit.bad_answer", { status: answer.status }) });
}

/** GET; entries of `query` that are null are left out. ApiError if it is refused. */
export const get = (path, query, options = {}) => call("GET", path, { ...options, query });
export const post = (path, body = {}, options = {}) => call("POST", path, { ...options, body });
export const put = (path, body, options = {}) => call("PUT", path, { ...options, body });
export const patch = (path, body, options = {}) => call("PATCH", path, { ...options, body });
export const del = (path, body, options = {}) => call("DELETE", path, { ...options, body });

/**
 * GET again and again, never two at once, not while the page is hidden.
 * `query` may be a function. Returns a function that stops it; `.again()` asks at once.
 */
export function poll(path, { every_s, query, data, error = () => {} }) {
	let timer = null, busy = false, stopped = false, asked = false;
	async function turn() {
		clearTimeout(timer);
		if (stopped || document.hidden) return;
		if (busy) {
			asked = true;
			return;
		}
		busy = true;
		const began = performance.now();
		try {
			const answer = await get(path, typeof query === "function" ? query() : query, { timeout_ms: 10_000 });
			if (!stopped) data(answer);
		} catch (problem) {
			if (!(problem instanceof ApiError)) throw problem;
			if (!stopped) error(problem);
		} finally {
			busy = false;
			const wait_ms = asked ? 0 : Math.max(50, every_s * 1000 - (performance.now() - began));
			asked = false;
			timer = setTimeout(turn, wait_ms);
		}
	}
	document.addEventListener("visibilitychange", turn);
	turn();
	const stop = () => {
		stopped = true;
		clearTimeout(timer);
		document.removeEventListener("visibilitychange", turn);
	};
	return Object.assign(stop, { again: turn });
}
