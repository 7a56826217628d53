// The strip of states under the chart. One stop of the tab key; arrow keys go along it.

import { h, s, t } from "../../kit/core.js";
import { clockS, date, day, duration, share } from "../../kit/format.js";
import { badge, stateWords, wakeLine } from "./words.js";

const HIGH = 40,
	NEAR_PX = 3,
	LEAST_SHARE = 0.005;
const LINES = {
	asleep: "M0 8L8 0",
	waking: "M0 0L8 8",
	falling_asleep: "M0 0L8 8",
	trouble: "M0 0L8 8M0 8L8 0",
	unknown: "M0 0L8 8M0 8L8 0",
};
const ORDER = ["asleep", "falling_asleep", "waking", "awake", "trouble", "unknown"];

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

const known = (state) => (ORDER.includes(state) ? state : "unknown");

export class Band {
	/** `area()` is the chart's area, whose left and right the strip has too. */
	constructor(place, area) {
		this.area = area;
		this.pieces = [];
		this.at = -1;
		this.svg = s("svg", { class: "strip", tabindex: "0", role: "listbox", height: HIGH });
		this.words = h("div.band-words");
		this.hint = h("p.hint");
		this.legend = h("ul.legend");
		place.append(this.svg, this.legend, this.words, this.hint);
		this.svg.addEventListener("pointermove", (event) => this.#point(event));
		this.svg.addEventListener("click", (event) => {
			this.#point(event);
			this.#open();
		});
		this.svg.addEventListener("keydown", (event) => this.#key(event));
		this.svg.addEventListener("focus", () =>
			this.#choose(this.at < 0 ? this.pieces.length - 1 : this.at),
		);
		new ResizeObserver(() => {
			clearTimeout(this.timer);
			this.timer = setTimeout(() => this.#draw(), 120);
		}).observe(place);
	}

	show({ server, from_s, to_s, states, zoom }) {
		Object.assign(this, { from_s, to_s, zoom, exact: states.exact, at: -1 });
		this.pieces = states.exact
			? states.stretches
			: states.parts.filter((each) => Object.keys(each.seconds).length);
		this.until_s = states.until_s;
		this.svg.setAttribute("aria-label", t("history.band_label", { server }));
		this.hint.textContent = states.exact
			? t("history.band_hint")
			: t("history.band_shares", { count: states.changes });
		this.legend.replaceChildren(...legend(this.pieces, states.exact));
		this.words.replaceChildren(h("p.soft", this.pieces.length ? "" : t("history.band_none")));
		this.svg.removeAttribute("aria-activedescendant");
		this.#draw();
		if (this.pieces.length) this.#choose(this.pieces.length - 1);
	}

	// Drawing

	#draw() {
		if (!this.to_s) return;
		const area = this.area(),
			all = this.svg.parentNode.clientWidth;
		const left = area ? area.left : 0,
			width = Math.max(1, (area ? area.right : all) - left);
		this.scale = width / (this.to_s - this.from_s);
		this.svg.style.marginInlineStart = `${left}px`;
		this.svg.style.width = `${width}px`;
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

	#x = (t_s) => (t_s - this.from_s) * this.scale;

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
		if (this.exact) made.append(fill(known(piece.state), x, 0, width, HIGH));
		else made.append(...columns(piece, x, width));
		return made;
	}

	/** A light line at each change, so that two stretches of the same state are two. */
	#cuts() {
		if (!this.exact) return [];
		return this.pieces
			.slice(1)
			.filter((each) => (each.end_s - each.t_s) * this.scale > 4)
			.map((each) => s("path", { class: "cut", d: `M${this.#x(each.t_s)} 0V${HIGH}` }));
	}

	// Choosing

	#choose(index) {
		if (index < 0 || index >= this.pieces.length) return;
		this.nodes[this.at]?.setAttribute("aria-selected", "false");
		this.at = index;
		this.nodes[index].setAttribute("aria-selected", "true");
		this.svg.setAttribute("aria-activedescendant", `piece-${index}`);
		this.#place();
		this.words.replaceChildren(
			...(this.exact
				? this.#stretchWords(this.pieces[index])
				: [h("p", this.#line(this.pieces[index]))]),
		);
	}

	#place() {
		const piece = this.pieces[this.at],
			x = this.#x(piece.t_s);
		this.mark.setAttribute("x", x - 1);
		this.mark.setAttribute("width", Math.max(3, this.#x(piece.end_s) - x + 2));
	}

	/** The piece under the pointer; a short one beside it is meant, or it could not be hit. */
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

	#key(event) {
		const to = {
			ArrowRight: this.at + 1,
			ArrowLeft: this.at - 1,
			Home: 0,
			End: this.pieces.length - 1,
		}[event.key];
		if (event.key === "Enter") this.#open();
		else if (to === undefined) return;
		else this.#choose(Math.min(Math.max(to, 0), this.pieces.length - 1));
		event.preventDefault();
	}

	#open() {
		const piece = this.pieces[this.at];
		if (!this.exact && piece) this.zoom(piece.t_s, piece.end_s);
	}

	// Words

	#when = (t_s) =>
		this.to_s - this.from_s > 86400 * 1.1 ? `${day(t_s)}, ${clockS(t_s)}` : clockS(t_s);

	#span(piece) {
		const open = piece.end_s >= this.until_s - 1 && this.until_s < this.to_s;
		return {
			from: this.#when(piece.t_s),
			to: open ? t("history.now") : this.#when(piece.end_s),
			length: duration(piece.end_s - piece.t_s),
		};
	}

	#line(piece) {
		if (this.exact) {
			const words = [
				t("history.stretch", { state: stateWords(piece.state), ...this.#span(piece) }),
			];
			words.push(
				piece.id
					? t("history.stretch_reason", { reason: piece.words })
					: t("history.stretch_unwatched"),
			);
			if (piece.wake) words.push(t("history.stretch_wake", { cause: wakeLine(piece.wake) }));
			return words.join(". ");
		}
		const all = Object.values(piece.seconds).reduce((a, b) => a + b, 0);
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

	#stretchWords(piece) {
		const span = this.#span(piece);
		const found = [
			h(
				"p",
				h(
					"span.row",
					badge(piece.state),
					h(
						"span",
						{ title: date(piece.t_s) },
						`${span.from} – ${span.to} (${span.length})`,
					),
				),
			),
		];
		found.push(
			h(
				"p",
				piece.id
					? t("history.stretch_reason", { reason: piece.words })
					: t("history.stretch_unwatched"),
			),
		);
		if (piece.wake)
			found.push(h("p", t("history.stretch_wake", { cause: wakeLine(piece.wake) })));
		return found;
	}
}

function legend(pieces, exact) {
	const there = new Set(
		exact
			? pieces.map((each) => known(each.state))
			: pieces.flatMap((each) => Object.keys(each.seconds).map(known)),
	);
	return ORDER.filter((state) => there.has(state)).map((state) => {
		const swatch = s("svg", { viewBox: "0 0 28 12", "aria-hidden": "true" });
		swatch.append(fill(state, 0, 0, 28, 12));
		return h("li", swatch, stateWords(state));
	});
}

function fill(state, x, y, width, height) {
	const made = s("rect", { x, y, width, height });
	if (state === "awake") made.setAttribute("class", "fill-awake");
	else made.setAttribute("fill", `url(#pattern-${state})`);
	return made;
}

/** How long in which state, as a column from the bottom up. */
function columns(part, x, width) {
	const all = Object.values(part.seconds).reduce((a, b) => a + b, 0);
	let bottom = HIGH;
	return ORDER.filter((state) => part.seconds[state]).map((state) => {
		const height = HIGH * (part.seconds[state] / all);
		bottom -= height;
		return fill(state, x, bottom, width, height);
	});
}
