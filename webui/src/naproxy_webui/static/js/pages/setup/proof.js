// /setup/proof: the server sleeps and wakes several times, and everybody can watch.

import { ApiError, del, get, h, icon, poll, post, say, STATE_ICONS, t } from "../../kit/core.js";
import { confirm } from "../../kit/dialog.js";
import { clearErrors, onPress, showErrors, values } from "../../kit/form.js";
import { duration, watts } from "../../kit/format.js";
import { about, again, fill, notice, onward, refused } from "./flow.js";

const $ = (id) => document.getElementById(id);
const EVERY_S = 0.5;
/** One lost answer is no news. */
const PATIENCE = 2;
/** What the phases are called by the box -> by us. */
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

let stop = null;
let failed = 0;
let shownCycles = -1;

function plan() {
	const { cycles, pause_s } = values($("plan"));
	return { cycles: cycles ?? 5, pause_s: pause_s ?? 15 };
}

const takes = ({ cycles, pause_s }) =>
	Array.from({ length: cycles }, (_, i) => WHILES[i % WHILES.length]).reduce(
		(sum, [a, b]) => sum + (a + b) * pause_s + SWITCH_S,
		0,
	);

function estimate() {
	const wanted = plan();
	const known =
		Number.isInteger(wanted.cycles) && wanted.cycles <= 50 && Number(wanted.pause_s) > 0;
	say($("takes"), known ? t("setup.proof.takes", { time: duration(takes(wanted)) }) : "");
}

function badge(state) {
	const place = $("state");
	if (place.dataset.state === state && place.firstChild) return;
	place.dataset.state = state;
	fill(
		place,
		icon(STATE_ICONS[state] ?? "circle-help"),
		document.createTextNode(t(`kit.state.${state}`)),
	);
}

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
				? ` ${t("setup.proof.cycle_watts", { asleep: watts(each.asleep_w), awake: watts(each.awake_w) })}`
				: "",
		),
	);

function running({ report, server, why }) {
	$("live").hidden = false;
	$("before").hidden = true;
	fill($("result"));
	badge(server.state);
	const phase = t(`setup.proof.phase_${PHASES[report.phase]}`);
	say(
		$("phase"),
		t("setup.proof.in_cycle", {
			cycle: Math.min(report.cycle, report.cycles),
			cycles: report.cycles,
			phase,
		}),
	);
	say($("phase-s"), t("setup.proof.seconds", { seconds: Math.round(report.phase_s) }));
	say($("why"), report.phase === "preparing" ? why : "");
	const part =
		["preparing", "falling asleep", "asleep", "waking", "awake"].indexOf(report.phase) / 5;
	Object.assign($("bar"), { max: report.cycles, value: report.done.length + Math.max(0, part) });
	if (report.done.length !== shownCycles) {
		shownCycles = report.done.length;
		fill($("cycles-list"), report.done.map(cycle));
	}
}

const mean = (list) => list.reduce((sum, each) => sum + each, 0) / list.length;

function powers({ power: { measured, in_force, given }, report }) {
	const metered = report.done.some((each) => each.energy_j !== null);
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
	const use = h(
		"button.button",
		{ type: "button", "aria-describedby": "so-far" },
		icon("zap"),
		t(replace ? "setup.proof.use_instead" : "setup.proof.use"),
	);
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

/** Show what is reckoned with now: refused or not, it may be another than was shown. */
async function showPowers() {
	$("power").replaceWith(powers(await get("/api/setup/proof", about())) ?? "");
	$("power")?.querySelector("button, #used")?.focus();
}

function proved(said) {
	const { report } = said;
	const rose = report.done.map((each) => each.rose_s);
	const words = {
		times: report.done.length,
		cycles: report.cycles,
		mean: duration(mean(rose)),
		worst: duration(Math.max(...rose)),
	};
	fill(
		$("result"),
		notice(
			"good",
			h("p", h("b", t("setup.proof.woke", words))),
			h("p", t("setup.proof.visitors_wait", words)),
		),
		powers(said),
		h(
			"details.details.plain",
			h("summary", t("setup.proof.each")),
			h("ol.setup-cycles", report.done.map(cycle)),
		),
	);
}

function notProved({ report, server, why }) {
	const words =
		report.phase === "cancelled" ? t("setup.proof.cancelled") : t("setup.proof.failed");
	fill(
		$("result"),
		notice(
			report.phase === "cancelled" ? "info" : "bad",
			h("p", h("b", words)),
			report.phase !== "cancelled" && h("p", why),
			report.phase !== "cancelled" && h("p", t("setup.proof.failed_do")),
			server.alert && !why.includes(server.alert) && h("p", server.alert),
		),
		h(
			"div.row",
			h(
				"a.button",
				{
					href: again
						? `/setup/again/sleep?${new URLSearchParams(about())}`
						: "/setup/sleep",
				},
				t("setup.proof.to_check"),
			),
		),
	);
}

function ended(said) {
	$("live").hidden = true;
	$("before").hidden = said.server.armed;
	if (said.report?.armed && said.server.armed) proved(said);
	else if (said.server.armed)
		fill($("result"), notice("good", h("p", t("setup.proof.armed_before"))));
	else if (said.report) notProved(said);
	else fill($("result"));
	if (said.server.armed) {
		const once = h(
			"button.button.small",
			{ type: "button" },
			icon("rotate-ccw"),
			t("setup.proof.once_more"),
		);
		once.addEventListener("click", () => {
			$("before").hidden = false;
			once.remove();
		});
		$("result").append(h("div.row", once));
	}
	const forward = $("forward");
	forward.classList.toggle("primary", said.server.armed);
	if (!again) say(forward, t(said.server.armed ? "setup.next" : "setup.proof.later"));
}

function show(said) {
	failed = 0;
	fill($("lost"));
	if (said.report && said.report.ended === false) running(said);
	else {
		stop();
		ended(said);
	}
}

function lost(problem) {
	failed += 1;
	if (failed === PATIENCE)
		fill(
			$("lost"),
			notice("warn", h("p.strong", problem.message), h("p", t("setup.proof.lost"))),
		);
}

/** Watch it to its end. Resolves when there was an answer, or none. */
const watch = () =>
	new Promise((resolve) => {
		stop?.();
		stop = poll("/api/setup/proof", {
			every_s: EVERY_S,
			query: () => about(),
			data: (said) => (show(said), resolve()),
			error: (problem) => (lost(problem), resolve()),
		});
	});

async function begin() {
	try {
		await post("/api/setup/proof", about(plan()));
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		if (!(error.where in plan())) throw error;
		$("plan").closest("details").open = true;
		showErrors($("plan"), error);
		return;
	}
	clearErrors($("plan"));
	shownCycles = -1;
	await watch();
}

onPress($("forward"), onward);
if ($("plan")) {
	$("plan").addEventListener("input", estimate);
	$("plan").addEventListener("submit", (event) => event.preventDefault());
	onPress($("begin"), begin);
	onPress($("end"), async () => {
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
			const link = h(
				"a",
				{
					href: again
						? `/setup/again/sleep?${new URLSearchParams(about())}`
						: "/setup/sleep",
				},
				t("setup.proof.to_check"),
			);
			fill($("unchecked"), notice("warn", h("p", t("setup.proof.unchecked")), h("p", link)));
		})
		.catch(refused);
}
