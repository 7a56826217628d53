// Words, elements and the JSON API: one file, because the home page is few requests. Texts become
// text nodes, so nothing that came from the network is ever HTML.

const SVG = "http://www.w3.org/2000/svg";

// The texts of this page, in the user's language, from the JSON that base.html puts into it.

const place = document.getElementById("texts");
/** @type {Record<string, string | undefined>} */
const texts = place ? JSON.parse(place.textContent) : {};
const plurals = new Intl.PluralRules(document.documentElement.lang || "en");

/** Whether there is a text; a key with `.one` and `.other` counts too. @param {string} key */
export const has = (key) => key in texts || `${key}.other` in texts;

/**
 * Return a text with `{name}` filled in; `count` chooses between `KEY.one`, `KEY.other` and so on.
 * @param {string} key @param {Words} values @returns {string}
 */
export function t(key, values = {}) {
	let text = texts[key];
	if (text === undefined && "count" in values) {
		text = texts[`${key}.${plurals.select(Number(values.count))}`] ?? texts[`${key}.other`];
	}
	if (text === undefined) {
		console.error(`there is no text ${key}`);
		return key;
	}
	return text.replace(/\{(\w+)\}/g, (whole, name) =>
		name in values ? String(values[name]) : whole,
	);
}

// Elements

/**
 * The element of a template that has an id. Where it is not on every page: test it first.
 * @template {keyof Ids} K
 * @param {K} id
 */
export const at = (id) => /** @type {Ids[K]} */ (document.getElementById(id));

/**
 * The first that a selector finds. Where there may be none: test it first.
 * @template {string} S
 * @param {S} selector @param {ParentNode} within
 */
export const one = (selector, within = document) =>
	/** @type {Found<S>} */ (within.querySelector(selector));

/**
 * All that a selector finds.
 * @template {string} S
 * @param {S} selector @param {ParentNode} within
 */
export const all = (selector, within = document) =>
	/** @type {Found<S>[]} */ ([...within.querySelectorAll(selector)]);

/**
 * h("p.hint", "words"), h("button.button", {type: "button", onclick: f}, icon("x"), "Close").
 * Attributes that are null or false are left out. Functions are listeners; children may be null.
 * @template {string} K
 * @param {K} what @param {(Child | Attributes)[]} rest @returns {Made<K>}
 */
export function h(what, ...rest) {
	const [tag, ...classes] = what.split(".");
	const made = document.createElement(tag || "div");
	if (classes.length) made.className = classes.join(" ");
	for (const each of rest) {
		if (
			each !== null &&
			typeof each === "object" &&
			!(each instanceof Node) &&
			!Array.isArray(each)
		)
			set(made, each);
		else append(made, each);
	}
	return /** @type {Made<K>} */ (made);
}

/** @param {HTMLElement} element @param {Attributes} attributes */
function set(element, attributes) {
	for (const [name, value] of Object.entries(attributes)) {
		if (value === null || value === undefined || value === false) continue;
		if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
		else if (name === "value" || name === "checked") Object.assign(element, { [name]: value });
		else element.setAttribute(name, value === true ? "" : String(value));
	}
}

/** @param {Element} element @param {Child} child */
function append(element, child) {
	if (Array.isArray(child)) for (const each of child) append(element, each);
	else if (child instanceof Node) element.append(child);
	else if (child !== null && child !== undefined && child !== false)
		element.append(String(child));
}

/**
 * An arrow key where pages go from right to left: the one that leads as far along as it does
 * where they go from left to right. @param {string} key
 */
export function along(key) {
	if (getComputedStyle(document.documentElement).direction !== "rtl") return key;
	return { ArrowLeft: "ArrowRight", ArrowRight: "ArrowLeft" }[key] ?? key;
}

/** An icon of parts/icons.html; it says nothing, the words beside it do. @param {string} name */
export function icon(name) {
	const made = document.createElementNS(SVG, "svg");
	made.setAttribute("class", "icon");
	made.setAttribute("aria-hidden", "true");
	const use = document.createElementNS(SVG, "use");
	use.setAttribute("href", `#i-${name}`);
	made.append(use);
	return made;
}

/**
 * An SVG element.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag @param {Record<string, string | number>} attributes
 */
export function s(tag, attributes = {}) {
	const made = document.createElementNS(SVG, tag);
	for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
	return made;
}

/**
 * Set an element's text only if it is another: live regions and selections stay quiet.
 * @param {Element | null} element @param {string} text
 */
export function say(element, text) {
	if (element && element.textContent !== text) element.textContent = text;
}

/**
 * Replace an element's children.
 * @param {Element} place @param {Child[]} children
 */
export function fill(place, ...children) {
	place.replaceChildren();
	append(place, children);
}

/**
 * Draw an element's content, unless `content` equals that of the last call for this element.
 * @template T
 * @param {HTMLElement} element @param {T} content becomes JSON @param {(content: T) => Child} draw
 */
export function redraw(element, content, draw) {
	const json = JSON.stringify(content);
	if (element.dataset.shown === json) return;
	element.dataset.shown = json;
	fill(element, draw(content));
}

/**
 * The same with one child for each of a list; an empty list hides the element.
 * @template T
 * @param {HTMLElement} element @param {T[]} list @param {(item: T) => Child} draw
 */
export function redrawList(element, list, draw) {
	element.hidden = !list.length;
	redraw(element, list, () => list.map(draw));
}

/**
 * State of a server -> its icon; words are `kit.state.NAME`.
 * @type {Record<string, string | undefined>}
 */
const STATE_ICONS = {
	awake: "sun",
	asleep: "moon",
	waking: "sunrise",
	falling_asleep: "sunset",
	trouble: "triangle-alert",
	unknown: "circle-help",
};
/** Kind of a notice -> its icon. @type {Record<string, string>} */
export const KIND_ICONS = {
	good: "circle-check",
	info: "info",
	warn: "triangle-alert",
	bad: "triangle-alert",
};

// Parts that many pages are made of.

/**
 * A message in the page; `kind` is good, info, warn or bad.
 * @param {string} kind @param {Child[]} rest
 */
export const notice = (kind, ...rest) =>
	h("div.notice", { "data-kind": kind }, icon(KIND_ICONS[kind]), h("div", rest));

/** An error message that screen readers announce at once. @param {Child[]} rest */
export function alarm(...rest) {
	const made = notice("bad", ...rest);
	made.setAttribute("role", "alert");
	return made;
}

/** @param {string} kind @param {string} picture @param {Child} words */
export const badge = (kind, picture, words) =>
	h("span.badge", { "data-kind": kind }, icon(picture), words);

/** The content of the badge of a server's state. @param {string} state */
export const stateParts = (state) => [
	icon(STATE_ICONS[state] ?? "circle-help"),
	t(`kit.state.${state}`),
];

/**
 * A button that is not of a form: `looks` are classes, as ".small.danger".
 * @param {string} looks @param {Child} words @param {((event: any) => unknown) | null} [onclick]
 * @param {Attributes} more
 */
export const button = (looks, words, onclick, more = {}) =>
	h(`button.button${looks}`, { type: "button", onclick, ...more }, words);

/**
 * A figure with its name and a note.
 * @param {string} label @param {Child} value @param {Child} note
 */
export const stat = (label, value, note = "") =>
	h(
		"div.stat",
		h("span.stat-label", label),
		h("span.stat-value", value),
		h("span.stat-note", note),
	);

/** Names and values, as far as there is a value. @param {(readonly [Child, Child])[]} pairs */
export const facts = (...pairs) =>
	h(
		"dl.facts",
		pairs.filter(([, value]) => value).map(([name, value]) => [h("dt", name), h("dd", value)]),
	);

/**
 * A table that scrolls by itself if it is too wide. `looks` are classes, as ".cards".
 * @param {string} looks @param {string | undefined} label @param {Child[]} columns
 * @param {Child} rows @param {(index: number) => boolean} isFigure which columns are of figures
 */
export const tableOf = (looks, label, columns, rows, isFigure = () => false) =>
	h(
		"div.table-wrap",
		{ tabindex: "0", role: "group", "aria-label": label },
		h(
			`table.table${looks}`,
			h(
				"thead",
				h(
					"tr",
					columns.map((each, n) =>
						h(isFigure(n) ? "th.end" : "th", { scope: "col" }, each),
					),
				),
			),
			rows instanceof HTMLTableSectionElement ? rows : h("tbody", rows),
		),
	);

/**
 * A cell that names its column on a phone.
 * @param {string} label @param {string} looks @param {Child[]} rest
 */
export const cell = (label, looks, ...rest) => h(`td${looks}`, { "data-label": label }, ...rest);

/** @param {number} ms @returns {Promise<void>} */
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The JSON API from the browser: errors have a text, and changes carry the CSRF token.

const TIMEOUT_MS = 20_000;

// When the box was last reached: other pages of this browser, and the offline page, show it.

const REACHED = "naproxy_reached_ms";
const NOTED_EVERY_MS = 5000;
let noted_ms = 0;

/** The box has answered. */
export function noteReached() {
	if (Date.now() - noted_ms < NOTED_EVERY_MS) return;
	noted_ms = Date.now();
	try {
		localStorage.setItem(REACHED, String(noted_ms));
	} catch {
		// A browser that keeps nothing does not know since when.
	}
}

/**
 * A time zone that this browser knows: the named one, else UTC. Formatters throw for any other.
 * @param {string | undefined} name
 */
export function knownZone(name) {
	try {
		return new Intl.DateTimeFormat("en", { timeZone: name || undefined }).resolvedOptions()
			.timeZone;
	} catch {
		return "UTC";
	}
}

/** When it last has, by the office's clock; null: not known. */
export function lastReached() {
	const { lang, dataset } = document.documentElement;
	return noted_ms
		? new Date(noted_ms).toLocaleTimeString(lang, {
				timeZone: knownZone(dataset.timeZone),
				hour: "2-digit",
				minute: "2-digit",
				hourCycle: "h23",
			})
		: null;
}

/** A refusal: `message` is for people, `where` the field it is about, `problems` all of them. */
export class ApiError extends Error {
	/**
	 * @param {number} status
	 * @param {{ error: string, where?: string | null, problems?: Problem[] }} said
	 */
	constructor(status, { error, where = null, problems = [] }) {
		super(error);
		this.name = "ApiError";
		/** HTTP status; 0: there was no answer. */
		this.status = status;
		this.where = where;
		this.problems = problems.length ? problems : [{ where, error }];
	}
}

/** The refusal that was caught; others are faults of ours, and go on. @param {unknown} error */
export function refusal(error) {
	if (!(error instanceof ApiError)) throw error;
	return error;
}

/** The CSRF token: it proves that a page of the box made the request. */
export const token = () => one('meta[name="csrf-token"]')?.content ?? "";

/** @param {string} path @param {Query | null} [query] */
function target(path, query) {
	const known = Object.entries(query ?? {}).filter(
		([, value]) => value !== null && value !== undefined,
	);
	const words = known.map(([name, value]) => [name, String(value)]);
	return known.length ? `${path}?${new URLSearchParams(words)}` : path;
}

/** Somebody has typed on this page: it is not left by itself. */
let typed = false;
addEventListener(
	"input",
	() => {
		typed = true;
	},
	{ capture: true },
);

/** @param {string} method @param {string} path @param {Options} options @returns {Promise<any>} */
async function call(method, path, { query, body, timeout_ms = TIMEOUT_MS } = {}) {
	/** @type {Record<string, string>} */
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
		noteReached();
	} catch {
		throw new ApiError(0, { error: t("kit.no_answer") });
	}
	if (answer.status === 401 && location.pathname !== "/login") {
		if (typed && document.body.dataset.user) {
			const { signedIn } = await import("./session.js");
			await signedIn();
			return call(method, path, { query, body, timeout_ms });
		}
		location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
	}
	return unpacked(answer, read);
}

/**
 * Sign in without leaving the page; with `step` it is the second one.
 * @param {Record<string, string>} form @returns {Promise<Loose>}
 */
export async function logIn(form) {
	const answer = await fetch(form.step ? "/login/code" : "/login", {
		method: "POST",
		headers: { Accept: "application/json" },
		body: new URLSearchParams(form),
		credentials: "same-origin",
		signal: AbortSignal.timeout(TIMEOUT_MS),
	}).catch(() => {
		throw new ApiError(0, { error: t("kit.no_answer") });
	});
	return unpacked(answer, await answer.text());
}

/** @param {Response} answer @param {string} read */
function unpacked(answer, read) {
	let value = null;
	try {
		value = read ? JSON.parse(read) : null;
	} catch {
		throw new ApiError(answer.status, {
			error: t("kit.bad_answer", { status: answer.status }),
		});
	}
	if (answer.ok) return value;
	throw new ApiError(
		answer.status,
		value?.error ? value : { error: t("kit.bad_answer", { status: answer.status }) },
	);
}

/**
 * GET; entries of `query` that are null are left out. ApiError if it is refused.
 * @template {string} P
 * @param {P} path @param {Query | null} [query] @param {Options} options
 * @returns {Promise<Answer<"GET", P>>}
 */
export const get = (path, query, options = {}) => call("GET", path, { ...options, query });

/**
 * Make a function that sends changes with a method; `standard` is the default body.
 * @template {string} M
 * @param {M} method @param {unknown} [standard]
 * @returns {<P extends string>(
 *   path: P, body?: unknown, options?: Options) => Promise<Answer<M, P>>}
 */
const changing =
	(method, standard) =>
	(path, body = standard, options = {}) =>
		call(method, path, { ...options, body });
export const post = changing("POST", {});
export const put = changing("PUT");
export const patch = changing("PATCH");
export const del = changing("DELETE");

/**
 * GET again and again, never two at once, not while the page is hidden.
 * `query` may be a function. Returns a function that stops it; `.again()` asks at once.
 * @template {string} P
 * @param {P} path @param {Polling<Answer<"GET", P>>} options
 */
export function poll(path, { every_s, query, data, error = () => {} }) {
	/** @type {number | undefined} */
	let timer;
	let busy = false,
		stopped = false,
		asked = false;
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
			const answer = await get(path, typeof query === "function" ? query() : query, {
				timeout_ms: 10_000,
			});
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
