// Runs run.py in MicroPython's WebAssembly build:
//   node run_wasm.mjs MICROPYTHON.mjs SRC TESTS
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";

const [engine, sources, tests] = process.argv.slice(2).map((path) => resolve(path));
const { loadMicroPython } = await import(engine);
const micropython = await loadMicroPython({
	stdout: (/** @type {string} */ line) => console.log(line),
	linebuffer: true,
});

/**
 * @param {string} from
 * @param {string} to
 */
function copy(from, to) {
	micropython.FS.mkdir(to);
	for (const name of readdirSync(from)) {
		const path = join(from, name);
		if (statSync(path).isDirectory()) copy(path, `${to}/${name}`);
		else if (name.endsWith(".py"))
			micropython.FS.writeFile(`${to}/${name}`, readFileSync(path));
	}
}

copy(sources, "/src");
copy(tests, "/tests");
let counts = [0, 1];
try {
	micropython.runPython(`
import sys
sys.path[:0] = ["/src", "/tests", "/tests/fakes"]
import run
passed, failed = run.run(["/tests/both", "/tests/micropython"])
`);
	counts = [micropython.globals.get("passed"), micropython.globals.get("failed")];
} catch (error) {
	// Not the engine's source, which is one long line.
	console.log(/** @type {Error} */ (error).message);
}
process.exitCode = counts[0] > 0 && counts[1] === 0 ? 0 : 1;
