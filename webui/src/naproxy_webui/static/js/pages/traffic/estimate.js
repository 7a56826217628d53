// A log is dropped or chosen, sent in pieces, estimated on the box, and the result shown.

import { ApiError, del, get, h, icon, poll, post, t } from "../../kit/core.js";
import { announce, confirm } from "../../kit/dialog.js";
import { number } from "../../kit/format.js";
import { clearErrors, decimal, showErrors } from "../../kit/form.js";
import { upload } from "../../kit/upload.js";
import { showResult } from "./result.js";

const EVERY_S = 1;
const MIB = 1 << 20;
const $ = (id) => document.getElementById(id);
const form = $("estimate-form"),
	drop = $("drop");
let sent = [],
	sending = null,
	polling = null;

/** Go on where the page was left: an estimate may run, or its result be there. */
export async function begin() {
	if (form) listen();
	try {
		follow(await get("/api/traffic/estimate"), true);
	} catch (problem) {
		if (!(problem instanceof ApiError)) throw problem;
		trouble(problem.message);
	}
}

function listen() {
	$("estimate-files").addEventListener("change", (event) => take([...event.target.files]));
	for (const name of ["dragover", "dragenter"]) {
		document.addEventListener(name, (event) => {
			if (![...event.dataTransfer.types].includes("Files")) return;
			event.preventDefault();
			drop.toggleAttribute("data-over", true);
		});
	}
	document.addEventListener(
		"dragleave",
		(event) => !event.relatedTarget && drop.removeAttribute("data-over"),
	);
	document.addEventListener("drop", (event) => {
		drop.removeAttribute("data-over");
		if (![...event.dataTransfer.types].includes("Files")) return;
		event.preventDefault();
		take([...event.dataTransfer.files]);
	});
	form.addEventListener("submit", (event) => {
		event.preventDefault();
		if (sent.length) start();
	});
}

const busy = (is) => {
	drop?.setAttribute("aria-disabled", String(is));
	if (form) $("estimate-files").disabled = is;
};

function trouble(words, title = null) {
	$("estimate-trouble").replaceChildren(
		...(words
			? [
					h(
						"div.notice",
						{ "data-kind": "bad", role: "alert" },
						icon("triangle-alert"),
						h("div", title && h("p.strong", title), h("p", words)),
					),
				]
			: []),
	);
}

/** Show one step: words, how far it is (null: not known), and a way to end it. */
function step(words, share, detail, cancel) {
	const place = $("estimate-progress");
	place.hidden = false;
	if (!place.firstChild) {
		place.append(
			h(
				"div.estimate-step",
				h(
					"div.row",
					h("p.strong", { role: "status" }),
					h("button.button.small", { type: "button" }, t("traffic.estimate.cancel")),
				),
				h("progress", { max: "1", "aria-label": t("traffic.estimate.title") }),
				h("p.hint"),
			),
		);
	}
	const [title, button, bar, hint] = ["p.strong", "button", "progress", "p.hint"].map((each) =>
		place.querySelector(each),
	);
	if (title.textContent !== words) title.textContent = words;
	if (share === null) bar.removeAttribute("value");
	else bar.value = share;
	hint.textContent = detail;
	button.hidden = !cancel;
	button.onclick = cancel;
}

function noStep() {
	$("estimate-progress").replaceChildren();
	$("estimate-progress").hidden = true;
}

async function take(files) {
	if (sending || polling || !files.length) return;
	trouble(null);
	const ending = (sending = new AbortController());
	busy(true);
	try {
		sent = [];
		for (const file of files) sent.push((await send(file, ending)).id);
		await start();
	} catch (problem) {
		sent = [];
		noStep();
		if (ending.signal.aborted) announce(t("traffic.estimate.cancelled"));
		else if (problem instanceof ApiError) trouble(problem.message);
		else throw problem;
	} finally {
		sending = null;
		$("estimate-files").value = "";
		busy(Boolean(polling));
	}
}

function send(file, ending) {
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
	const read = Object.fromEntries(
		[...new FormData(form)]
			.filter(([, value]) => typeof value === "string")
			.map(([name, value]) => [name, value.trim() === "" ? null : decimal(value)]),
	);
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
			form.querySelector("details").open = true;
		showErrors(form, problem);
		$("estimate-again").hidden = !sent.length;
		if (problem.status === 404) sent = [];
	}
}

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

function show({ stage, share, entries, log, names }) {
	const words =
		stage === "comparing"
			? share >= 1
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

async function ended(said, first) {
	polling?.();
	polling = null;
	busy(false);
	noStep();
	if (form) $("estimate-again").hidden = !sent.length;
	if (said.state === "failed") {
		trouble(
			t(`traffic.estimate.why.${said.why}`, { words: said.words.trim().split("\n").at(-1) }),
			t("traffic.estimate.failed"),
		);
	} else if (said.state === "cancelled" && !first) announce(t("traffic.estimate.cancelled"));
	if (said.state !== "done") return;
	const logs = await resultLogs();
	if (!logs) return;
	await showResult($("result"), logs, { forget: form && forget });
	if (first) return;
	announce(t("traffic.estimate.done"));
	$("result").querySelector("h2").focus();
	$("result").scrollIntoView({ block: "start" });
}

/** What was found, or null: somebody else may have deleted it just now. */
async function resultLogs() {
	try {
		return (await get("/api/traffic/estimate/result")).logs;
	} catch (problem) {
		if (!(problem instanceof ApiError)) throw problem;
		if (problem.status !== 404) trouble(problem.message);
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
		if (!(problem instanceof ApiError)) throw problem;
		trouble(problem.message);
		return;
	}
	$("result").replaceChildren();
	$("estimate-files").focus();
}
