// Words and elements. Texts become text nodes, so nothing that came from the network is ever HTML.

const SVG = "http://www.w3.org/2000/svg";

// The texts of this page, in the user's language, from the JSON that base.html puts into it.

const place = document.getElementById("texts");
const texts = place ? JSON.parse(place.textContent) : {};

/** Whether there is a text; a key with `.one` and `.other` counts too. */
export const has = (key) => key in texts || `${key}.other` in texts;

/** Return a text with `{name}` filled in; `count` chooses between `KEY.one` and `KEY.other`. */
export function t(key, values = {}) {
	let text = texts[key];
	if (text === undefined && "count" in values) {
		text = texts[`${key}.${Number(values.count) === 1 ? "one" : "other"}`];
	}
	if (text === undefined) {
		console.error(`there is no text ${key}`);
		return key;
	}
	return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

// Elements

/**
 * h("p.hint", "words"), h("button.button", {type: "button", onclick: f}, icon("x"), "Close").
 * Attributes that are null or false are left out; functions are listeners; children may be null.
 */
export function h(what, ...rest) {
	const [tag, ...classes] = what.split(".");
	const made = document.createElement(tag || "div");
	if (classes.length) made.className = classes.join(" ");
	for (const each of rest) {
		if (each !== null && typeof each === "object" && !(each instanceof Node) && !Array.isArray(each)) set(made, each);
		else append(made, each);
	}
	return made;
}

function set(element, attributes) {
	for (const [name, value] of Object.entries(attributes)) {
		if (value === null || value === undefined || value === false) continue;
		if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
		else if (name === "value" || name === "checked") element[name] = value;
		else element.setAttribute(name, value === true ? "" : value);
	}
}

function append(element, child) {
	if (Array.isArray(child)) child.forEach((each) => append(element, each));
	else if (child !== null && child !== undefined && child !== false) element.append(child);
}

/** An icon of parts/icons.html; it says nothing, the words beside it do. */
export function icon(name) {
	const made = document.createElementNS(SVG, "svg");
	made.setAttribute("class", "icon");
	made.setAttribute("aria-hidden", "true");
	const use = document.createElementNS(SVG, "use");
	use.setAttribute("href", `#i-${name}`);
	made.append(use);
	return made;
}

/** An SVG element. */
export function s(tag, attributes = {}) {
	const made = document.createElementNS(SVG, tag);
	for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
	return made;
}

/** Set an element's text only if it is another: live regions and selections stay quiet. */
export function say(element, text) {
	if (element && element.textContent !== text) element.textContent = text;
}

/** State of a server -> its icon; words are `kit.state.NAME`. */
export const STATE_ICONS = {
	awake: "sun", asleep: "moon", waking: "sunrise", falling_asleep: "sunset", trouble: "triangle-alert", unknown: "circle-help",
};
/** Kind of a notice -> its icon. */
export const KIND_ICONS = { good: "circle-check", info: "info", warn: "triangle-alert", bad: "triangle-alert" };
