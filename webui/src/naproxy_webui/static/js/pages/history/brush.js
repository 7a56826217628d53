// The whole day, week, ... in small, and in it the part that is shown above: its ends can be moved,
// by pointer and by keyboard, and the part as a whole.

import { h, s, t } from "../../kit/core.js";
import { dateTime } from "../../kit/format.js";
import { columns, fill, known } from "./band.js";

const HIGH = 24,
	STEPS = 48,
	SETTLE_MS = 500;
/** @type {("from_s" | "to_s")[]} */
const ENDS = ["from_s", "to_s"];

export class Brush {
	#picture = s("svg", { class: "brush-states", height: HIGH, "aria-hidden": "true" });
	#window = h("div.brush-window");
	/** @type {Record<string, HTMLElement>} */
	#handles = {};
	/** @type {Span} */
	#whole = { from_s: 0, to_s: 1 };
	/** @type {Span} */
	#part = { from_s: 0, to_s: 1 };
	/** @type {States | null} */
	#states = null;
	#timer = 0;
	/** @type {{ x: number, part: Span, what: string } | null} */
	#begun = null;

	/**
	 * `area()` is the chart's area; the brush has the same left and right edges.
	 * @param {() => { left: number, right: number } | undefined} area
	 * @param {{ preview: (span: Span) => void, settle: (span: Span) => void }} does
	 */
	constructor(area, does) {
		this.area = area;
		this.does = does;
		this.element = h("div.brush", { role: "group", "aria-label": t("history.brush") });
		for (const end of ENDS)
			this.#handles[end] = h("div.brush-handle", {
				role: "slider",
				tabindex: "0",
				"data-end": end,
				"aria-label": t(end === "from_s" ? "history.from" : "history.to"),
				onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event, end),
			});
		this.element.append(this.#picture, this.#window, ...Object.values(this.#handles));
		this.element.addEventListener("pointerdown", (event) => this.#down(event));
		this.element.addEventListener("pointermove", (event) => this.#move(event));
		this.element.addEventListener("pointerup", () => this.#up());
		this.element.addEventListener("pointercancel", () => this.#up());
	}

	/** @param {Span | null} whole @param {Span} part @param {States | null} states */
	show(whole, part, states) {
		this.element.classList.toggle("invisible", !whole);
		this.#whole = whole ?? part;
		this.#states = states;
		this.at(part);
		this.draw();
	}

	/** Show another part. @param {Span} part */
	at(part) {
		this.#part = part;
		const { from_s, to_s } = this.#whole;
		const share = (/** @type {number} */ t_s) =>
			100 * Math.min(1, Math.max(0, (t_s - from_s) / (to_s - from_s)));
		const [left, right] = [share(part.from_s), share(part.to_s)];
		this.#window.style.left = `${left}%`;
		this.#window.style.width = `${right - left}%`;
		for (const end of ENDS) {
			const handle = this.#handles[end];
			handle.style.left = `${end === "from_s" ? left : right}%`;
			handle.setAttribute("aria-valuemin", String(Math.round(from_s)));
			handle.setAttribute("aria-valuemax", String(Math.round(to_s)));
			handle.setAttribute("aria-valuenow", String(Math.round(part[end])));
			handle.setAttribute("aria-valuetext", dateTime(part[end]));
		}
	}

	/** Draw it where the chart's area is. */
	draw() {
		const area = this.area();
		if (!area) return;
		const width = Math.max(1, area.right - area.left);
		this.element.style.marginInlineStart = `${area.left}px`;
		this.element.style.width = `${width}px`;
		this.#picture.setAttribute("viewBox", `0 0 ${width} ${HIGH}`);
		const { from_s, to_s } = this.#whole;
		const scale = width / (to_s - from_s);
		const pieces = this.#states?.exact ? this.#states.stretches : (this.#states?.parts ?? []);
		const made = pieces.flatMap((each) => {
			const x = (each.t_s - from_s) * scale;
			const wide = Math.max(1, (each.end_s - each.t_s) * scale);
			return "seconds" in each
				? columns(each, x, wide, HIGH)
				: [fill(known(each.state), x, 0, wide, HIGH)];
		});
		this.#picture.replaceChildren(...made);
	}

	/** @param {MouseEvent} event */
	#time(event) {
		const { left, width } = this.element.getBoundingClientRect();
		const { from_s, to_s } = this.#whole;
		const share = Math.min(1, Math.max(0, (event.clientX - left) / width));
		return from_s + share * (to_s - from_s);
	}

	/** @param {PointerEvent} event */
	#down(event) {
		if (event.button !== 0) return;
		const end = /** @type {HTMLElement} */ (event.target).dataset.end;
		const { from_s, to_s } = this.#part;
		const all = from_s <= this.#whole.from_s && to_s >= this.#whole.to_s;
		const x = this.#time(event);
		const inside = !all && x >= from_s && x <= to_s;
		this.#begun = { x, part: { ...this.#part }, what: end ?? (inside ? "move" : "new") };
		this.element.setPointerCapture(event.pointerId);
		event.preventDefault();
		if (end) this.#handles[end].focus();
	}

	/** @param {PointerEvent} event */
	#move(event) {
		const begun = this.#begun;
		if (!begun) return;
		const at_s = this.#time(event),
			{ part, what, x } = begun;
		if (what === "move") {
			const length_s = part.to_s - part.from_s;
			const least = this.#whole.from_s,
				most = this.#whole.to_s - length_s;
			const from_s = Math.min(most, Math.max(least, part.from_s + at_s - x));
			this.#preview({ from_s, to_s: from_s + length_s });
		} else if (what === "new")
			this.#preview({ from_s: Math.min(x, at_s), to_s: Math.max(x, at_s) });
		else this.#preview(this.#moved(/** @type {"from_s" | "to_s"} */ (what), at_s));
	}

	#up() {
		const begun = this.#begun;
		this.#begun = null;
		const { from_s, to_s } = this.#part;
		if (begun && (begun.part.from_s !== from_s || begun.part.to_s !== to_s))
			this.does.settle(this.#part);
	}

	/**
	 * The part with one end elsewhere: a minute before or after the other at the most.
	 * @param {"from_s" | "to_s"} end @param {number} t_s @returns {Span}
	 */
	#moved(end, t_s) {
		const { from_s, to_s } = this.#part;
		const at_s = Math.min(this.#whole.to_s, Math.max(this.#whole.from_s, t_s));
		return end === "from_s"
			? { from_s: Math.min(at_s, to_s - 60), to_s }
			: { from_s, to_s: Math.max(at_s, from_s + 60) };
	}

	/** @param {Span} part */
	#preview(part) {
		this.at(part);
		this.does.preview(part);
	}

	/** @param {KeyboardEvent} event @param {"from_s" | "to_s"} end */
	#key(event, end) {
		const { from_s, to_s } = this.#whole;
		const step_s = (to_s - from_s) / STEPS;
		/** @type {Record<string, number>} */
		const keys = {
			ArrowRight: this.#part[end] + step_s,
			ArrowUp: this.#part[end] + step_s,
			ArrowLeft: this.#part[end] - step_s,
			ArrowDown: this.#part[end] - step_s,
			PageUp: this.#part[end] + 6 * step_s,
			PageDown: this.#part[end] - 6 * step_s,
			Home: from_s,
			End: to_s,
		};
		if (!(event.key in keys)) return;
		event.preventDefault();
		this.#preview(this.#moved(end, keys[event.key]));
		clearTimeout(this.#timer);
		this.#timer = setTimeout(() => this.does.settle(this.#part), SETTLE_MS);
	}
}
