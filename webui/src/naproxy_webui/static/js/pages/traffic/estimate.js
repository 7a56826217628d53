// A log is dropped or chosen, sent in pieces, estimated on the box, and the result shown.

import {
	alarm,
	ApiError,
	at,
	button,
	del,
	fill,
	get,
	h,
	one,
	poll,
	post,
	refusal,
	say,
	t,
} from "../../kit/core.js";
import { announce, confirm } from "../../kit/dialog.js";
import { number } from "../../kit/format.js";
import { clearErrors, decimal, showErrors } from "../../kit/form.js";
import { upload } from "../../kit/upload.js";
import { showResult } from "./result.js";

const EVERY_S = 1;
const MIB = 1 << 20;
const form = at("estimate-form"),
	drop = at("drop");
/** @type {string[]} */
let sent = [];
/** @type {AbortController | null} */
let sending = null;
/** @type {ReturnType<typeof poll> | null} */
let polling = null;

/** Go on where the page was left: an estimate may run, or its result be there. */
export async function begin() {
	if (form) listen();
	try {
		follow(await get("/api/traffic/estimate"), true);
	} catch (problem) {
		trouble(refusal(problem).message);
	}
}

/** @param {DragEvent} event */
const hasFiles = (event) => Boolean(event.dataTransfer?.types.includes("Files"));

function listen() {
	const files = at("estimate-files");
	files.addEventListener("change", () => take([...(files.files ?? [])]));
	/** @param {DragEvent} event */
	const over = (event) => {
		if (!hasFiles(event)) return;
		event.preventDefault();
		drop.toggleAttribute("data-over", true);
	};
	document.addEventListener("dragover", over);
	document.addEventListener("dragenter", over);
	document.addEventListener(
		"dragleave",
		(event) => !event.relatedTarget && drop.removeAttribute("data-over"),
	);
	document.addEventListener("drop", (event) => {
		drop.removeAttribute("data-over");
		if (!hasFiles(event)) return;
		event.preventDefault();
		take([...(event.dataTransfer?.files ?? [])]);
	});
	form.addEventListener("submit", (event) => {
		event.preventDefault();
		if (sent.length) start();
	});
}

/** @param {boolean} is */
const busy = (is) => {
	drop?.setAttribute("aria-disabled", String(is));
	if (form) at("estimate-files").disabled = is;
};

/** @param {string | null} words @param {string | null} title */
function trouble(words, title = null) {
	fill(at("estimate-trouble"), words && alarm(title && h("p.strong", title), h("p", words)));
}

/**
 * Show one step: words, its progress (null: unknown), and a button to cancel it.
 * @param {string} words @param {number | null} share @param {string} detail
 * @param {(() => unknown) | null} cancel
 */
function step(words, share, detail, cancel) {
	const place = at("estimate-progress");
	place.hidden = false;
	if (!place.firstChild) {
		place.append(
			h(
				"div.estimate-step",
				h(
					"div.row",
					h("p.strong", { role: "status" }),
					button(".small", t("traffic.estimate.cancel")),
				),
				h("progress", { max: "1", "aria-label": t("traffic.estimate.title") }),
				h("p.hint"),
			),
		);
	}
	const ending = one("button", place),
		bar = one("progress", place);
	say(one("p.strong", place), words);
	if (share === null) bar.removeAttribute("value");
	else bar.value = share;
	one("p.hint", place).textContent = detail;
	ending.hidden = !cancel;
	ending.onclick = cancel;
}

function noStep() {
	at("estimate-progress").replaceChildren();
	at("estimate-progress").hidden = true;
}

/** @param {File[]} files */
async function take(files) {
	if (sending || polling || !files.length) return;
	trouble(null);
	const ending = new AbortController();
	sending = ending;
	busy(true);
	try {
		sent = [];
		for (const file of files) sent.push((await send(file, ending)).id);
		await start();
	} catch (problem) {
		sent = [];
		noStep();
		if (ending.signal.aborted) announce(t("traffic.estimate.cancelled"));
		else trouble(refusal(problem).message);
	} finally {
		sending = null;
		at("estimate-files").value = "";
		busy(Boolean(polling));
	}
}

/** @param {File} file @param {AbortController} ending */
function send(file, ending) {
	/** @param {number} at @param {number} size @param {string | null} words */
	const progress = (at, size, words) =>
		step(
			t("traffic.estimate.sending", { name: file.name }),
			size ? at / size : 0,
			words ??
				t("traffic.estimate.sent", {
					sent: number(at / MIB, 1),
					size: number(size / MIB, 1),
				}),
			() => ending.abort(),
		);
	progress(0, file.size, null);
	return upload(file, { kind: "log", signal: ending.signal, progress });
}

function question() {
	/** @type {Record<string, number | string | null>} */
	const read = {};
	for (const [name, value] of new FormData(form)) {
		if (typeof value === "string") read[name] = value.trim() === "" ? null : decimal(value);
	}
	return {
		...read,
		fraction: typeof read.fraction === "number" ? read.fraction / 100 : read.fraction,
	};
}

async function start() {
	clearErrors(form);
	trouble(null);
	try {
		follow(await post("/api/traffic/estimate", { uploads: sent, ...question() }), false);
	} catch (problem) {
		if (!(problem instanceof ApiError)) throw problem;
		noStep();
		if (problem.where && problem.where in Object.fromEntries(new FormData(form)))
			one("details", form).open = true;
		showErrors(form, problem);
		at("estimate-again").hidden = !sent.length;
		if (problem.status === 404) sent = [];
	}
}

/** @param {Estimate} said @param {boolean} first */
function follow(said, first) {
	if (said.state !== "running") return ended(said, first);
	busy(true);
	show(said);
	polling ??= poll("/api/traffic/estimate", {
		every_s: EVERY_S,
		data: (now) => (now.state === "running" ? show(now) : ended(now, false)),
		error: (problem) => step(t("traffic.estimate.starting"), null, problem.message, null),
	});
}

/** @param {Estimate} said */
function show({ stage, share, entries, log, names }) {
	const words =
		stage === "comparing"
			? (share ?? 0) >= 1
				? t("traffic.estimate.finishing")
				: t("traffic.estimate.comparing")
			: entries
				? t("traffic.estimate.reading", { count: number(entries) })
				: t("traffic.estimate.starting");
	// Reading takes about as long as trying the rules.
	const whole = share === null ? null : stage === "comparing" ? 0.5 + share / 2 : share / 2;
	step(
		words,
		whole,
		names.length > 1 && log ? log : names.join(", "),
		form ? () => del("/api/traffic/estimate").catch(() => {}) : null,
	);
}

/** @param {Estimate} said @param {boolean} first */
async function ended(said, first) {
	polling?.();
	polling = null;
	busy(false);
	noStep();
	if (form) at("estimate-again").hidden = !sent.length;
	if (said.state === "failed") {
		trouble(
			t(`traffic.estimate.why.${said.why}`, { words: said.words.trim().split("\n").at(-1) }),
			t("traffic.estimate.failed"),
		);
	} else if (said.state === "cancelled" && !first) announce(t("traffic.estimate.cancelled"));
	if (said.state !== "done") return;
	const logs = await resultLogs();
	if (!logs) return;
	await showResult(at("result"), logs, { forget: form && forget });
	if (first) return;
	announce(t("traffic.estimate.done"));
	one("h2", at("result")).focus();
	at("result").scrollIntoView({ block: "start" });
}

/** The result, or null: another user may just have deleted it. */
async function resultLogs() {
	try {
		const { logs } = await get("/api/traffic/estimate/result");
		return /** @type {Log[]} */ (logs);
	} catch (problem) {
		const { status, message } = refusal(problem);
		if (status !== 404) trouble(message);
		return null;
	}
}

async function forget() {
	const yes = await confirm({
		title: t("traffic.result.forget_ask"),
		text: t("traffic.result.forget_words"),
		yes: t("traffic.result.delete"),
		danger: true,
	});
	if (!yes) return;
	try {
		await del("/api/traffic/estimate");
	} catch (problem) {
		trouble(refusal(problem).message);
		return;
	}
	at("result").replaceChildren();
	at("estimate-files").focus();
}
