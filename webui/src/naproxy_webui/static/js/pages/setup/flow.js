// Shared by the steps: the next step, and the server they are about.

import { all, at, put } from "../../kit/core.js";

export const page = at("setup");
export const again = "again" in page.dataset;
/** The server that the steps are about; null before there is one. */
export const server = page.dataset.server || null;

/** Go to a step, and let the box remember it. @param {string} step */
export async function go(step) {
	await put("/api/setup", { step });
	location.assign(`/setup/${step}`);
}

/** On from here: the next step, or back to the list where a step is done by itself. */
export async function onward() {
	if (again) location.assign("/setup/again");
	else await go(page.dataset.after ?? "");
}

for (const link of all("a[data-go]", page)) {
	link.addEventListener("click", (event) => {
		event.preventDefault();
		go(link.dataset.go ?? "").catch(() => location.assign(link.href));
	});
}

/** The body of a request about this server, or a new one. @param {Loose} more @returns {Loose} */
export const about = (more = {}) => (server ? { server, ...more } : more);
