// The week as a grid of hours: with the mouse, the keyboard, or as text; all three are one thing.

import { announce } from "../../kit/dialog.js";
import { along, ApiError, button, get, h, icon, one, refusal, t } from "../../kit/core.js";
import { weekday } from "../../kit/format.js";
import { asLines, clock, DAYS, hoursInWords, painted, perDay, readLines } from "./hours.js";
import { pending, times } from "./times.js";
import { linesOf, put } from "./values.js";

const HOURS = [...Array(24).keys()];

/** @param {HTMLElement} card */
export function week(card) {
	const text = one(`textarea[data-where="${card.dataset.week}"]`, card);
	/** @type {Map<string, HTMLElement>} */
	const cells = new Map();
	const state = () => {
		const { spans, wrong } = readLines(linesOf(text.value));
		const dates = linesOf(text.value).filter((line) => /^\d{4}-/.test(line));
		return { days: perDay(spans), dates, wrong };
	};
	const grid = h(
		"table.week",
		{ role: "grid", "aria-label": one("h2", card).textContent },
		head(),
		h(
			"tbody",
			DAYS.map((_, day) =>
				h(
					"tr",
					{ role: "row" },
					h("th", { scope: "row", role: "rowheader" }, weekday(day)),
					HOURS.map((hour) => {
						const cell = h("td", {
							role: "gridcell",
							tabindex: day || hour ? "-1" : "0",
							"data-day": day,
							"data-hour": hour,
						});
						cells.set(`${day} ${hour}`, cell);
						return cell;
					}),
				),
			),
		),
	);
	const wrap = h("div.week-wrap", grid);
	one("[data-week-grid]", card).append(wrap, h("p.hint", t("settings.week.keys")));
	adder(card, text);
	const propose = one("[data-week-propose]", card);
	if (propose) proposal(propose, text);

	const show = () => {
		const { days } = state();
		for (const [key, cell] of cells) {
			const [day, hour] = key.split(" ").map(Number);
			const from = hour * 60;
			const minutes = days[day].reduce(
				(sum, [a, b]) => sum + Math.max(0, Math.min(b, from + 60) - Math.max(a, from)),
				0,
			);
			const part = minutes === 60 ? "on" : minutes ? "part" : "off";
			if (cell.dataset.part === part) continue;
			cell.dataset.part = part;
			cell.setAttribute("aria-selected", part === "on" ? "true" : "false");
			cell.setAttribute(
				"aria-label",
				t(`settings.week.cell_${part}`, {
					day: weekday(day, "long"),
					from: clock(from),
					to: clock(from + 60),
				}),
			);
		}
	};
	/** @param {number} day @param {number} hour @param {boolean} on */
	const paint = (day, hour, on) => {
		const { days, dates } = state();
		days[day] = painted(days[day], hour * 60, hour * 60 + 60, on);
		put(text, asLines(days, dates));
	};
	pointer(grid, paint);
	keyboard(grid, cells, paint);
	text.addEventListener("input", show);
	show();
	// On a telephone the night is scrolled away; elsewhere hardly anything is out of sight.
	const [midnight, morning] = [cells.get("0 0"), cells.get("0 6")];
	if (!midnight || !morning) return;
	const night = morning.offsetLeft - midnight.offsetLeft;
	if (wrap.scrollWidth - wrap.clientWidth > night) wrap.scrollLeft = night;
}

const head = () =>
	h(
		"thead",
		h(
			"tr",
			{ role: "row" },
			h("td", { role: "presentation" }),
			HOURS.map((hour) =>
				h(
					"th",
					{ scope: "col", role: "columnheader" },
					hour % 3 ? h("span.visually-hidden", String(hour)) : String(hour),
				),
			),
		),
	);
/** @param {HTMLElement} cell @returns {[number, number]} */
const place = (cell) => [Number(cell.dataset.day), Number(cell.dataset.hour)];
/** @param {EventTarget | null} target */
const cellOf = (target) =>
	/** @type {HTMLElement | null} */ (
		target instanceof Element ? target.closest("td[data-hour]") : null
	);

/** @param {HTMLElement} grid @param {(day: number, hour: number, on: boolean) => void} paint */
function pointer(grid, paint) {
	/** @type {boolean | null} */
	let on = null;
	/** @param {Element | null} target */
	const over = (target) => {
		const cell = cellOf(target);
		if (cell && on !== null && grid.contains(cell) && (cell.dataset.part === "on") !== on)
			paint(...place(cell), on);
	};
	grid.addEventListener("pointerdown", (event) => {
		const cell = cellOf(event.target);
		if (!cell || event.button || grid.hasAttribute("aria-disabled")) return;
		on = cell.dataset.part !== "on";
		if (event.pointerType === "mouse") event.preventDefault();
		cell.focus();
		over(cell);
		if (event.pointerType !== "mouse") on = null;
	});
	grid.addEventListener("pointermove", (event) =>
		over(document.elementFromPoint(event.clientX, event.clientY)),
	);
	for (const kind of ["pointerup", "pointercancel"])
		window.addEventListener(kind, () => {
			on = null;
		});
}

/**
 * @param {HTMLElement} grid @param {Map<string, HTMLElement>} cells
 * @param {(day: number, hour: number, on: boolean) => void} paint
 */
function keyboard(grid, cells, paint) {
	/** @param {HTMLElement} cell @param {number} day @param {number} hour */
	const move = (cell, day, hour) => {
		const next = cells.get(`${day} ${hour}`);
		if (!next) return null;
		cell.tabIndex = -1;
		next.tabIndex = 0;
		next.focus();
		return next;
	};
	grid.addEventListener("keydown", (event) => {
		const cell = cellOf(event.target);
		if (!cell || grid.hasAttribute("aria-disabled")) return;
		const [day, hour] = place(cell);
		/** @type {Record<string, [number, number]>} */
		const keys = {
			ArrowLeft: [day, hour - 1],
			ArrowRight: [day, hour + 1],
			ArrowUp: [day - 1, hour],
			ArrowDown: [day + 1, hour],
			Home: [day, 0],
			End: [day, 23],
		};
		const to = keys[along(event.key)];
		if (to) {
			const on = cell.dataset.part === "on";
			const next = move(cell, ...to);
			if (next && event.shiftKey) paint(...to, on);
		} else if (event.key === " " || event.key === "Enter") {
			paint(day, hour, cell.dataset.part !== "on");
			announce(cell.getAttribute("aria-label") ?? "");
		} else return;
		event.preventDefault();
	});
}

/**
 * The hours proposed from people's habits: shown in words, and filled in on request.
 * @param {HTMLElement} place @param {Field} text
 */
function proposal(place, text) {
	const words = h("p", { role: "status" });
	const ask = button(".small.quiet", [icon("calendar"), t("settings.week.propose")], async () => {
		const query = { server: place.dataset.weekPropose ?? "" };
		const said = await get("/api/settings/hours", query).catch(refusal);
		if (said instanceof ApiError) {
			words.textContent = said.message;
			return;
		}
		const { weeks } = said;
		const days = /** @type {Minutes[][] | null} */ (said.days);
		const spans = readLines(asLines(days ?? [], [])).spans;
		words.textContent = !days
			? t("settings.week.proposed_always")
			: spans.length
				? t("settings.week.proposed", { hours: hoursInWords(spans) })
				: t("settings.week.proposed_none", { weeks });
		take.hidden = !spans.length;
		take.onclick = () => {
			const { spans: own } = readLines(linesOf(text.value));
			const dates = linesOf(text.value).filter((line) => /^\d{4}-/.test(line));
			put(text, asLines(perDay([...own.filter((each) => !each.date), ...spans]), dates));
			take.hidden = true;
		};
	});
	const take = button(".small", [icon("check"), t("settings.week.take")]);
	take.hidden = true;
	place.append(ask, words, take);
}

/** Exact times: days, from, to. @param {HTMLElement} card @param {Field} text */
function adder(card, text) {
	const { parts, from, to, days } = times(text.id, { ticked: 5, from: "08:00", to: "18:00" });
	const take = () => {
		const { spans } = readLines(linesOf(text.value));
		const on = days();
		const complete = on.length && from.value && to.value && from.value !== to.value;
		problem.textContent = complete ? "" : t("settings.week.incomplete");
		if (!complete) {
			(from.value ? to : from).focus();
			return false;
		}
		const [begin, end] = [from.value, to.value].map(
			(each) => Number(each.slice(0, 2)) * 60 + Number(each.slice(3)),
		);
		const added = { days: on, date: null, begin, end: end > begin ? end : end + 1440 };
		const dates = linesOf(text.value).filter((line) => /^\d{4}-/.test(line));
		put(text, asLines(perDay([...spans.filter((each) => !each.date), added]), dates));
		return true;
	};
	const place = one("[data-week-add]", card);
	const problem = h("p.error", { role: "alert" });
	const add = button(".small", [icon("plus"), t("settings.week.add")], pending(place, take));
	const clear = button(".small.quiet", [icon("trash-2"), t("settings.week.clear")], () =>
		put(text, []),
	);
	place.append(...parts, add, clear, problem);
}
