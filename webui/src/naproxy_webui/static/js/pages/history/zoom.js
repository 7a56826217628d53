// Gestures on the chart and on the strip below it: drag to look closer, Ctrl and wheel, two
// fingers, one finger to go along. The page still scrolls by wheel, and up and down by finger.

import { h } from "../../kit/core.js";

const CLICK_PX = 5,
	SETTLE_MS = 300,
	LEAST_S = 60,
	WHEEL = 0.0025;

/**
 * A span as it may be shown: a minute at least, and within another.
 * @param {Span} span @param {Span} within @returns {Span}
 */
export function allowed({ from_s, to_s }, within) {
	const length_s = Math.min(within.to_s - within.from_s, Math.max(LEAST_S, to_s - from_s));
	const first_s = Math.min(within.to_s - length_s, Math.max(within.from_s, from_s));
	return { from_s: first_s, to_s: first_s + length_s };
}

/**
 * The same, `factor` times as long, around a time that stays where it is.
 * @param {Span} span @param {number} factor @param {number} [around_s] @returns {Span}
 */
export function scaled({ from_s, to_s }, factor, around_s = (from_s + to_s) / 2) {
	return {
		from_s: around_s - (around_s - from_s) * factor,
		to_s: around_s + (to_s - around_s) * factor,
	};
}

export class Gestures {
	/** @type {Map<number, number>} */
	#fingers = new Map();
	/** @type {{ x: number, span: Span, times: number[], id: number } | null} */
	#begun = null;
	#chosen = h("div.zoom-window", { hidden: true });
	#timer = 0;
	/** Was the last press a drag? Then the click that follows is ignored. */
	dragged = false;

	/**
	 * `axis()` has the shown span, and its place in the element's own pixels. `preview` shows
	 * another span at once, and `settle` loads its figures. `settle(null)` returns to the loaded
	 * span.
	 * @param {HTMLElement} element
	 * @param {{ axis: () => Axis | null, preview: (span: Span) => void,
	 *   settle: (span: Span | null) => void }} does
	 */
	constructor(element, does) {
		this.element = element;
		this.does = does;
		element.classList.add("zoomable");
		element.append(this.#chosen);
		element.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
		element.addEventListener("pointerdown", (event) => this.#down(event));
		element.addEventListener("pointermove", (event) => this.#move(event));
		element.addEventListener("pointerup", (event) => this.#up(event));
		element.addEventListener("pointercancel", () => this.#cancel());
		// A drag is not a click.
		const stop = (/** @type {Event} */ event) => this.dragged && event.stopPropagation();
		element.addEventListener("click", stop, { capture: true });
		addEventListener("keydown", (event) => event.key === "Escape" && this.#cancel());
	}

	/** @param {MouseEvent} event */
	#x = (event) => event.clientX - this.element.getBoundingClientRect().left;

	/** @param {number} x @param {Span} [span] */
	#time(x, span) {
		const axis = this.does.axis();
		if (!axis) return 0;
		const { from_s, to_s } = span ?? axis;
		return from_s + ((x - axis.left) / (axis.right - axis.left)) * (to_s - from_s);
	}

	/** @param {WheelEvent} event */
	#wheel(event) {
		const axis = this.does.axis();
		// Without Ctrl it is the page that scrolls. A touch pad's pinch comes as Ctrl and wheel.
		if (!axis || !(event.ctrlKey || event.metaKey)) return;
		event.preventDefault();
		const lines = event.deltaMode === 1 ? 16 : 1;
		const factor = Math.exp(Math.max(-200, Math.min(200, event.deltaY * lines)) * WHEEL);
		this.#show(scaled(axis, factor, this.#time(this.#x(event))));
	}

	/** Show it, and settle once nothing more comes. @param {Span} span */
	#show(span) {
		this.does.preview(span);
		clearTimeout(this.#timer);
		this.#timer = setTimeout(() => {
			if (!this.#fingers.size) this.does.settle(this.does.axis());
		}, SETTLE_MS);
	}

	/** @param {PointerEvent} event */
	#down(event) {
		const axis = this.does.axis();
		this.dragged = false;
		if (!axis || event.button !== 0) return;
		this.#fingers.set(event.pointerId, this.#x(event));
		this.#begin(axis, event.pointerId);
	}

	/** @param {Axis} axis @param {number} id */
	#begin({ from_s, to_s }, id) {
		const places = [...this.#fingers.values()];
		const times = places.map((x) => this.#time(x));
		this.#begun = { x: places[0], span: { from_s, to_s }, times, id };
	}

	/** @param {PointerEvent} event */
	#move(event) {
		const begun = this.#begun,
			axis = this.does.axis();
		if (!begun || !axis || !this.#fingers.has(event.pointerId)) return;
		const x = this.#x(event);
		this.#fingers.set(event.pointerId, x);
		if (!this.dragged && Math.abs(x - begun.x) < CLICK_PX && this.#fingers.size < 2) return;
		if (!this.dragged) {
			this.dragged = true;
			for (const id of this.#fingers.keys()) this.element.setPointerCapture(id);
		}
		if (event.pointerType !== "touch") this.#choose(begun.x, x, axis);
		else if (this.#fingers.size > 1) this.#pinch(begun.times, axis);
		else {
			const by_s = this.#time(begun.x, begun.span) - this.#time(x, begun.span);
			const { from_s, to_s } = begun.span;
			this.does.preview({ from_s: from_s + by_s, to_s: to_s + by_s });
		}
	}

	/**
	 * Keep under two fingers the times that were under them.
	 * @param {number[]} times @param {Axis} axis
	 */
	#pinch(times, axis) {
		const [a, b] = this.#fingers.values();
		if (times.length < 2 || Math.abs(a - b) < 10) return;
		const per_px = (times[1] - times[0]) / (b - a);
		if (!(per_px > 0)) return;
		const from_s = times[0] - (a - axis.left) * per_px;
		this.does.preview({ from_s, to_s: from_s + (axis.right - axis.left) * per_px });
	}

	/** @param {number} a @param {number} b @param {Axis} axis */
	#choose(a, b, axis) {
		const [left, right] = [
			Math.max(axis.left, Math.min(a, b)),
			Math.min(axis.right, Math.max(a, b)),
		];
		this.#chosen.hidden = right <= left;
		this.#chosen.style.left = `${left}px`;
		this.#chosen.style.width = `${Math.max(0, right - left)}px`;
	}

	/** @param {PointerEvent} event */
	#up(event) {
		const begun = this.#begun,
			axis = this.does.axis();
		const x = this.#x(event);
		this.#fingers.delete(event.pointerId);
		if (!begun || !axis) return;
		if (this.#fingers.size) return this.#begin(axis, begun.id);
		this.#begun = null;
		this.#chosen.hidden = true;
		if (!this.dragged) return;
		if (event.pointerType === "touch") return this.does.settle(axis);
		const inside = (/** @type {number} */ px) => Math.min(axis.right, Math.max(axis.left, px));
		const times = [this.#time(inside(begun.x)), this.#time(inside(x))].sort((a, b) => a - b);
		this.does.settle({ from_s: times[0], to_s: times[1] });
	}

	#cancel() {
		if (!this.#begun) return;
		this.#begun = null;
		this.#fingers.clear();
		this.#chosen.hidden = true;
		this.does.settle(null);
	}
}
