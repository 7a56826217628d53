// The Update page: the running image, and a new one from the upload to the restart.

import { all, at, del, h, notice, one, poll, post, refusal, t } from "../kit/core.js";
import { confirm, toast } from "../kit/dialog.js";
import { press } from "../kit/form.js";
import { upload } from "../kit/upload.js";
import { images } from "./update/images.js";
import { chooser, found, progress, refused, sending, written } from "./update/parts.js";
import { note, outcome, restarting } from "./update/restart.js";

const WORKING = ["checking", "writing"];
const STEP = {
	none: "choose",
	refused: "choose",
	checking: "look",
	ready: "look",
	writing: "write",
	failed: "write",
	written: "restart",
};
const QUICK_S = 0.5,
	SLOW_S = 10;

const LONG = { timeout_ms: 70_000 };

const card = at("new");
const work = at("work");
const looks_only = "lookOnly" in card.dataset;

/** @type {Update | null} */
let told = null;
/** @type {string | null} */
let sent = null;
/** @type {ReturnType<typeof poll> | undefined} */
let polling;
let shown = "",
	every_s = 0;

/** @param {number} seconds */
function follow(seconds) {
	if (polling && every_s === seconds) return;
	polling?.();
	every_s = seconds;
	polling = poll("/api/update", { every_s, data: show, error: lost });
}

/** @param {import("../kit/core.js").ApiError} problem */
function lost(problem) {
	if (!told) one(".loading", at("images"))?.replaceWith(notice("bad", h("p", problem.message)));
}

/** @param {Update} update */
function show(update) {
	if (!told) outcome(at("outcome"), update);
	told = update;
	images(at("images"), update, { looks_only, back, stay, restart });
	card.hidden = !update.supported || Boolean(update.problem) || looks_only;
	if (card.hidden) {
		follow(SLOW_S);
		return;
	}
	const { job } = update;
	if (sent && job.phase !== "checking") {
		del(`/api/uploads/${sent}`).catch(() => {});
		sent = null;
	}
	follow(WORKING.includes(job.phase) ? QUICK_S : SLOW_S);
	if (ending === null) paint(update);
}

/** @param {Update} update */
function paint(update) {
	const { job } = update;
	steps(STEP[job.phase]);
	const same = JSON.stringify([job.phase, job.bundle, job.order, job.error]);
	if (shown === same && WORKING.includes(job.phase)) {
		/** @type {ReturnType<typeof progress> | null} */ (work.firstElementChild)?.progress?.(job);
		return;
	}
	if (shown === same) return;
	shown = same;
	work.replaceChildren(
		...{
			none: () => [chooser(send)],
			checking: () => [progress(t("update.checking"), job)],
			refused: () => [refused(job), chooser(send)],
			ready: () => [found(update, { write, forget })],
			writing: () => [
				progress(
					t("update.writing", { version: job.bundle?.version }),
					job,
					t("update.writing_note"),
				),
			],
			failed: () => [refused(job, true), chooser(send)],
			written: () => [written(job, restart)],
		}[job.phase](),
	);
}

/** @param {string | undefined} now */
function steps(now) {
	let before = true;
	for (const each of all("#steps > li")) {
		const here = each.dataset.step === now;
		before = before && !here;
		each.className = before ? "done" : "";
		if (here) each.setAttribute("aria-current", "step");
		else each.removeAttribute("aria-current");
	}
}

// Actions of users

/** @type {AbortController | null} */
let ending = null;

/** @param {File} file */
async function send(file) {
	const mine = new AbortController();
	ending = mine;
	shown = "";
	const bar = sending(file, () => mine.abort(new DOMException("", "AbortError")));
	work.replaceChildren(bar);
	steps("choose");
	try {
		const there = await upload(file, {
			kind: "image",
			signal: mine.signal,
			progress: bar.sent,
		});
		// An answer to a poll from before the check is about the previous file.
		polling?.();
		polling = undefined;
		const update = await post("/api/update/check", { upload: there.id }, LONG).finally(() => {
			sent = there.id;
		});
		ending = null;
		show(update);
	} catch (problem) {
		ending = null;
		follow(SLOW_S);
		const { name, message } = /** @type {Error} */ (problem);
		if (name !== "AbortError") toast(message, "bad");
		if (told) paint(told);
	}
}

/** @param {HTMLElement} button */
async function write(button) {
	if (!told?.job.bundle) return;
	const { job, version } = told,
		{ bundle } = told.job;
	const older = job.order === "older" || job.order === "unknown";
	const sure = await confirm({
		title: t(older ? "update.write_older_title" : "update.write_title", {
			version: bundle.version,
		}),
		text: t(older ? "update.write_older_text" : "update.write_text", {
			version: bundle.version,
			now: version,
		}),
		yes: t(older ? "update.write_older" : "update.write"),
		danger: older,
	});
	if (sure) await change(button, () => post("/api/update/install", { older }, LONG));
}

/** @param {HTMLElement} button */
const forget = (button) => change(button, () => del("/api/update", undefined, LONG));

/** @param {HTMLElement} button */
async function back(button) {
	const other = told?.slots.find((slot) => !slot.booted);
	if (!other) return;
	const sure = await confirm({
		title: t("update.back_title"),
		text: t("update.back_text", {
			name: other.name,
			version: other.version || t("update.version_unknown"),
		}),
		yes: t("update.back"),
	});
	if (sure) await change(button, () => post("/api/update/activate", { slot: "other" }, LONG));
}

/** @param {HTMLElement} button */
const stay = (button) =>
	change(button, () => post("/api/update/activate", { slot: "booted" }, LONG));

/** @param {HTMLElement} button @param {() => Promise<Update>} ask */
const change = (button, ask) => press(button, async () => show(await ask()));

/** @param {HTMLElement} button */
async function restart(button) {
	const sure = await confirm({
		title: t("update.restart_title"),
		text: t("update.restart_text"),
		yes: t("update.restart"),
	});
	if (!sure) return;
	await press(button, async () => {
		try {
			note(told);
			await post("/api/update/restart", {}, LONG);
		} catch (problem) {
			if (refusal(problem).status !== 0) {
				note(null);
				throw problem;
			}
		}
		polling?.();
		restarting();
	});
}

follow(SLOW_S);
