// Loaded before the suite's server: `node --import origin.mjs server.mjs`. It gives the headers
// that number the requests their own names again, see run.mjs.
import { subscribe } from "node:diagnostics_channel";

subscribe("http.server.request.start", (message) => {
	const { headers } = /** @type {{ request: import("node:http").IncomingMessage }} */ (message)
		.request;
	for (const name of ["req-num", "test-id", "test-name"]) {
		const value = headers[`ua-${name}`];
		if (value === undefined) continue;
		headers[name] = value;
		delete headers[`ua-${name}`];
	}
});
