// The service worker: while the box does not answer, it shows our offline page instead of the
// browser's own. It caches nothing else: all other content comes from the box each time.
//
// `/worker.js?version=...&shell=...`: the version of the static files, and the settings that the
// page depends on.

const worker = /** @type {any} */ (self);
const asked = new URL(location.href).searchParams;
const KEPT = `naproxy-${asked}`;
const PAGE = "/offline";
const FILES = ["css/kit.css", "js/offline.js"].map(
	(name) => `/static/${asked.get("version")}/${name}`,
);

worker.addEventListener("install", (/** @type {any} */ event) => {
	event.waitUntil(
		caches
			.open(KEPT)
			.then((kept) => kept.addAll([PAGE, ...FILES]))
			.then(() => worker.skipWaiting()),
	);
});

worker.addEventListener("activate", (/** @type {any} */ event) => {
	event.waitUntil(tidy());
});

async function tidy() {
	// The page is asked for while this starts.
	await worker.registration.navigationPreload?.enable();
	const names = await caches.keys();
	await Promise.all(names.filter((each) => each !== KEPT).map((each) => caches.delete(each)));
}

worker.addEventListener("fetch", (/** @type {any} */ event) => {
	const { request } = event;
	const { pathname } = new URL(request.url);
	if (request.method !== "GET") return;
	if (FILES.includes(pathname)) event.respondWith(kept(pathname, request));
	else if (request.mode === "navigate" && !pathname.startsWith("/api/"))
		event.respondWith(opened(event));
});

/** @param {string} path @param {Request} request */
async function kept(path, request) {
	return (await caches.match(path)) ?? fetch(request);
}

/** @param {any} event */
async function opened({ request, preloadResponse }) {
	try {
		return (await preloadResponse) ?? (await fetch(request));
	} catch {
		return (await caches.match(PAGE)) ?? Response.error();
	}
}
