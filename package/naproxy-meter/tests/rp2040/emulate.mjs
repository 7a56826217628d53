// The firmware on the real MicroPython rp2 port, on an emulated RP2040 with an
// emulated INA219 and an emulated USB host:
//
//   node emulate.mjs RP2040JS FIRMWARE BOOTROM PICO_FILES < SCENARIO.json > SERIAL
//
// FIRMWARE is MicroPython for the Pico (.uf2, or .bin), BOOTROM the RP2040's boot ROM
// (.bin, or rp2040js's demo/bootrom.ts), PICO_FILES the folder that `make mpy` fills.
// The files are installed through the REPL, as mpremote would. SCENARIO is a list of
// {"at_s": simulated seconds since the meter started, "do": ..., "text": ...}.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";

const [engine, firmware, bootrom, files] = process.argv.slice(2);
const { Simulator, USBCDC } = await import(pathToFileURL(join(engine, "dist/esm/index.js")).href);

const CYCLE_NS = 8; // 125 MHz
const SLICE_S = 0.002; // how often the host looks
const BYTE_NS = 9 * 2500; // nine bits at 400 kHz
const ERASE_NS = 45e6; // a sector of 4 KiB, W25Q16JV data sheet, typical
const PROGRAM_NS = 0.4e6; // a page of 256 bytes

/** @param {string} path */
function loadWords(path) {
	const data = readFileSync(path);
	if (path.endsWith(".bin"))
		return new Uint32Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.length));
	return new Uint32Array((data.toString().match(/0x[0-9a-f]{8}/g) ?? []).map(Number));
}

/**
 * @param {string} path
 * @param {Uint8Array} flash
 */
function loadFlash(path, flash) {
	const data = readFileSync(path);
	if (!path.endsWith(".uf2")) return flash.set(data, 0);
	for (let at = 0; at < data.length; at += 512) {
		const address = data.readUInt32LE(at + 12) - 0x10000000;
		flash.set(data.subarray(at + 32, at + 32 + data.readUInt32LE(at + 16)), address);
	}
}

// rp2040js does not emulate writing to flash: the boot ROM's two functions are done here.
class FlashWriter {
	/** @param {any} simulator */
	constructor(simulator) {
		this.mcu = simulator.rp2040;
		this.clock = simulator.clock;
		/** @param {string} name */
		const find = (name) => {
			const code = name.charCodeAt(0) | (name.charCodeAt(1) << 8);
			let at = this.mcu.readUint16(0x14);
			while (this.mcu.readUint16(at) !== code) at += 4;
			return this.mcu.readUint16(at + 2) & ~1;
		};
		this.erase = find("RE");
		this.program = find("RP");
	}
	// To be called before each instruction; true when it was one of ours.
	step() {
		const { core, flash } = this.mcu;
		if (core.PC !== this.erase && core.PC !== this.program) return false;
		const [address, second, third] = core.registers;
		if (core.PC === this.erase) {
			flash.fill(0xff, address, address + second);
			this.clock.tick((second / 4096) * ERASE_NS);
		} else {
			for (let i = 0; i < third; i++) flash[address + i] &= this.mcu.readUint8(second + i);
			this.clock.tick((third / 256) * PROGRAM_NS);
		}
		core.PC = core.LR & ~1;
		return true;
	}
}

// An INA219 as its data sheet (SBOS448) has it: three registers, conversions of 17.6 ms.
class Chip {
	/** @param {any} clock */
	constructor(clock) {
		this.clock = clock;
		this.shunt = 10000;
		this.bus = 3000;
		this.plugged = true;
		this.configuration = 0;
		this.since = 0;
		this.powerOn();
	}
	powerOn() {
		this.configuration = 0x399f;
		this.since = this.clock.nanos;
	}
	/** @param {number} register */
	word(register) {
		const ready = this.clock.nanos - this.since >= 17.6e6;
		if (register === 0) return this.configuration;
		if (register === 1) return ready ? this.shunt & 0xffff : 0;
		return ready ? (this.bus << 3) | 2 : 0;
	}
	/** @param {any} i2c */
	attach(i2c) {
		const clock = this.clock;
		let later = () => {};
		const alarm = clock.createAlarm(() => later());
		/**
		 * @param {number} ns
		 * @param {() => void} action
		 */
		const after = (ns, action) => {
			later = action;
			alarm.schedule(ns);
		};
		/** @type {number[]} */
		let written = [];
		let address = 0,
			register = 0,
			index = 0;
		i2c.onStart = () => i2c.completeStart();
		/** @param {number} to */
		i2c.onConnect = (to) => {
			address = to;
			written = [];
			index = 0;
			after(BYTE_NS, () => i2c.completeConnect(this.plugged && address === 0x40));
		};
		/** @param {number} byte */
		i2c.onWriteByte = (byte) => {
			if (written.length === 0) register = byte;
			written.push(byte);
			if (written.length === 3 && register === 0) {
				this.configuration = (written[1] << 8) | written[2];
				this.since = clock.nanos;
			}
			after(BYTE_NS, () => i2c.completeWrite(true));
		};
		i2c.onReadByte = () => {
			const word = this.word(register);
			const byte = index++ % 2 ? word & 0xff : word >> 8;
			after(BYTE_NS, () => i2c.completeRead(byte));
		};
		i2c.onStop = () => i2c.completeStop();
	}
}

class Board {
	/**
	 * @param {Uint8Array | null} flash
	 * @param {number} reason
	 */
	constructor(flash, reason) {
		this.simulator = new Simulator();
		const mcu = this.simulator.rp2040;
		mcu.loadBootrom(loadWords(bootrom));
		if (flash) mcu.flash.set(flash);
		else loadFlash(firmware, mcu.flash);
		mcu.core.PC = 0x10000000; // as the boot ROM would, once it has found the flash
		mcu.logger = { debug() {}, info() {}, warn() {}, error() {} };
		this.restarted = false;
		this.watchdog = mcu.peripherals[0x40058];
		this.watchdog.onWatchdogTrigger = () => {
			this.restarted = true;
			this.watchdog.alarm.enable = false; // or it would go off for ever
		};
		this.watchdog.reason = reason;
		this.flashWriter = new FlashWriter(this.simulator);
		this.chip = new Chip(this.simulator.clock);
		this.chip.attach(mcu.i2c[0]);
		this.cdc = new USBCDC(mcu.usbCtrl);
		this.received = "";
		this.listening = true;
		this.cdc.onSerialData = (/** @type {Uint8Array} */ data) => {
			this.received += Buffer.from(data).toString("latin1");
		};
		// A host that does not read answers NAK: the endpoint's buffer stays full.
		const ready = mcu.usbCtrl.indicateBufferReady.bind(mcu.usbCtrl);
		/** @type {(() => void)[]} */
		this.held = [];
		mcu.usbCtrl.indicateBufferReady = (
			/** @type {number} */ endpoint,
			/** @type {any} */ out,
		) => {
			if (!this.listening && !out && endpoint === this.cdc.inEndpoint)
				this.held.push(() => ready(endpoint, out));
			else ready(endpoint, out);
		};
	}
	get now_s() {
		return this.simulator.clock.nanos / 1e9;
	}
	/** @param {boolean} on */
	listen(on) {
		this.listening = on;
		if (on) for (const release of this.held.splice(0)) release();
	}
	/** @param {string} text */
	send(text) {
		for (const byte of Buffer.from(text, "latin1")) this.cdc.sendSerialByte(byte);
	}
	/** @param {number} seconds */
	run(seconds) {
		const { rp2040: mcu, clock } = this.simulator;
		const end = clock.nanos + seconds * 1e9;
		while (clock.nanos < end && !this.restarted) {
			if (mcu.core.waiting) {
				clock.tick(clock.nanosToNextAlarm || 1000);
			} else if (!this.flashWriter.step()) {
				clock.tick(mcu.core.executeInstruction() * CYCLE_NS);
			}
		}
	}
	// Time goes by and the program does not: what a watchdog is for.
	/** @param {number} seconds */
	hang(seconds) {
		for (let ms = 0; ms < 1000 * seconds && !this.restarted; ms++)
			this.simulator.clock.tick(1e6);
	}
	/** @param {string} text */
	runUntil(text, limit_s = 10) {
		const end = this.now_s + limit_s;
		while (!this.received.includes(text)) {
			if (this.now_s > end) throw new Error(`no ${JSON.stringify(text)}: ${this.received}`);
			this.run(SLICE_S);
		}
		this.received = this.received.slice(this.received.indexOf(text) + text.length);
	}
	restart() {
		return new Board(this.simulator.rp2040.flash, this.watchdog.reason);
	}
}

/**
 * @param {string} folder
 * @returns {Generator<string>}
 */
function* walk(folder) {
	for (const name of readdirSync(folder)) {
		const path = join(folder, name);
		if (statSync(path).isDirectory()) yield* walk(path);
		else yield path;
	}
}

/** @param {Board} board */
function install(board) {
	board.run(0.5); // until USB is there
	board.send("\x03\x01");
	board.runUntil("raw REPL; CTRL-B to exit\r\n>");
	/** @param {string} code */
	const execute = (code) => {
		for (let at = 0; at < code.length; at += 200) {
			board.send(code.slice(at, at + 200));
			board.run(0.05);
		}
		board.send("\x04");
		board.runUntil("OK");
		board.runUntil("\x04", 20);
		board.runUntil("\x04>");
	};
	execute("import os\nos.mkdir('lib')\nos.mkdir('lib/naproxy_meter')\n");
	for (const path of walk(files)) {
		execute(`f=open('${relative(files, path)}','wb')\n`);
		const data = readFileSync(path);
		for (let at = 0; at < data.length; at += 256)
			execute(`f.write(bytes.fromhex('${data.subarray(at, at + 256).toString("hex")}'))\n`);
		execute("f.close()\n");
	}
	board.send("import machine\nmachine.reset()\n\x04");
	while (!board.restarted) board.run(SLICE_S);
}

let board = new Board(null, 0);
install(board);
board = board.restart();

let offset_s = 0;
for (const step of JSON.parse(readFileSync(0, "utf8"))) {
	while (offset_s + board.now_s < step.at_s) {
		board.run(SLICE_S);
		process.stdout.write(Buffer.from(board.received, "latin1"));
		board.received = "";
		if (board.restarted) {
			offset_s += board.now_s;
			board = board.restart();
		}
	}
	process.stdout.write(`\n# ${step.do}\n`);
	if (step.do === "send") board.send(step.text);
	else if (step.do === "listen") board.listen(true);
	else if (step.do === "stop listening") board.listen(false);
	else if (step.do === "brown out") board.chip.powerOn();
	else if (step.do === "unplug") board.chip.plugged = false;
	else if (step.do === "plug") board.chip.plugged = true;
	else if (step.do === "hang") board.hang(step.seconds);
	else if (step.do === "load") board.chip.shunt = Number(step.text);
	else if (step.do !== "end") throw new Error(`what is ${step.do}?`);
}
