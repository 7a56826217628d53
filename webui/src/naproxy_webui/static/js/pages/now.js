// The page Now: a card a server, asked for each second. One file: the home page is few requests.

import { ApiError, h, icon, poll, post, say, STATE_ICONS, t } from "../kit/core.js";
import { clockS, duration, number, share, watts, when } from "../kit/format.js";
import { timeChart } from "../kit/plot.js";
import { showBox } from "../kit/shell.js";

const CLASSES = ["person", "api", "crawler", "monitor", "feed", "scanner"];
const mayChange = document.body.dataset.role !== "viewer";
const WAKERS = new Set(["command", "policy", "schedule", "naproxy"]);

/** A figure with a label and a note; `show(value, note)`. */
class Stat {
	constructor(label) {
		this.label = h("span.stat-label", label);
		this.value = h("span.stat-value", "–");
		this.note = h("span.stat-note");
		this.element = h("div.stat", this.label, this.value, this.note);
	}

	show(value, note = "") {
		say(this.value, value);
		say(this.note, note);
		this.note.hidden = !note;
	}
}

class Card {
	#points = [];
	#bands = [];
	#server = null;
	#plot = null;

	constructor(parent, live_s, asking) {
		this.live_s = live_s;
		this.asking = asking;
		this.parent = parent;
	}

	#build(server) {
		const name = server.id;
		this.tile = h("span.server-tile");
		this.badge = h("span.badge");
		this.since = h("span.soft.number");
		this.mode = h("span.badge", { "data-kind": "info", hidden: true });
		this.wake = h(
			"button.button",
			{ type: "button", onclick: () => this.#wake() },
			icon("sunrise"),
			t("now.wake"),
		);
		this.keepWords = h("span");
		this.keep = h(
			"button.button",
			{ type: "button", "aria-haspopup": "dialog", onclick: () => this.#keep() },
			icon("coffee"),
			this.keepWords,
		);
		this.release = h(
			"button.button",
			{ type: "button", hidden: true, onclick: () => this.#release() },
			icon("rotate-ccw"),
			t("now.release"),
		);
		this.words = h("div.server-why");
		this.progress = h("div.server-progress", { hidden: true });
		this.bar = h("progress", { max: "1", "aria-label": t("kit.state.waking") });
		this.progressWords = h(
			"p.row.spread",
			h("span", { "data-what": true }),
			h("span.soft.number", { "data-left": true }),
		);
		this.progress.append(this.progressWords, this.bar);
		this.draws = new Stat(t("now.draws"));
		this.always = new Stat(t("now.always"));
		this.less = new Stat(t("now.less"));
		this.requests = new Stat(t("now.requests"));
		this.waiting = new Stat(t("now.waiting"));
		this.byClass = h("ul.server-classes");
		this.figure = h("figure.chart", { hidden: true }, h("figcaption", t("now.chart")));
		this.meterWords = h("p.hint", { hidden: true });
		this.woken = h("div.server-woken");
		const id = `server-${name}`;
		this.element = h(
			"section.card.server",
			{ "aria-labelledby": id, "data-server": name },
			h(
				"header",
				h(
					"div.server-head",
					this.tile,
					h(
						"div",
						h("h2", { id }, name),
						h(
							"div.row",
							h("span", { role: "status" }, this.badge),
							this.since,
							this.mode,
						),
					),
				),
				h(
					"div.row.server-buttons",
					{ hidden: !mayChange },
					this.wake,
					this.keep,
					this.release,
				),
			),
			this.words,
			this.progress,
			h(
				"div.stats",
				[this.draws, this.always, this.less, this.requests, this.waiting].map(
					(each) => each.element,
				),
			),
			this.byClass,
			this.figure,
			this.meterWords,
			this.woken,
		);
		this.parent.append(this.element);
	}

	/** Show what the box said of the server at `now_s`. */
	show(server, now_s) {
		if (!this.element) this.#build(server);
		const before = this.#server;
		this.#server = server;
		this.element.classList.remove("old");
		this.#showState(server, before, now_s);
		this.#showWords(server);
		this.#showProgress(server);
		this.#showFigures(server);
		this.#showPower(server, now_s);
		this.#showWoken(server, now_s);
	}

	/** It is not live any more. */
	old() {
		this.element?.classList.add("old");
		for (const each of [this.wake, this.keep, this.release]) if (each) each.disabled = true;
	}

	/** The newest second there is. */
	since_s() {
		return this.#points.at(-1)?.[0] ?? 0;
	}

	remove() {
		this.#plot?.destroy();
		this.element?.remove();
	}

	#showState(server, before, now_s) {
		if (before?.state !== server.state) {
			for (const each of [this.element, this.tile, this.badge])
				each.dataset.state = server.state;
			this.tile.replaceChildren(icon(STATE_ICONS[server.state] ?? "circle-help"));
			this.badge.replaceChildren(
				icon(STATE_ICONS[server.state] ?? "circle-help"),
				t(`kit.state.${server.state}`),
			);
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

	#showWords(server) {
		const parts = [{ title: t("now.why"), words: server.why }];
		if (server.alert) parts.push({ title: t("now.alert"), words: [server.alert] });
		if (server.state === "awake") {
			if (server.mode === "auto")
				parts.push({ title: t("now.next"), words: server.decision });
			parts.push({ title: t("now.keeps"), words: server.vetoes });
		}
		const wanted = JSON.stringify([
			parts,
			server.armed,
			server.tripped,
			Boolean(server.commissioning),
		]);
		if (this.words.dataset.shown === wanted) return;
		this.words.dataset.shown = wanted;
		const shown = parts.filter((each) => each.words.length);
		this.words.replaceChildren(
			h(
				"dl.facts",
				shown.map(({ title, words }) => [
					h("dt", title),
					h(
						"dd",
						words.map((each) => h("p", each)),
					),
				]),
			),
		);
		if (!mayChange || server.armed || server.commissioning) return;
		if (server.tripped) {
			this.words.append(
				h(
					"p.row",
					h(
						"button.button.small",
						{ type: "button", onclick: () => this.#arm() },
						icon("check"),
						t("now.arm"),
					),
				),
			);
		} else if (server.state === "awake") {
			this.words.append(
				h(
					"p.row",
					h(
						"a.button.small",
						{ href: `/setup/again/proof?server=${encodeURIComponent(server.id)}` },
						t("now.untested_link"),
					),
				),
			);
		}
	}

	#showProgress(server) {
		const what = this.progressWords.querySelector("[data-what]"),
			left = this.progressWords.querySelector("[data-left]");
		const { commissioning } = server;
		const shown =
			server.state === "waking" ||
			server.state === "falling_asleep" ||
			Boolean(commissioning);
		this.progress.hidden = !shown;
		if (!shown) return;
		if (commissioning) {
			this.bar.value = Math.min(
				1,
				Math.max(0, (commissioning.cycle - 1) / commissioning.cycles),
			);
			say(what, t("now.testing", commissioning));
			say(left, "");
		} else if (server.state === "falling_asleep") {
			this.bar.removeAttribute("value");
			say(what, t("now.falling"));
			say(left, "");
		} else this.#showWaking(server, what, left);
	}

	#showWaking(server, what, left) {
		const { eta_s, wake_s, held } = server;
		if (eta_s === null || eta_s <= 0) this.bar.removeAttribute("value");
		else this.bar.value = Math.max(0.02, 1 - eta_s / Math.max(wake_s ?? eta_s, eta_s));
		const waits = held
			? t("now.waits", { count: held })
			: wake_s
				? t("now.wake_usual", { time: duration(wake_s) })
				: t("now.waking_unknown");
		say(what, waits);
		say(
			left,
			eta_s > 0
				? t("now.waking", { time: duration(Math.ceil(eta_s)) })
				: t("now.waking_late"),
		);
	}

	#showFigures(server) {
		const { power, always_on: always, requests, held } = server;
		const known = typeof power?.power_w === "number";
		const kind = t(power?.estimated ? "now.estimated" : "now.measured");
		this.draws.show(
			known ? watts(power.power_w) : "–",
			known
				? `${kind} ${t("now.by_meter", { meter: power.meter })}`
				: power
					? t("now.silent_meter", { meter: power.meter })
					: t("now.no_meter"),
		);
		this.draws.element.classList.toggle("estimated", Boolean(known && power.estimated));
		this.always.show(
			always ? watts(always.w) : "–",
			always ? t(always.measured ? "now.always_measured" : "now.always_assumed") : "",
		);
		const less = known && always ? always.w - power.power_w : null;
		this.less.element.hidden =
			less === null || !["asleep", "falling_asleep"].includes(server.state);
		if (less !== null)
			this.less.show(
				watts(Math.max(0, less)),
				`${share(Math.max(0, less) / always.w)}, ${t("now.less_note")}`,
			);
		const counts = CLASSES.map((name) => [name, requests.by_class[name] ?? 0]);
		const sum = counts.reduce((total, [, count]) => total + count, 0);
		const window =
			requests.window_s >= 58
				? t("now.requests_minute")
				: requests.window_s < 1
					? t("now.requests_wait")
					: t("now.requests_in", { time: duration(Math.round(requests.window_s)) });
		this.requests.show(number(sum), window);
		this.waiting.show(
			held ? number(held) : t("now.waiting_none"),
			held ? t("now.waiting_note", { count: held }) : "",
		);
		const words = counts
			.filter(([, count]) => count)
			.map(([name, count]) => `${t(`kit.class.${name}`)}: ${number(count)}`);
		const wanted = words.join("\n");
		if (this.byClass.dataset.shown === wanted) return;
		this.byClass.dataset.shown = wanted;
		this.byClass.hidden = !words.length;
		this.byClass.replaceChildren(...words.map((each) => h("li", each)));
	}

	#showPower(server, now_s) {
		const newest = this.since_s();
		this.#points.push(...server.seconds.filter(([t_s]) => t_s > newest + 0.5));
		const from_s = now_s - this.live_s;
		while (this.#points.length && this.#points[0][0] < from_s) this.#points.shift();
		this.#showBands(server, from_s, now_s);
		this.meterWords.hidden = Boolean(server.power) && !server.power.problem;
		if (!server.power) say(this.meterWords, t("now.no_meter_words"));
		else if (server.power.problem)
			say(
				this.meterWords,
				t("now.meter_problem", { meter: server.power.meter, words: server.power.problem }),
			);
		this.figure.hidden = !server.power;
		if (server.power) this.#draw(server, from_s, now_s);
	}

	#showBands(server, from_s, now_s) {
		if (server.bands) this.#bands = server.bands;
		const last = this.#bands.at(-1);
		if (last?.state === server.state) last.to_s = now_s;
		else {
			const start_s = Math.min(now_s, Math.max(server.since_s, last?.from_s ?? from_s));
			if (last) last.to_s = start_s;
			this.#bands.push({ from_s: last ? start_s : from_s, to_s: now_s, state: server.state });
		}
		this.#bands = this.#bands.filter((each) => each.to_s > from_s);
	}

	#draw(server, from_s, to_s) {
		const { estimated } = server.power,
			always = server.always_on;
		const series = [
			{
				name: `${t("now.server_draws")} (${t(estimated ? "now.estimated" : "now.measured")})`,
				colour: estimated ? "c2" : "c1",
				area: true,
				dashed: estimated,
				hatched: estimated && "/",
				step_s: 1,
				points: this.#points,
			},
		];
		if (always)
			series.push({
				name: t("now.always"),
				colour: "c8",
				dashed: true,
				aside: true,
				width: 1.5,
				points: [
					[from_s, always.w],
					[to_s, always.w],
				],
			});
		const options = {
			title: t("now.chart"),
			unit: "W",
			format: watts,
			live: true,
			from_s,
			to_s,
			series,
			bands: this.#bands,
			none: t("now.chart_none"),
			suggestedMax: always ? always.w * 1.15 : undefined,
		};
		if (this.#plot) this.#plot.update(options);
		else if (this.#plot === null) {
			this.#plot = undefined;
			timeChart(this.figure, options).then((plot) => (this.#plot = plot));
		}
	}

	#showWoken(server, now_s) {
		const { woken } = server;
		const wanted = JSON.stringify(woken);
		if (this.woken.dataset.shown === wanted) return;
		this.woken.dataset.shown = wanted;
		const title = h("h3", icon("bell"), t("now.woken"));
		if (!woken) return this.woken.replaceChildren(title, h("p.soft", t("now.woken_never")));
		const by = WAKERS.has(woken.who)
			? woken.who
			: CLASSES.includes(woken.class)
				? woken.class
				: "unknown";
		const took =
			woken.outcome === "waiting"
				? t("now.woken_open")
				: typeof woken.waited_s === "number"
					? t("now.woken_waited", { time: duration(woken.waited_s) })
					: "";
		const request = [woken.method, woken.path].filter(Boolean).join(" ");
		this.woken.replaceChildren(
			title,
			h(
				"p",
				h("span.strong.number", when(woken.t_s, now_s)),
				" ",
				t(`now.by.${by}`),
				took && `, ${took}`,
			),
			h("dl.facts.small", this.#wokenFacts(woken, request)),
			h("p.small", h("a", { href: "/history" }, t("now.woken_all"))),
		);
	}

	#wokenFacts(woken, request) {
		const facts = WAKERS.has(woken.who)
			? [[t("now.why"), woken.reason]]
			: [
					[t("now.woken_request"), request],
					[t("now.woken_from"), woken.who],
					[t("now.woken_agent"), woken.agent],
				];
		return facts
			.filter(([, value]) => value)
			.map(([name, value]) => [h("dt", name), h("dd", h("span.mono", value))]);
	}

	// What the buttons do

	#say(words, kind) {
		import("../kit/dialog.js").then(({ toast }) => toast(words, kind));
	}

	async #change(path, body, words) {
		try {
			await post(`/api/servers/${encodeURIComponent(this.#server.id)}/${path}`, body);
			this.#say(words, "good");
			this.asking.again();
		} catch (error) {
			if (!(error instanceof ApiError)) throw error;
			this.#say(error.message, "bad");
		}
	}

	#wake() {
		this.wake.disabled = true;
		return this.#change("wake", {}, t("now.waking_done", { name: this.#server.id }));
	}

	#release() {
		return this.#change("mode", { mode: "auto" }, t("now.released", { name: this.#server.id }));
	}

	/** Somebody has looked at the server that did not wake. */
	async #arm() {
		const { confirm } = await import("../kit/dialog.js");
		const name = this.#server.id;
		const agreed = await confirm({
			title: t("now.arm_title", { name }),
			text: t("now.arm_words"),
			yes: t("now.arm"),
		});
		if (agreed) await this.#change("arm", {}, t("now.armed", { name }));
	}

	async #keep() {
		const { askUntil } = await import("./now-keep.js");
		const until_s = await askUntil(this.#server.id);
		if (until_s === undefined) return;
		const name = this.#server.id;
		const words = until_s
			? t("now.kept_done", { name, time: when(until_s) })
			: t("now.kept_done_ever", { name });
		await this.#change("mode", { mode: "awake", until_s }, words);
	}
}

// The page

const EVERY_S = 1;
const PATIENCE = 2;
const servers = document.getElementById("servers");
const stale = document.getElementById("stale");
const given = document.getElementById("now");
const live_s = Number(given.dataset.liveS);
const cards = new Map();
let last_s = null,
	failed = 0;

function show(said) {
	failed = 0;
	showBox(said);
	if (!said.controller) return old();
	last_s = said.now_s;
	stale.hidden = true;
	if (!said.servers.length) return nobody();
	servers.querySelectorAll(":scope > :not(.server)").forEach((each) => each.remove());
	const ids = new Set(said.servers.map((each) => each.id));
	for (const [id, card] of cards) if (!ids.has(id)) card.remove(), cards.delete(id);
	for (const server of said.servers) {
		if (!cards.has(server.id)) cards.set(server.id, new Card(servers, live_s, asking));
		cards.get(server.id).show(server, said.now_s);
	}
}

function nobody() {
	cards.forEach((card) => card.remove());
	cards.clear();
	if (!servers.querySelector(".empty"))
		servers.replaceChildren(document.getElementById("no-server").content.cloneNode(true));
}

/** What is shown is not live any more; it stays, with the time it is from. */
function old() {
	stale.hidden = last_s === null;
	if (last_s !== null) say(stale, t("now.gone", { time: clockS(last_s) }));
	else servers.replaceChildren();
	cards.forEach((card) => card.old());
}

/** One lost answer is no news: a phone changes its network. */
function lost() {
	failed += 1;
	if (failed < PATIENCE) return;
	showBox(null);
	old();
}

/** Seconds that are not there yet; a little more, as they are gathered some time after. */
const since = () => ({
	since_s: Math.min(
		...[...cards.values()].map((card) => card.since_s()),
		last_s ?? Date.now() / 1000,
	),
});

let ask = null;
const asking = { again: () => ask?.again() };
show(JSON.parse(given.textContent));
setTimeout(
	() => (ask = poll("/api/now", { every_s: EVERY_S, query: since, data: show, error: lost })),
	last_s === null ? 0 : EVERY_S * 500,
);
