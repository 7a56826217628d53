// MicroPython's own REPL on standard input and output, with a folder as its flash:
//   node repl.mjs MICROPYTHON.mjs FLASH
// Ends with 3 when it is to restart, with 4 when its boot ROM is to, with 0 at the end of the
// input, as if the power was cut. Then the flash is written back.
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const [engine, flash] = process.argv.slice(2).map((path) => resolve(path));
const { loadMicroPython } = await import(engine);

const SOFT_RESET = 256;
let status = 0;
/** @type {(code: number) => void} */
const restart = (code) => {
	status = code;
};
Object.assign(globalThis, { restart });

const micropython = await loadMicroPython({
	// As much as an RP2040 has.
	heapsize: 192 * 1024,
	linebuffer: false,
	stdout: (/** @type {Uint8Array} */ data) => say(Buffer.from(data)),
});
const { FS } = micropython;

let said = "";
/** @param {string | Buffer} data */
function say(data) {
	said += data.toString("latin1");
}

/** What was said leaves at once; BOARD is what the board calls itself. */
function flush() {
	const board = process.env.BOARD ?? "Raspberry Pi Pico with RP2040";
	process.stdout.write(Buffer.from(said.replaceAll("JS with Emscripten", board), "latin1"));
	said = "";
}

/**
 * @param {string} from
 * @param {string} to
 */
function load(from, to) {
	FS.mkdir(to);
	for (const name of readdirSync(from)) {
		const path = join(from, name);
		if (statSync(path).isDirectory()) load(path, `${to}/${name}`);
		else FS.writeFile(`${to}/${name}`, readFileSync(path));
	}
}

/**
 * @param {string} from
 * @param {string} to
 */
function save(from, to) {
	mkdirSync(to, { recursive: true });
	for (const name of FS.readdir(from)) {
		if (name === "." || name === "..") continue;
		const path = `${from}/${name}`;
		if (FS.isDir(FS.stat(path).mode)) save(path, join(to, name));
		else writeFileSync(join(to, name), FS.readFile(path));
	}
}

function end() {
	for (const name of readdirSync(flash)) rmSync(join(flash, name), { recursive: true });
	save("/flash", flash);
	process.exit(status);
}

load(flash, "/flash");
FS.mkdir("/fakes");
FS.writeFile(
	"/fakes/machine.py",
	"import js\n\ndef reset():\n    js.restart(3)\n\ndef bootloader():\n    js.restart(4)\n",
);
micropython.runPython("import os, sys\nos.chdir('/flash')\nsys.path.append('/fakes')");
micropython.replInit();
flush();

process.stdin.on("data", (/** @type {Buffer} */ data) => {
	for (const byte of data) {
		if (micropython.replProcessChar(byte) === SOFT_RESET) {
			// The port's own loop does this: it begins anew, and stays in the raw REPL.
			say("MPY: soft reboot\r\n");
			micropython.replInit();
		}
		if (status) end();
	}
	flush();
});
process.stdin.on("end", end);
