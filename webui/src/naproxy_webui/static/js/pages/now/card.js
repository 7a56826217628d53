// A server on the page Now: its state, how far it is with changing it, and its buttons.

import { button, fill, h, icon, post, redrawList, say, stateParts, t } from "../../kit/core.js";
import { duration, watts, when } from "../../kit/format.js";
import { Figures } from "./figures.js";
import { mayChange, Reasons, wrongOf } from "./reasons.js";

/** Whether somebody opened or closed it on this tab; undefined: nobody did. @param {string} name */
function readOpen(name) {
	const kept = sessionStorage.getItem(`now-open-${name}`);
	return kept === null ? undefined : kept === "1";
}

/** @param {string} name @param {boolean} open */
const keepOpen = (name, open) => sessionStorage.setItem(`now-open-${name}`, open ? "1" : "0");

/**
 * The progress in words, the remaining time, and the share that is done; null if nothing is
 * under way.
 * @param {Server} server @param {number} now_s
 * @returns {{ what: string, left?: string, done?: number } | null}
 */
function progressOf({ state, since_s, commissioning, eta_s, wake_s, held }, now_s) {
	if (commissioning) {
		const done = (commissioning.cycle - 1) / commissioning.cycles;
		return { what: t("now.testing", commissioning), done: Math.min(1, Math.max(0, done)) };
	}
	if (state === "falling_asleep") return { what: t("now.falling") };
	if (state !== "waking") return null;
	const what = held
		? t("now.waits", { count: held })
		: wake_s
			? t("now.wake_usual", { time: duration(wake_s) })
			: t("now.waking_unknown");
	if (eta_s === null || eta_s <= 0) return { what, left: t("now.waking_late") };
	const gone_s = Math.max(0, now_s - since_s);
	const late = wake_s !== null && gone_s > wake_s;
	return {
		what,
		left: t(late ? "now.waking_longer" : "now.waking", { time: duration(Math.ceil(eta_s)) }),
		done: Math.max(0.02, gone_s / (gone_s + eta_s)),
	};
}

export class Card {
	/** @type {Server | null} */
	#server = null;
	#now_s = 0;

	/**
	 * @param {HTMLElement} parent @param {string} name @param {number} live_s
	 * @param {{ again: () => void }} asking @param {boolean} open
	 */
	constructor(parent, name, live_s, asking, open) {
		this.name = name;
		this.asking = asking;
		this.tile = h("span.server-tile");
		this.badge = h("span.badge");
		this.since = h("span.soft.number");
		this.watts = h("span.server-watts.number");
		this.wrong = h("ul.server-wrong", { hidden: true });
		this.mode = h("span.badge", { "data-kind": "info", hidden: true });
		this.wake = button("", [icon("sunrise"), t("now.wake")], () => this.#wake());
		this.keepWords = h("span");
		this.keep = button("", [icon("coffee"), this.keepWords], () => this.#keep(), {
			"aria-haspopup": "dialog",
		});
		this.release = button("", [icon("rotate-ccw"), t("now.release")], () => this.#release(), {
			hidden: true,
		});
		this.bar = h("progress", { max: "1", "aria-label": t("kit.state.waking") });
		this.what = h("span");
		this.left = h("span.soft.number");
		this.progress = h(
			"div.server-progress",
			{ hidden: true },
			h("p.row.spread", this.what, this.left),
			this.bar,
		);
		this.reasons = new Reasons(name, (action) => this.#agree(action));
		this.figures = new Figures(live_s);
		const id = `server-${name}`;
		this.fold = h(
			"details.server-fold",
			{ open: readOpen(name) ?? open, ontoggle: () => this.#toggled() },
			h(
				"summary.server-row",
				this.tile,
				h(
					"div.server-head",
					h("h2", { id }, name),
					h("div.row", h("span", { role: "status" }, this.badge), this.since, this.mode),
				),
				this.watts,
				this.wrong,
			),
			h(
				"div.server-body",
				h(
					"div.row.server-buttons",
					{ hidden: !mayChange },
					this.wake,
					this.keep,
					this.release,
				),
				this.reasons.https,
				this.reasons.serves,
				this.reasons.words,
				this.progress,
				this.figures.elements,
				this.reasons.woken,
			),
		);
		this.element = h(
			"section.card.server",
			{ "aria-labelledby": id, "data-server": name },
			this.fold,
		);
		parent.append(this.element);
	}

	/**
	 * Show what the box said of the server at `now_s`.
	 * @param {Server} server @param {number} now_s
	 */
	show(server, now_s) {
		const before = this.#server;
		this.#server = server;
		this.element.classList.remove("old");
		this.#now_s = now_s;
		this.#showState(server, before, now_s);
		this.#showRow(server);
		this.reasons.show(server, now_s);
		this.#showProgress(server);
		this.figures.show(server, now_s, this.fold.open);
	}

	/** It is not live any more. */
	old() {
		this.element.classList.add("old");
		for (const each of [this.wake, this.keep, this.release]) each.disabled = true;
	}

	/** Draw the figures only while they are visible. */
	#toggled() {
		keepOpen(this.name, this.fold.open);
		if (this.#server) this.figures.show(this.#server, this.#now_s, this.fold.open);
	}

	/** The newest second there is. */
	since_s() {
		return this.figures.since_s();
	}

	remove() {
		this.figures.destroy();
		this.element.remove();
	}

	/** @param {Server} server @param {Server | null} before @param {number} now_s */
	#showState(server, before, now_s) {
		if (before?.state !== server.state) {
			for (const each of [this.element, this.tile, this.badge])
				each.dataset.state = server.state;
			fill(this.tile, stateParts(server.state)[0]);
			fill(this.badge, stateParts(server.state));
		}
		say(
			this.since,
			t("now.since", {
				time: when(server.since_s, now_s),
				length: duration(Math.floor(Math.max(0, now_s - server.since_s))),
			}),
		);
		const kept = server.mode === "awake";
		this.mode.hidden = this.release.hidden = !kept;
		if (kept)
			say(
				this.mode,
				server.mode_until_s
					? t("now.kept_until", { time: when(server.mode_until_s, now_s) })
					: t("now.kept"),
			);
		say(this.keepWords, t(kept ? "now.keep_change" : "now.keep"));
		const asleep = ["asleep", "falling_asleep", "trouble"].includes(server.state);
		this.wake.disabled = !asleep;
		this.wake.classList.toggle("primary", asleep);
		this.keep.disabled = this.release.disabled = false;
	}

	/** The content of the closed row: the power, and any problems. @param {Server} server */
	#showRow(server) {
		const { power } = server;
		const about = power?.estimated && power.power_w !== null ? "≈\u2009" : "";
		say(this.watts, power ? `${about}${watts(power.power_w)}` : "");
		redrawList(this.wrong, wrongOf(server), (words) =>
			h("li", icon("triangle-alert"), h("span", words)),
		);
	}

	/** @param {Server} server */
	#showProgress(server) {
		const progress = progressOf(server, this.#now_s);
		this.progress.hidden = !progress;
		if (!progress) return;
		const { what, left = "", done } = progress;
		say(this.what, what);
		say(this.left, left);
		if (done === undefined) this.bar.removeAttribute("value");
		else this.bar.value = done;
	}

	// Actions of the buttons

	/** @param {string} path @param {unknown} body @param {string} words */
	async #change(path, body, words) {
		const { refused, toast } = await import("../../kit/dialog.js");
		try {
			await post(`/api/servers/${encodeURIComponent(this.name)}/${path}`, body);
			toast(words);
			this.asking.again();
		} catch (error) {
			refused(error);
		}
	}

	#wake() {
		this.wake.disabled = true;
		return this.#change("wake", {}, t("now.waking_done", { name: this.name }));
	}

	#release() {
		return this.#change("mode", { mode: "auto" }, t("now.released", { name: this.name }));
	}

	/**
	 * After a question: a person has checked the server that did not wake (`arm`), visitors come
	 * through the box (`live`), or the server may keep sleeping by itself (`leave`).
	 * At once: use the address and network card at which the server was found (`adopt`).
	 * @param {"adopt" | "arm" | "live" | "leave"} action
	 */
	async #agree(action) {
		if (action === "adopt") return this.#adopt();
		const { confirm } = await import("../../kit/dialog.js");
		const { name } = this;
		const agreed = await confirm({
			title: t(`now.${action}_title`, { name }),
			text: t(`now.${action}_words`),
			yes: t(`now.${action}`),
		});
		const done = { arm: "now.armed", live: "now.live_done", leave: "now.left" }[action];
		if (agreed) await this.#change(action, {}, t(done, { name }));
	}

	#adopt() {
		const { name } = this;
		const moved = this.#server?.moved;
		return moved && this.#change("adopt", moved, t("now.adopted", { name, ...moved }));
	}

	async #keep() {
		const { askUntil } = await import("./keep.js");
		const until_s = await askUntil(this.name);
		if (until_s === undefined) return;
		const { name } = this;
		const words = until_s
			? t("now.kept_done", { name, time: when(until_s) })
			: t("now.kept_done_ever", { name });
		await this.#change("mode", { mode: "awake", until_s }, words);
	}
}
