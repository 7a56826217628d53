// /setup/proof: the server sleeps and wakes several times, and everybody can watch.

import {
	at,
	button,
	del,
	fill,
	get,
	h,
	icon,
	notice,
	one,
	poll,
	post,
	refusal,
	say,
	stateParts,
	t,
} from "../../kit/core.js";
import { confirm, refused } from "../../kit/dialog.js";
import { clearErrors, onPress, showErrors, values } from "../../kit/form.js";
import { copier } from "../../kit/copy.js";
import { dateTime, duration, watts } from "../../kit/format.js";
import { stageBar, whole } from "../../kit/stages.js";
import { about, again, onward } from "./flow.js";

const EVERY_S = 0.5;
/** Lost answers before it is reported. */
const PATIENCE = 2;
/** The names of the phases: the box's -> ours. */
/** @type {Record<string, string>} */
const PHASES = {
	preparing: "preparing",
	"falling asleep": "falling",
	asleep: "asleep",
	waking: "waking",
	awake: "awake",
};
/** As naproxy.commissioning has it: how often the shortest pause, awake and asleep, in turn. */
const WHILES = [
	[1, 1],
	[5, 1],
	[1, 5],
	[5, 5],
	[3, 3],
];
const SWITCH_S = 15;

/** @type {ReturnType<typeof poll> | undefined} */
let stop;
let failed = 0;
let shownCycles = -1;

function plan() {
	const { cycles, pause_s } = values(at("plan"));
	return { cycles: cycles ?? 5, pause_s: pause_s ?? 15 };
}

/** @param {{ cycles: number, pause_s: number }} plan */
const takes = ({ cycles, pause_s }) =>
	Array.from({ length: cycles }, (_, i) => WHILES[i % WHILES.length]).reduce(
		(sum, [a, b]) => sum + (a + b) * pause_s + SWITCH_S,
		0,
	);

/** Do visitors come through the box? Until an answer comes nobody is warned. */
let waits = false;

function estimate() {
	const wanted = plan();
	const known =
		Number.isInteger(wanted.cycles) &&
		wanted.cycles > 0 &&
		wanted.cycles <= 50 &&
		Number(wanted.pause_s) > 0;
	say(at("takes"), known ? t("setup.proof.takes", { time: duration(takes(wanted)) }) : "");
	fill(at("direct"), waits && known ? toDirect(wanted) : null);
}

/** The effect on direct visitors. @param {{ cycles: number, pause_s: number }} plan */
function toDirect({ cycles, pause_s }) {
	const asleep = Array.from({ length: cycles }, (_, i) => WHILES[i % WHILES.length][1] * pause_s);
	const words = t("setup.proof.direct", {
		cycles,
		longest: duration(Math.max(...asleep)),
		all: duration(asleep.reduce((sum, each) => sum + each, 0)),
	});
	return notice("warn", h("p", words), h("p", toLive(t("setup.proof.direct_do"))));
}

/** A link to the step of the visitors. @param {string} words */
function toLive(words) {
	const href = again ? `/setup/again/live?${new URLSearchParams(about())}` : "/setup/live";
	return h("a", { href }, words);
}

/** @param {string} state */
function badge(state) {
	const place = at("state");
	if (place.dataset.state === state && place.firstChild) return;
	place.dataset.state = state;
	fill(place, stateParts(state));
}

/** @param {Loose} each */
const cycle = (each) =>
	h(
		"li",
		icon("circle-check"),
		h(
			"span",
			t("setup.proof.cycle", {
				number: each.number,
				fell: duration(each.fell_s),
				rose: duration(each.rose_s),
			}),
			each.asleep_w !== null && each.awake_w !== null
				? ` ${t("setup.proof.cycle_watts", {
						asleep: watts(each.asleep_w),
						awake: watts(each.awake_w),
					})}`
				: "",
		),
	);

/** @param {Proof} said */
function running({ report, server, why }) {
	at("live").hidden = false;
	at("before").hidden = true;
	fill(at("result"));
	badge(server.state);
	const phase = t(`setup.proof.phase_${PHASES[report.phase]}`);
	say(
		at("phase"),
		t("setup.proof.in_cycle", {
			cycle: Math.min(report.cycle, report.cycles),
			cycles: report.cycles,
			phase,
		}),
	);
	say(at("phase-s"), t("setup.proof.seconds", { seconds: Math.round(report.phase_s) }));
	say(at("why"), report.phase === "preparing" ? why : "");
	const part =
		["preparing", "falling asleep", "asleep", "waking", "awake"].indexOf(report.phase) / 5;
	Object.assign(at("bar"), { max: report.cycles, value: report.done.length + Math.max(0, part) });
	if (report.done.length !== shownCycles) {
		shownCycles = report.done.length;
		fill(at("cycles-list"), report.done.map(cycle));
	}
}

/** @param {number[]} list */
const mean = (list) => list.reduce((sum, each) => sum + each, 0) / list.length;

/** @param {Proof} said */
function powers({ power: { measured, in_force, given }, report }) {
	const metered = report.done.some((/** @type {Loose} */ each) => each.energy_j !== null);
	if (!measured) return metered ? h("p.small.soft", t("setup.proof.no_power")) : null;
	const found = h(
		"p",
		t("setup.proof.power", {
			on: watts(measured.on_w),
			off: watts(measured.off_w),
			on_low: watts(report.fit.on_w.low),
			on_high: watts(report.fit.on_w.high),
		}),
	);
	const same = Object.keys(measured).every((key) => measured[key] === in_force[key]);
	if (same)
		return h(
			"div.stack.tight",
			{ id: "power" },
			found,
			h("p.small.soft", { id: "used", tabindex: "-1" }, t("setup.proof.used")),
		);
	const replace = Object.keys(given).some((key) => given[key] !== measured[key]);
	const so_far = t(replace ? "setup.proof.power_set" : "setup.proof.power_standard", {
		on: watts(in_force.on_w),
		off: watts(in_force.off_w),
	});
	const words = [icon("zap"), t(replace ? "setup.proof.use_instead" : "setup.proof.use")];
	const use = button("", words, null, { "aria-describedby": "so-far" });
	onPress(use, async () => {
		try {
			await post("/api/setup/power", about({ replace }));
		} finally {
			await showPowers();
		}
	});
	return h(
		"div.stack.tight",
		{ id: "power" },
		found,
		h("p.small.soft", { id: "so-far" }, so_far),
		h("div.row", use),
	);
}

/** Show the powers in use now: after a refusal, too, they may differ from those shown. */
async function showPowers() {
	at("power").replaceWith(powers(await get("/api/setup/proof", about())) ?? "");
	one("#power :is(button, #used)")?.focus();
}

/** @param {Proof} said */
function proved(said) {
	const { report, server } = said;
	const rose = report.done.map((/** @type {Loose} */ each) => each.rose_s);
	const words = {
		times: report.done.length,
		cycles: report.cycles,
		mean: duration(mean(rose)),
		worst: duration(Math.max(...rose)),
	};
	fill(
		at("result"),
		notice(
			"good",
			h("p", h("b", t("setup.proof.woke", words))),
			h("p", t("setup.proof.visitors_wait", words)),
			server.armed && h("p", t("setup.proof.may_sleep")),
		),
		!server.armed &&
			notice("warn", h("p", server.not_armed), h("p", toLive(t("setup.proof.to_live")))),
		powers(said),
		h(
			"details.details.plain",
			h("summary", t("setup.proof.each")),
			h("ol.setup-cycles", report.done.map(cycle)),
		),
	);
}

/** The stages of a wake, before and now, and advice to shorten it. @param {Proof} said */
function anatomy({ wake }) {
	const { stages, before, last, advice } = wake;
	const last_stages = last?.stages ?? [];
	if (!stages.length && !last_stages.length) return null;
	const longest_s = Math.max(...[stages, before, last_stages].map(whole));
	return h(
		"section.stack.tight",
		{ id: "anatomy" },
		h("h2", t("setup.proof.anatomy")),
		before.length > 0 && stageBar(t("setup.proof.anatomy_before"), before, longest_s),
		stages.length > 0 && stageBar(t("setup.proof.anatomy_now"), stages, longest_s),
		last &&
			stageBar(
				t("setup.proof.anatomy_last", { when: dateTime(last.t_s) }),
				last.stages,
				longest_s,
			),
		advice.map(({ words, commands }) =>
			h(
				"details.details.plain.gain",
				h("summary", words),
				commands.length > 0 && [
					h("pre", commands.join("\n")),
					h("div.row", copier(commands.join("\n"))),
				],
			),
		),
		advice.length > 0 && h("p.small.soft", t("setup.proof.anatomy_again")),
	);
}

/** The way to the check of the server. @param {"a" | "a.button"} what */
function toCheck(what) {
	const href = again ? `/setup/again/sleep?${new URLSearchParams(about())}` : "/setup/sleep";
	return h(what, { href }, t("setup.proof.to_check"));
}

/** @param {Proof} said */
function notProved({ report, server, why }) {
	const cancelled = report.phase === "cancelled";
	const words = t(cancelled ? "setup.proof.cancelled" : "setup.proof.failed");
	fill(
		at("result"),
		notice(
			cancelled ? "info" : "bad",
			h("p", h("b", words)),
			!cancelled && [h("p", why), h("p", t("setup.proof.failed_do"))],
			server.alert && !why.includes(server.alert) && h("p", server.alert),
		),
		h("div.row", toCheck("a.button")),
	);
}

/** @param {Proof} said */
function ended(said) {
	at("live").hidden = true;
	const { armed, not_armed } = said.server;
	const passed = Boolean(said.report?.passed);
	const done = armed || (passed && not_armed === said.live.waits);
	at("before").hidden = done;
	if (done && passed) proved(said);
	else if (armed) fill(at("result"), notice("good", h("p", t("setup.proof.armed_before"))));
	else if (passed) fill(at("result"), notice("warn", h("p", not_armed)));
	else if (said.report) notProved(said);
	else fill(at("result"));
	at("result").append(anatomy(said) ?? "");
	if (done) {
		const words = [icon("rotate-ccw"), t("setup.proof.once_more")];
		const once = button(".small", words, () => {
			at("before").hidden = false;
			once.remove();
		});
		at("result").append(h("div.row", once));
	}
	const forward = at("forward");
	forward.classList.toggle("primary", done);
	if (!again) say(forward, t(done ? "setup.next" : "setup.proof.later"));
}

/** @param {Proof} said */
function show(said) {
	failed = 0;
	fill(at("lost"));
	if (waits !== Boolean(said.live.waits)) {
		waits = !waits;
		estimate();
	}
	if (said.report && said.report.ended === false) running(said);
	else {
		stop?.();
		ended(said);
	}
}

/** @param {import("../../kit/core.js").ApiError} problem */
function lost(problem) {
	failed += 1;
	if (failed === PATIENCE)
		fill(
			at("lost"),
			notice("warn", h("p.strong", problem.message), h("p", t("setup.proof.lost"))),
		);
}

/** Watch it to its end. Resolves when there was an answer, or none. @returns {Promise<void>} */
const watch = () =>
	new Promise((resolve) => {
		stop?.();
		stop = poll("/api/setup/proof", {
			every_s: EVERY_S,
			query: () => about(),
			data: (said) => resolve(show(said)),
			error: (problem) => resolve(lost(problem)),
		});
	});

async function begin() {
	try {
		await post("/api/setup/proof", about(plan()));
	} catch (error) {
		const { where } = refusal(error);
		if (!where || !(where in plan())) throw error;
		const details = at("plan").closest("details");
		if (details) details.open = true;
		showErrors(at("plan"), error);
		return;
	}
	clearErrors(at("plan"));
	shownCycles = -1;
	await watch();
}

onPress(at("forward"), onward);
if (at("plan")) {
	at("plan").addEventListener("input", estimate);
	at("plan").addEventListener("submit", (event) => event.preventDefault());
	onPress(at("begin"), begin);
	onPress(at("end"), async () => {
		if (
			await confirm({
				title: t("setup.proof.end_title"),
				text: t("setup.proof.end_words"),
				yes: t("setup.proof.end"),
			})
		) {
			await del(`/api/setup/proof?${new URLSearchParams(about())}`);
			await watch();
		}
	});
	estimate();
	watch();
	get("/api/setup/check", about())
		.then(({ result }) => {
			if (result?.problems === 0) return;
			const words = h("p", t("setup.proof.unchecked"));
			fill(at("unchecked"), notice("warn", words, h("p", toCheck("a"))));
		})
		.catch(refused);
}
