// The strip of states under the chart. One stop of the tab key; arrow keys go along it.

import { h, s, t } from "../../kit/core.js";
import { clockS, date, day, duration, share, watts } from "../../kit/format.js";
import { stateBadge, stateWords, wakeLine } from "./words.js";

const HIGH = 40,
	NEAR_PX = 3,
	LEAST_SHARE = 0.005;
/** @type {Record<string, string>} */
const LINES = {
	asleep: "M0 8L8 0",
	waking: "M0 0L8 8",
	falling_asleep: "M0 0L8 8",
	trouble: "M0 0L8 8M0 8L8 0",
	unknown: "M0 0L8 8M0 8L8 0",
};
const ORDER = ["asleep", "falling_asleep", "waking", "awake", "trouble", "unknown"];

/** @param {string} state */
function pattern(state) {
	const made = s("pattern", {
		id: `pattern-${state}`,
		width: 8,
		height: 8,
		patternUnits: "userSpaceOnUse",
	});
	made.append(
		s("rect", { width: 8, height: 8, class: `fill-${state} light` }),
		s("path", { d: LINES[state], class: `pattern-line line-${state}` }),
	);
	return made;
}

/** @param {string} state */
export const known = (state) => (ORDER.includes(state) ? state : "unknown");

export class Band {
	/** @type {Piece[]} */
	pieces = [];
	/** @type {SVGElement[]} */
	nodes = [];
	/** @type {Told["zoom"]} */
	zoom = () => {};
	at = -1;
	from_s = 0;
	to_s = 0;
	until_s = 0;
	scale = 1;
	mark = s("rect");

	/** The meters of the server. @type {Meter[]} */
	meters = [];

	/**
	 * `area()` is the chart's area; the strip has the same left and right edges.
	 * @param {HTMLElement} place @param {() => { left: number, right: number } | undefined} area
	 * @param {{ scale: (factor: number, around_s: number) => void, back: () => void }} does
	 */
	constructor(place, area, does) {
		this.area = area;
		this.does = does;
		this.svg = s("svg", { class: "strip", tabindex: "0", role: "listbox", height: HIGH });
		this.words = h("div.band-words");
		this.hint = h("p.hint");
		this.legend = h("ul.legend");
		place.append(this.legend, this.words, this.hint);
		this.svg.addEventListener("pointermove", (event) => this.#point(event));
		this.svg.addEventListener("click", (event) => {
			this.#point(event);
			if ("seconds" in (this.pieces[this.at] ?? {})) this.#open();
		});
		this.svg.addEventListener("dblclick", () => this.#open());
		this.svg.addEventListener("keydown", (event) => this.#key(event));
		this.svg.addEventListener("focus", () =>
			this.#choose(this.at < 0 ? this.pieces.length - 1 : this.at),
		);
	}

	/** @param {Strip} shown */
	show({ server, from_s, to_s, states, zoom, meters }) {
		Object.assign(this, { from_s, to_s, zoom, meters, at: -1 });
		this.pieces = states.exact
			? states.stretches
			: states.parts.filter((each) => Object.keys(each.seconds).length);
		this.until_s = states.until_s;
		this.svg.setAttribute("aria-label", t("history.band_label", { server }));
		const { deleted } = states;
		const hint = states.exact
			? t("history.band_hint")
			: t("history.band_shares", { count: states.changes });
		const begins =
			deleted &&
			t("history.band_deleted", {
				count: deleted.keep_days,
				date: date(deleted.before_s),
			});
		this.hint.textContent = [begins, this.pieces.length && hint].filter(Boolean).join(" ");
		this.legend.replaceChildren(...legend(this.pieces));
		const none = this.pieces.length || deleted ? "" : t("history.band_none");
		this.words.replaceChildren(h("p.soft", none));
		this.svg.removeAttribute("aria-activedescendant");
		this.draw();
		if (this.pieces.length) this.#choose(this.pieces.length - 1);
	}

	/** Draw another part of its data. @param {Span} span */
	move({ from_s, to_s }) {
		Object.assign(this, { from_s, to_s });
		this.draw();
	}

	// Drawing

	/** Draw it where the chart's area is: again whenever that area changes. */
	draw() {
		if (!this.to_s) return;
		const area = this.area(),
			all = this.svg.parentElement?.clientWidth ?? 0;
		const left = area ? area.left : 0,
			width = Math.max(1, (area ? area.right : all) - left);
		this.scale = width / (this.to_s - this.from_s);
		// In percent: on paper the strip becomes narrower like the chart's picture.
		this.svg.style.marginInlineStart = `${(100 * left) / all}%`;
		this.svg.style.width = `${(100 * width) / all}%`;
		this.svg.setAttribute("preserveAspectRatio", "none");
		this.svg.setAttribute("viewBox", `0 0 ${width} ${HIGH}`);
		const defs = s("defs");
		defs.append(...Object.keys(LINES).map(pattern));
		this.mark = s("rect", { class: "chosen", y: 1, height: HIGH - 2, rx: 2 });
		this.nodes = this.pieces.map((piece, index) => this.#piece(piece, index));
		this.svg.replaceChildren(
			defs,
			...this.nodes,
			...this.#cuts(),
			s("rect", {
				class: "frame-line",
				x: 0.5,
				y: 0.5,
				width: Math.max(0, width - 1),
				height: HIGH - 1,
				rx: 4,
			}),
			this.mark,
		);
		if (this.at >= 0) this.#place();
	}

	/** @param {number} t_s */
	#x = (t_s) => (t_s - this.from_s) * this.scale;

	/** @param {Piece} piece @param {number} index */
	#piece(piece, index) {
		const x = this.#x(piece.t_s),
			width = Math.max(1, this.#x(piece.end_s) - x);
		const made = s("g", {
			class: "piece",
			role: "option",
			id: `piece-${index}`,
			"aria-selected": `${index === this.at}`,
			"aria-label": this.#line(piece),
		});
		if ("seconds" in piece) made.append(...columns(piece, x, width));
		else made.append(fill(known(piece.state), x, 0, width, HIGH));
		return made;
	}

	/** A light line at each change, so that two stretches of the same state are two. */
	#cuts() {
		return this.pieces
			.slice(1)
			.filter((each) => "state" in each && (each.end_s - each.t_s) * this.scale > 4)
			.map((each) => s("path", { class: "cut", d: `M${this.#x(each.t_s)} 0V${HIGH}` }));
	}

	// Choosing

	/** @param {number} index */
	#choose(index) {
		if (index < 0 || index >= this.pieces.length) return;
		this.nodes[this.at]?.setAttribute("aria-selected", "false");
		this.at = index;
		this.nodes[index].setAttribute("aria-selected", "true");
		this.svg.setAttribute("aria-activedescendant", `piece-${index}`);
		this.#place();
		const piece = this.pieces[index];
		this.words.replaceChildren(
			...("seconds" in piece ? [h("p", this.#line(piece))] : this.#stretchWords(piece)),
		);
	}

	#place() {
		const piece = this.pieces[this.at],
			x = this.#x(piece.t_s);
		this.mark.setAttribute("x", String(x - 1));
		this.mark.setAttribute("width", String(Math.max(3, this.#x(piece.end_s) - x + 2)));
	}

	/**
	 * The piece under the pointer; a short one beside it is meant, or it could not be hit.
	 * @param {MouseEvent} event
	 */
	#point(event) {
		const px = event.clientX - this.svg.getBoundingClientRect().left;
		let best = -1,
			bestWidth = Infinity;
		for (const [index, piece] of this.pieces.entries()) {
			const left = this.#x(piece.t_s),
				right = this.#x(piece.end_s),
				width = right - left;
			const reach = width < 2 * NEAR_PX ? NEAR_PX : 0;
			if (px >= left - reach && px <= right + reach && width < bestWidth)
				[best, bestWidth] = [index, width];
		}
		if (best >= 0 && best !== this.at) this.#choose(best);
		this.mark.classList.toggle("on", best >= 0);
	}

	/** @param {KeyboardEvent} event */
	#key(event) {
		/** @type {Record<string, number>} */
		const keys = {
			ArrowRight: this.at + 1,
			ArrowLeft: this.at - 1,
			Home: 0,
			End: this.pieces.length - 1,
		};
		const to = keys[event.key];
		const piece = this.pieces[this.at];
		const middle_s = piece ? (piece.t_s + piece.end_s) / 2 : (this.from_s + this.to_s) / 2;
		if (event.key === "Enter") this.#open();
		else if (event.key === "+") this.does.scale(0.5, middle_s);
		else if (event.key === "-") this.does.scale(2, middle_s);
		else if (event.key === "Escape") this.does.back();
		else if (to === undefined) return;
		else this.#choose(Math.min(Math.max(to, 0), this.pieces.length - 1));
		event.preventDefault();
	}

	#open() {
		const piece = this.pieces[this.at];
		if (!piece) return;
		const more_s = "seconds" in piece ? 0 : Math.max(30, (piece.end_s - piece.t_s) / 10);
		this.zoom(piece.t_s - more_s, piece.end_s + more_s);
	}

	// Words

	/** @param {number} t_s */
	#when = (t_s) =>
		this.to_s - this.from_s > 86400 * 1.1 ? `${day(t_s)}, ${clockS(t_s)}` : clockS(t_s);

	/** @param {Piece} piece */
	#span(piece) {
		const open = piece.end_s >= this.until_s - 1 && this.until_s < this.to_s;
		return {
			from: this.#when(piece.t_s),
			to: open ? t("history.now") : this.#when(piece.end_s),
			length: duration(piece.end_s - piece.t_s),
		};
	}

	/** @param {Piece} piece */
	#line(piece) {
		if (!("seconds" in piece)) {
			const words = t("history.stretch", {
				state: stateWords(piece.state),
				...this.#span(piece),
			});
			return [words, ...why(piece)].join(". ");
		}
		const all = Object.values(piece.seconds).reduce((sum, each) => sum + each, 0);
		const parts = ORDER.filter((state) => piece.seconds[state] >= LEAST_SHARE * all).map(
			(state) =>
				t("history.part_share", {
					state: stateWords(state),
					share: share(piece.seconds[state] / all, 0),
				}),
		);
		return t("history.part", {
			from: this.#when(piece.t_s),
			to: this.#when(piece.end_s),
			shares: parts.join(", "),
			changes: piece.changes,
		});
	}

	/** @param {Stretch} piece */
	#stretchWords(piece) {
		const span = this.#span(piece);
		const power = meanOf(this.meters, piece);
		const length = power === null ? span.length : `${span.length}, ${watts(power)}`;
		const when = `${span.from} – ${span.to} (${length})`;
		const title = date(piece.t_s);
		return [
			h("p", h("span.row", stateBadge(piece.state), h("span", { title }, when))),
			...why(piece).map((words) => h("p", words)),
		];
	}
}

/**
 * The mean power of the points that lie in a stretch; null where there is none.
 * @param {Meter[]} meters @param {Stretch} stretch
 */
function meanOf(meters, { t_s, end_s }) {
	const found = meters.flatMap((meter) => {
		const points = meter.points.filter(([at_s]) => at_s >= t_s && at_s + meter.step_s <= end_s);
		const sum = points.reduce((all, [, mean]) => all + mean, 0);
		return points.length ? [sum / points.length] : [];
	});
	return found.length ? found.reduce((all, each) => all + each, 0) : null;
}

/** The reason of a state, and the wake that led to it. @param {Stretch} piece */
const why = ({ id, words, wake }) => [
	id ? t("history.stretch_reason", { reason: words }) : t("history.stretch_unwatched"),
	...(wake ? [t("history.stretch_wake", { cause: wakeLine(wake) })] : []),
];

/** @param {Piece[]} pieces */
function legend(pieces) {
	const there = new Set(
		pieces.flatMap((each) =>
			"seconds" in each ? Object.keys(each.seconds).map(known) : known(each.state),
		),
	);
	return ORDER.filter((state) => there.has(state)).map((state) => {
		const swatch = s("svg", { viewBox: "0 0 28 12", "aria-hidden": "true" });
		swatch.append(fill(state, 0, 0, 28, 12));
		return h("li", swatch, stateWords(state));
	});
}

/**
 * @param {string} state @param {number} x @param {number} y @param {number} width
 * @param {number} height
 */
export function fill(state, x, y, width, height) {
	const made = s("rect", { x, y, width, height });
	if (state === "awake") made.setAttribute("class", "fill-awake");
	else {
		made.setAttribute("fill", `url(#pattern-${state})`);
		made.setAttribute("class", `of-${state}`);
	}
	return made;
}

/**
 * How long in which state, as a column from the bottom up.
 * @param {Part} part @param {number} x @param {number} width @param {number} high
 */
export function columns(part, x, width, high = HIGH) {
	const all = Object.values(part.seconds).reduce((sum, each) => sum + each, 0);
	let bottom = high;
	return ORDER.filter((state) => part.seconds[state]).map((state) => {
		const height = high * (part.seconds[state] / all);
		bottom -= height;
		return fill(state, x, bottom, width, height);
	});
}
