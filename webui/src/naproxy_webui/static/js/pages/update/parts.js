// The content of the card "A new image", one function for each step.

import { alarm, badge, button, facts, h, icon, notice, t } from "../../kit/core.js";

const MB = 1_000_000;
/** @param {number} bytes */
const megabytes = (bytes) =>
	(bytes / MB).toLocaleString(document.documentElement.lang, {
		maximumFractionDigits: bytes < 10 * MB ? 1 : 0,
	});

/** Choose a file, or drop it. @param {(file: File) => unknown} send */
export function chooser(send) {
	const input = h("input", {
		type: "file",
		id: "image-file",
		accept: ".raucb",
		"aria-describedby": "image-hint",
	});
	input.addEventListener("change", () => input.files?.[0] && send(input.files[0]));
	const place = h(
		"div.drop",
		h("label.strong", { for: "image-file" }, t("update.choose")),
		input,
		h("p.hint", { id: "image-hint" }, t("update.choose_hint")),
	);
	place.addEventListener("dragover", (event) => {
		event.preventDefault();
		place.classList.add("over");
	});
	place.addEventListener("dragleave", () => place.classList.remove("over"));
	place.addEventListener("drop", (event) => {
		event.preventDefault();
		place.classList.remove("over");
		const file = event.dataTransfer?.files[0];
		if (file) send(file);
	});
	return place;
}

/**
 * A file on its way; `.sent(bytes, size, words)` says how far.
 * @param {File} file @param {() => unknown} cancel
 */
export function sending(file, cancel) {
	const bar = h("progress", {
		max: file.size,
		value: 0,
		"aria-label": t("update.sending", { name: file.name }),
	});
	const words = h("span"),
		broken = h("p.small", { role: "status" });
	const made = h(
		"div.stack.tight",
		h("p.strong", t("update.sending", { name: file.name })),
		bar,
		h("div.progress-words.small.soft", words),
		broken,
		h("div.actions", button(".small", t("update.cancel"), cancel)),
	);
	/** @param {number} bytes @param {number} size @param {string | null} said */
	const sent = (bytes, size, said) => {
		bar.value = bytes;
		words.textContent = t("update.sent", { sent: megabytes(bytes), size: megabytes(size) });
		broken.textContent = said ?? "";
	};
	sent(0, file.size, null);
	return Object.assign(made, { sent });
}

/**
 * Work of the box; `.progress(job)` says how far.
 * @param {string} title @param {Job} job @param {string | null} note
 */
export function progress(title, job, note = null) {
	const bar = h("progress", { max: 100, value: job.percent, "aria-label": title });
	const step = h("span.small.soft"),
		share = h("span.small");
	const made = h(
		"div.stack.tight",
		h("p.strong", title),
		bar,
		h("div.progress-words", step, share),
		note ? h("p.soft", note) : null,
	);
	/** @param {Job} now */
	const progress = (now) => {
		bar.value = now.percent;
		step.textContent = now.step;
		share.textContent = t("update.percent", { percent: now.percent });
	};
	progress(job);
	return Object.assign(made, { progress });
}

/** Why it was not taken. @param {Job} job @param {boolean} writing */
export function refused(job, writing = false) {
	const key = writing ? "update.failed" : `update.why.${job.why}`;
	return alarm(
		h("p.strong", t(writing ? "update.failed_title" : "update.refused")),
		h("p", t(key)),
		h("p.small.soft", job.error),
	);
}

/**
 * The content of a valid image, and the question whether to write it.
 * @param {Update} update @param {{ write: Press, forget: Press }} does
 */
export function found(update, { write, forget }) {
	const { order } = update.job,
		[kind, picture] = ORDER[order],
		bundle = /** @type {NonNullable<Job["bundle"]>} */ (update.job.bundle);

	return h(
		"div.stack",
		h(
			"div.notice",
			{ "data-kind": "good" },
			icon("shield-check"),
			h("div", h("p.strong", t("update.good")), h("p", t("update.good_words"))),
		),
		h(
			"p.from-to",
			h("span.soft", update.version),
			icon("arrow-right"),
			h("span", bundle.version),
			badge(kind, picture, t(`update.order.${order}`)),
		),
		facts(
			[t("update.signed_by"), bundle.signed_by],
			[t("update.for_board"), bundle.board],
			[t("update.description"), bundle.description],
			[t("update.build"), bundle.build],
			[t("update.size"), t("update.megabytes", { size: megabytes(bundle.image_bytes) })],
		),
		order !== "newer" && notice("warn", h("p", t(`update.order_words.${order}`))),
		h(
			"div.actions",
			button(".primary", [icon("download"), t("update.write")], pressing(write)),
			button("", t("update.forget"), pressing(forget)),
		),
	);
}

const ORDER = {
	newer: ["good", "circle-check"],
	same: ["info", "info"],
	older: ["warn", "triangle-alert"],
	unknown: ["warn", "circle-help"],
};

/** A click handler that passes its button to `does`. @param {Press} does */
export const pressing = (does) => (/** @type {any} */ event) => does(event.currentTarget);

/** The image is written, and runs after a restart. @param {Job} job @param {Press} restart */
export function written(job, restart) {
	return h(
		"div.stack",
		notice(
			"good",
			h("p.strong", t("update.written", { version: job.bundle?.version })),
			h("p", t("update.written_words")),
		),
		h(
			"div.actions",
			button(".primary", [icon("rotate-ccw"), t("update.restart")], pressing(restart)),
		),
	);
}
