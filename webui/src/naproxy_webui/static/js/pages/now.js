// The page Now: a card a server, asked for each second. One file: the home page is few requests.

import {
	all,
	at,
	button,
	facts,
	fill,
	get,
	h,
	hasNewContent,
	icon,
	notice,
	one,
	poll,
	post,
	say,
	stateParts,
	t,
} from "../kit/core.js";
import { clockS, duration, energy, money, number, share, watts, when } from "../kit/format.js";
import { timeChart } from "../kit/plot.js";
import { showBox } from "../kit/shell.js";

const CLASSES = ["person", "api", "crawler", "monitor", "feed", "scanner"];
const mayChange = document.body.dataset.role !== "viewer";
const WAKERS = new Set(["command", "policy", "schedule", "naproxy"]);

/**
 * What others plan for a server, and why that is not known.
 * @param {Server} server @param {number} now_s
 */
function agenda({ calendar }, now_s) {
	if (!calendar) return [];
	const events = calendar.events.map(({ name, t_s, end_s }) =>
		t("now.calendar_to", { name, begin: when(t_s, now_s), end: when(end_s, now_s) }),
	);
	return calendar.problem ? [calendar.problem, ...events] : events;
}

/** A figure with a label and a note; `show(value, note)`. */
class Stat {
	/** @param {string} label */
	constructor(label) {
		this.label = h("span.stat-label", label);
		this.value = h("span.stat-value", "–");
		this.note = h("span.stat-note");
		this.element = h("div.stat", this.label, this.value, this.note);
	}

	/** @param {string} value @param {string} note */
	show(value, note = "") {
		say(this.value, value);
		say(this.note, note);
		this.note.hidden = !note;
	}
}

class Card {
	/** @type {number[][]} */
	#points = [];
	/** @type {Band[]} */
	#bands = [];
	/** @type {Server | null} */
	#server = null;
	#now_s = 0;
	/** @type {Plot<TimeOptions> | undefined} */
	#plot;

	/**
	 * @param {HTMLElement} parent @param {string} name @param {number} live_s
	 * @param {{ again: () => void }} asking @param {boolean} open
	 */
	constructor(parent, name, live_s, asking, open) {
		this.name = name;
		this.live_s = live_s;
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
		this.words = h("div.server-why");
		this.https = h("div");
		this.serves = h("div");
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
				this.https,
				this.serves,
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
		showHttps(this.https, httpsOf(server));
		this.#showServices(server);
		this.#showWords(server, now_s);
		this.#showProgress(server);
		this.#showFigures(server);
		this.#showPower(server, now_s);
		this.#showWoken(server, now_s);
	}

	/** It is not live any more. */
	old() {
		this.element.classList.add("old");
		for (const each of [this.wake, this.keep, this.release]) each.disabled = true;
	}

	/** What is drawn only where one sees it. */
	#toggled() {
		keepOpen(this.name, this.fold.open);
		if (this.#server) this.#showPower(this.#server, this.#now_s);
	}

	/** The newest second there is. */
	since_s() {
		return this.#points.at(-1)?.[0] ?? 0;
	}

	remove() {
		this.#plot?.destroy();
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

	/** What the closed row says: what it draws, and what is wrong. @param {Server} server */
	#showRow(server) {
		const { power } = server;
		const about = power?.estimated && power.power_w !== null ? "≈\u2009" : "";
		say(this.watts, power ? `${about}${watts(power.power_w)}` : "");
		const wrong = wrongOf(server);
		if (!hasNewContent(this.wrong, wrong)) return;
		this.wrong.hidden = !wrong.length;
		fill(
			this.wrong,
			wrong.map((words) => h("li", icon("triangle-alert"), h("span", words))),
		);
	}

	/** @param {Server} server @param {number} now_s */
	#showWords(server, now_s) {
		const parts = [{ title: t("now.why"), words: server.why }];
		if (server.alert) parts.push({ title: t("now.alert"), words: [server.alert] });
		if (server.state === "awake") {
			if (server.mode === "auto")
				parts.push({ title: t("now.next"), words: server.decision });
			parts.push({ title: t("now.keeps"), words: server.inhibitors });
		}
		const coming = server.appointments.map(({ t_s, name }) => `${name}, ${when(t_s, now_s)}`);
		parts.push({ title: t("now.appointments"), words: coming });
		parts.push({ title: t("now.engines"), words: engineWords(server, now_s) });
		if (server.sleeps_itself)
			parts.push({ title: t("now.itself"), words: [server.sleeps_itself] });
		parts.push({ title: t("now.calendar"), words: agenda(server, now_s) });
		const { armed, tripped, waits, commissioning } = server;
		if (!hasNewContent(this.words, [parts, armed, tripped, waits, Boolean(commissioning)]))
			return;
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
		if (mayChange && server.sleeps_itself) {
			const leave = button(".small", [icon("moon"), t("now.leave")], () => this.#leave());
			this.words.append(h("p.row", leave));
		}
		if (!mayChange || server.armed || server.commissioning) return;
		if (server.tripped) {
			const arm = button(".small", [icon("check"), t("now.arm")], () => this.#arm());
			this.words.append(h("p.row", arm));
		} else if (server.waits) {
			const live = button(".small", [icon("check"), t("now.live")], () => this.#live());
			const href = `/setup/again/live?server=${encodeURIComponent(server.id)}`;
			this.words.append(h("p.row", live, h("a", { href }, t("now.live_link"))));
		} else if (server.state === "awake") {
			const href = `/setup/again/proof?server=${encodeURIComponent(server.id)}`;
			this.words.append(h("p.row", h("a.button.small", { href }, t("now.untested_link"))));
		}
	}

	/** @param {Server} server */
	#showServices({ id, serves }) {
		if (!hasNewContent(this.serves, serves)) return;
		this.serves.hidden = !serves.length;
		const href = `/settings/sleep?server=${encodeURIComponent(id)}#services`;
		const link = mayChange && h("p", h("a", { href }, t("now.serves_link")));
		const words = t("now.serves", { names: serves.join("; ") });
		fill(this.serves, serves.length ? notice("warn", h("p", words), link) : null);
	}

	/** @param {Server} server */
	#showProgress(server) {
		const what = one("[data-what]", this.progressWords),
			left = one("[data-left]", this.progressWords);
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

	/** @param {Server} server @param {HTMLElement} what @param {HTMLElement} left */
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
			eta_s && eta_s > 0
				? t("now.waking", { time: duration(Math.ceil(eta_s)) })
				: t("now.waking_late"),
		);
	}

	/** @param {Server} server */
	#showFigures(server) {
		const { power, always_on: always, requests, held } = server;
		const drawn_w = power?.power_w ?? null,
			meter = power?.meter;
		const kind = t(power?.estimated ? "now.estimated" : "now.measured");
		this.draws.show(
			watts(drawn_w),
			drawn_w !== null
				? `${kind} ${t("now.by_meter", { meter })}`
				: power
					? t("now.silent_meter", { meter })
					: t("now.no_meter"),
		);
		this.draws.element.classList.toggle(
			"estimated",
			drawn_w !== null && Boolean(power?.estimated),
		);
		this.always.show(
			always ? watts(always.w) : "–",
			always ? t(always.measured ? "now.always_measured" : "now.always_assumed") : "",
		);
		this.less.element.hidden =
			drawn_w === null || !always || !["asleep", "falling_asleep"].includes(server.state);
		if (drawn_w !== null && always) {
			const less = Math.max(0, always.w - drawn_w);
			this.less.show(watts(less), `${share(less / always.w)}, ${t("now.less_note")}`);
		}
		/** @param {string} name @returns {number} */
		const countOf = (name) => requests.by_class[name] ?? 0;
		const sum = CLASSES.reduce((total, name) => total + countOf(name), 0);
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
		const words = CLASSES.filter(countOf).map(
			(name) => `${t(`kit.class.${name}`)}: ${number(countOf(name))}`,
		);
		if (!hasNewContent(this.byClass, words)) return;
		this.byClass.hidden = !words.length;
		this.byClass.replaceChildren(...words.map((each) => h("li", each)));
	}

	/** @param {Server} server @param {number} now_s */
	#showPower(server, now_s) {
		const newest = this.since_s();
		this.#points.push(...server.seconds.filter(([t_s]) => t_s > newest + 0.5));
		const from_s = now_s - this.live_s;
		while (this.#points.length && this.#points[0][0] < from_s) this.#points.shift();
		this.#showBands(server, from_s, now_s);
		const { power } = server;
		this.meterWords.hidden = power !== null && !power.problem;
		if (!power) say(this.meterWords, t("now.no_meter_words"));
		else if (power.problem)
			say(
				this.meterWords,
				t("now.meter_problem", { meter: power.meter, words: power.problem }),
			);
		this.figure.hidden = !power;
		if (power && this.fold.open) this.#draw(server, power, from_s, now_s);
	}

	/** @param {Server} server @param {number} from_s @param {number} now_s */
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

	/** @param {Server} server @param {Power} power @param {number} from_s @param {number} to_s */
	async #draw({ always_on: always }, { estimated }, from_s, to_s) {
		const kind = t(estimated ? "now.estimated" : "now.measured");
		/** @type {TimeSeries[]} */
		const series = [
			{
				name: `${t("now.server_draws")} (${kind})`,
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
		this.#plot = await timeChart(this.figure, options);
	}

	/** @param {Server} server @param {number} now_s */
	#showWoken(server, now_s) {
		const { woken } = server;
		if (!hasNewContent(this.woken, woken)) return;
		const title = h("h3", icon("bell"), t("now.woken"));
		if (!woken) {
			this.woken.replaceChildren(title, h("p.soft", t("now.woken_never")));
			return;
		}
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
			h("div.small", this.#wokenFacts(woken, request)),
			h("p.small", h("a.link", { href: "/history" }, t("now.woken_all"))),
		);
	}

	/** @param {Woken} woken @param {string} request */
	#wokenFacts(woken, request) {
		/** @param {string | null} value */
		const mono = (value) => value && h("span.mono", value);
		return WAKERS.has(woken.who)
			? facts([t("now.why"), mono(woken.reason)])
			: facts(
					[t("now.woken_request"), mono(request)],
					[t("now.woken_from"), mono(woken.who)],
					[t("now.woken_agent"), mono(woken.agent)],
				);
	}

	// What the buttons do

	/** @param {string} path @param {unknown} body @param {string} words */
	async #change(path, body, words) {
		const { refused, toast } = await import("../kit/dialog.js");
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

	/** Somebody has looked at the server that did not wake. */
	async #arm() {
		const { confirm } = await import("../kit/dialog.js");
		const { name } = this;
		const agreed = await confirm({
			title: t("now.arm_title", { name }),
			text: t("now.arm_words"),
			yes: t("now.arm"),
		});
		if (agreed) await this.#change("arm", {}, t("now.armed", { name }));
	}

	/** A person knows that visitors come through the box. */
	async #live() {
		const { confirm } = await import("../kit/dialog.js");
		const { name } = this;
		const agreed = await confirm({
			title: t("now.live_title", { name }),
			text: t("now.live_words"),
			yes: t("now.live"),
		});
		if (agreed) await this.#change("live", {}, t("now.live_done", { name }));
	}

	/** It puts itself to sleep: the box is to live with that. */
	async #leave() {
		const { confirm } = await import("../kit/dialog.js");
		const { name } = this;
		const agreed = await confirm({
			title: t("now.leave_title", { name }),
			text: t("now.leave_words"),
			yes: t("now.leave"),
		});
		if (agreed) await this.#change("leave", {}, t("now.left", { name }));
	}

	async #keep() {
		const { askUntil } = await import("./now-keep.js");
		const until_s = await askUntil(this.name);
		if (until_s === undefined) return;
		const { name } = this;
		const words = until_s
			? t("now.kept_done", { name, time: when(until_s) })
			: t("now.kept_done_ever", { name });
		await this.#change("mode", { mode: "awake", until_s }, words);
	}
}

// Above the servers: one sentence, what is still to do, and what is saved.

const SUMS_EVERY_MS = 60_000;
/** Where one does it. @type {Record<string, (server: string | null) => string>} */
const PLACES = {
	proof: (server) => `/setup/again/proof?server=${encodeURIComponent(server ?? "")}`,
	visitors: (server) => `/setup/again/live?server=${encodeURIComponent(server ?? "")}`,
	https: () => "/settings/https",
	price: () => "/settings/office",
	meter: () => "/settings/meters",
	backup: () => "/settings/backup",
	notify: () => "/settings/notifications",
};
const STATES = ["trouble", "waking", "falling_asleep", "awake", "asleep", "unknown"];

/** @type {Overview} */
const told = JSON.parse(at("overview").textContent);
let saved = told.saved;

/** The sentence: what they do, what is saved, and at what price. @param {Now} now */
function showSentence({ servers, now_s }) {
	if (!servers.length) return;
	const parts = [doing(servers, now_s), ...(saved ? [amount(saved), ...promise(saved)] : [])];
	say(at("sentence"), parts.join(" "));
}

/** @param {Server[]} servers @param {number} now_s */
function doing(servers, now_s) {
	if (servers.length === 1) {
		const [{ state, since_s }] = servers;
		return t(`now.say.${STATES.includes(state) ? state : "unknown"}`, {
			time: when(since_s, now_s),
		});
	}
	const states = STATES.map((state) => ({
		state,
		count: servers.filter((each) => each.state === state).length,
	}));
	const words = states
		.filter(({ count }) => count)
		.map(({ state, count }) => t(`now.many.${state}`, { number: number(count) }));
	return t("now.say_many", { number: number(servers.length), states: words.join(", ") });
}

/** @param {Sums} sums */
function amount({ kind, net_j, money: worth }) {
	if (kind === "none") return t("now.saved_none");
	const shown = worth === null ? energy(Math.abs(net_j)) : money(Math.abs(worth));
	const lost = (worth ?? net_j) < 0;
	return t(lost ? `now.lost.${kind}` : `now.saved.${kind}`, { amount: shown });
}

/** @param {Sums} sums */
function promise({ promises }) {
	const asked = promises.filter((each) => each.requests);
	const broken = asked.filter((each) => each.delayed > each.allowed);
	if (!asked.length) return [];
	if (!broken.length) return [t("now.promise_kept")];
	const [{ delayed, requests, allowed }] = broken;
	if (promises.length > 1)
		return [
			t("now.promise_broken_of", { servers: broken.map((each) => each.server).join(", ") }),
		];
	const numbers = { delayed: number(delayed), all: number(requests), allowed: number(allowed) };
	return [t("now.promise_broken", numbers)];
}

// What is saved

/** @param {string} label @param {Sums["month"] | undefined} of @param {string} note */
function figure(label, of, note, about = false) {
	const value = of ? (of.money === null ? energy(of.net_j) : money(of.money)) : "–";
	const more = of && of.money !== null ? `${energy(of.net_j)}, ${note}` : note;
	return h(
		`div.stat${of && about ? ".estimated" : ""}`,
		h("span.stat-label", label),
		h("span.stat-value", value),
		h("span.stat-note", more),
	);
}

function showSums() {
	const known = saved && saved.kind !== "none" ? saved : undefined;
	const expected = saved?.forecast;
	const rests = expected
		? t("now.rests", { count: expected.days })
		: (saved?.no_forecast ?? "\u00a0");
	fill(
		at("sums"),
		figure(t("now.sum_month"), known, t(known ? `now.kind.${known.kind}` : "now.kind.none")),
		figure(t("now.sum_expected"), expected?.month, rests, true),
		figure(t("now.sum_year"), expected?.year, rests, true),
	);
}

// What is still to do

/** @param {Todo[]} lines */
function showTodo(lines) {
	const open = lines.filter((each) => !each.done && !each.dismissed);
	const done = lines.filter((each) => each.done);
	at("todo").hidden = !open.length;
	const all_ = open.length + done.length;
	say(at("todo-count"), t("now.todo_count", { done: number(done.length), all: number(all_) }));
	fill(at("todo-lines"), open.map(line));
	at("todo-done").hidden = !done.length;
	say(one("summary", at("todo-done")), t("now.todo_done", { count: done.length }));
	fill(
		one("ul", at("todo-done")),
		done.map(({ words }) => h("li.soft", icon("circle-check"), h("span", words))),
	);
}

/** @param {Todo} todo */
function line({ name, words, server }) {
	const href = PLACES[name]?.(server);
	const label = `${t("now.todo_dismiss")}: ${words}`;
	const dismiss = button(".quiet.icon-only", icon("x"), () => setDismissed(name, true), {
		"aria-label": label,
		title: t("now.todo_dismiss"),
	});
	return h(
		"li",
		icon("arrow-right"),
		h("span", mayChange && href ? h("a", { href }, words) : words),
		mayChange && dismiss,
	);
}

/** @param {string} name @param {boolean} dismissed */
async function setDismissed(name, dismissed) {
	const { refused, toast } = await import("../kit/dialog.js");
	try {
		const said = await post(`/api/now/checklist/${name}`, { dismissed });
		showTodo(said.lines);
		const undo = { words: t("now.todo_undo"), press: () => setDismissed(name, false) };
		if (dismissed) toast(t("now.todo_dismissed"), "good", undo);
	} catch (error) {
		refused(error);
	}
}

/** @param {() => void} changed is told when the sentence is another one */
function follow(changed) {
	showSums();
	showTodo(told.lines);
	if (!one("#servers .server")) return;
	const ask = async () => {
		if (document.hidden) return;
		const [sums, list] = await Promise.all([
			get("/api/now/overview", undefined, { timeout_ms: 60_000 }),
			get("/api/now/checklist"),
		]).catch(() => []);
		if (!sums || !list) return;
		saved = sums;
		showSums();
		showTodo(list.lines);
		changed();
	};
	if (!saved) ask();
	setInterval(ask, SUMS_EVERY_MS);
	at("log").addEventListener("toggle", async () => {
		if (!at("log").open) return;
		const { showLog } = await import("./now-log.js");
		showLog(at("log"), at("log-body"));
	});
}

// The page

const EVERY_S = 1;
const PATIENCE = 2;
const servers = at("servers");
const stale = at("stale");
const given = at("now");
const live_s = Number(given.dataset.liveS);
/** @type {Map<string, Card>} */
const cards = new Map();
/** @type {number | null} */
let last_s = null;
/** @type {Now | null} */
let newest = null;
let failed = 0;

/** @param {Server} server @param {number} now_s */
function engineWords({ engines }, now_s) {
	return engines
		.filter((each) => each.refused_since_s !== null || each.let_in_s !== null)
		.map(({ name, refused_since_s, let_in_s }) =>
			refused_since_s === null
				? t("now.engine_let_in", { name, since: when(let_in_s ?? 0, now_s) })
				: t("now.engine_refused", { name, since: when(refused_since_s, now_s) }),
		);
}

/** What is wrong with a server, in words. @param {Server} server */
function wrongOf({ alert, past, around, serves, power, calendar }) {
	return [
		alert,
		past,
		around ? t("now.around", { count: around }) : null,
		serves.length ? t("now.serves", { names: serves.join("; ") }) : null,
		power?.problem
			? t("now.meter_problem", { meter: power.meter, words: power.problem })
			: null,
		calendar?.problem,
	].filter((words) => typeof words === "string");
}

/** Whether somebody opened or closed it on this tab; undefined: nobody did. @param {string} name */
function readOpen(name) {
	const kept = sessionStorage.getItem(`now-open-${name}`);
	return kept === null ? undefined : kept === "1";
}

/** @param {string} name @param {boolean} open */
const keepOpen = (name, open) => sessionStorage.setItem(`now-open-${name}`, open ? "1" : "0");

/** What there is to say of HTTPS of a server. @param {Server} server */
function httpsOf({ past, around }) {
	const words = [past, around ? t("now.around", { count: around }) : null].filter(Boolean);
	return words.length ? [{ kind: past ? "warn" : "info", words: words.join(" ") }] : [];
}

/** @param {HTMLElement} place @param {{ kind: string, words: string }[]} said */
function showHttps(place, said) {
	if (!hasNewContent(place, said)) return;
	const link = () => h("a", { href: "/settings/https" }, t("now.https_link"));
	fill(
		place,
		said.map(({ kind, words }) => notice(kind, h("p", words), h("p", link()))),
	);
	place.hidden = !said.length;
}

/** @param {Now} said */
function show(said) {
	failed = 0;
	one("#first")?.remove();
	showBox(said);
	showHttps(at("https"), said.https);
	if (!said.controller) return old();
	last_s = said.now_s;
	newest = said;
	stale.hidden = true;
	showSentence(said);
	at("sums").hidden = at("log").hidden = !said.servers.length;
	if (!said.servers.length) return nobody();
	for (const each of all(":scope > :not(.server)", servers)) each.remove();
	const ids = new Set(said.servers.map((each) => each.id));
	for (const [id, card] of cards) {
		if (ids.has(id)) continue;
		card.remove();
		cards.delete(id);
	}
	for (const server of said.servers) {
		const open = said.servers.length === 1;
		const card = cards.get(server.id) ?? new Card(servers, server.id, live_s, asking, open);
		cards.set(server.id, card);
		card.show(server, said.now_s);
	}
}

function nobody() {
	for (const card of cards.values()) card.remove();
	cards.clear();
	if (!one(".empty", servers)) servers.replaceChildren(at("no-server").content.cloneNode(true));
}

/** What is shown is not live any more; it stays, with the time it is from. */
function old() {
	stale.hidden = last_s === null;
	if (last_s !== null) say(stale, t("now.gone", { time: clockS(last_s) }));
	else servers.replaceChildren();
	for (const card of cards.values()) card.old();
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

/** @type {ReturnType<typeof poll> | undefined} */
let ask;
const asking = { again: () => ask?.again() };
show(JSON.parse(given.textContent));
follow(() => newest && showSentence(newest));
const begin = () => {
	ask = poll("/api/now", { every_s: EVERY_S, query: since, data: show, error: lost });
};
setTimeout(begin, last_s === null ? 0 : EVERY_S * 500);
