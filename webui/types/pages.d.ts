// What the pages pass around: mostly parts of what the API answers.

// Account
type Account = Api["GET /api/account"];
type Session = Account["sessions"][number];
type Token = Account["tokens"][number];
type User = Api["GET /api/users"]["users"][number];

// Now
type Now = Api["GET /api/now"];
type Server = Now["servers"][number];
type Power = NonNullable<Server["power"]>;
type Sums = Api["GET /api/now/overview"] & { month?: { net_j: number; money: number | null } };
type Todo = Api["GET /api/now/checklist"]["lines"][number];
type Overview = { lines: Todo[]; saved: Sums | null };
type LogRow = Api["GET /api/now/log"]["rows"][number];
type LogCount = Api["GET /api/now/log"]["counts"][number];
type Woken = NonNullable<Server["woken"]>;

// History
type Period = Api["GET /api/history/range"];
type Asked = Record<string, string | null | undefined>;
/** What the parts of the history are told. */
interface Told {
	server: string;
	from_s: number;
	to_s: number;
	now_s: number;
	/** The day, week, ... of which this is a part, or that it is. */
	whole: Span | null;
	zoom: (from_s: number, to_s: number) => void;
	/** Show the whole. */
	back: () => void;
	/** What the address asks for, and a way to ask for something else. */
	asked: Record<string, string>;
	go: (changes: Asked) => void;
	/** Is it still what is wanted? */
	current: () => boolean;
	/** Say in its place if a part could not be read. */
	follow: (place: HTMLElement, work: Promise<unknown>) => Promise<void>;
}
interface Span {
	from_s: number;
	to_s: number;
}
/** What a chart shows, and where in its element. */
interface Axis extends Span {
	left: number;
	right: number;
}
type LedgerRow = Api["GET /api/history/wakes"]["rows"][number];
type Wake = Omit<LedgerRow, "ruled">;
type States = Api["GET /api/history/states"];
type Stretch = States["stretches"][number];
type Part = States["parts"][number];
/** Of the strip of states: exact, or how long which of them was. */
type Piece = Stretch | Part;
type Strip = Pick<Told, "server" | "from_s" | "to_s" | "zoom"> & {
	states: States;
	meters: Meter[];
};
/** What a row of one line shows, and what it shows when it is open. */
interface Line {
	head: Child;
	body: () => Child;
	looks?: string;
}
/** A list of such rows that is read page by page. */
interface Listed<Row> {
	path: string;
	query: Query;
	row: (row: Row) => Line;
	none: string;
	label: string;
	current: () => boolean;
}
type Meter = Api["GET /api/history/power"]["meters"][number];
type Energy = Api["GET /api/history/energy"];
type EnergyDay = Energy["days"][number];
interface EnergySeries extends BarSeries {
	name: string;
	hatched?: Hatch;
	values: (number | null)[];
}
type Rule = Api["GET /api/history/rules"]["rules"][number];
type Rules = Api["GET /api/history/rules"];
type Trial = Api["GET /api/history/rule"];
type Wakers = Api["GET /api/history/wakers"];
type Group = Wakers["groups"][number];
type By = Trial["kind"];
/** Texts that a rule could be about. */
type Suggestions = { [kind in By]?: string | null };
interface RuleForm {
	element: HTMLFormElement;
	input: HTMLInputElement;
	label: HTMLLabelElement;
	preview: HTMLElement;
	make: HTMLButtonElement;
	kind: () => By;
	found: Suggestions;
}

// Savings
type Saved = Api["GET /api/savings"];
type Paid = Api["GET /api/savings/paid"];
type Hindsight = Api["GET /api/savings/hindsight"];
interface Savings {
	scope: { server: string; view: string; day?: string };
	saved: Saved;
	current: () => boolean;
}
/** What the API says to be an object, and no more. */
type Loose = Record<string, any>;
/** What hindsight found. */
interface Findings {
	made_s: number;
	rows: Loose[];
	thresholds: Loose[];
	budgets: Loose[];
	costs?: Loose;
	actual: Loose;
	span: Loose;
	question: Loose;
}
interface Compared {
	now: Findings;
	after: Findings;
	policy: string;
	assumed: Loose;
}

// Traffic
type TrafficDays = Api["GET /api/traffic/days"];
type Agents = Api["GET /api/traffic/agents"];
type Gaps = Api["GET /api/traffic/gaps"];
type Week = Api["GET /api/traffic/week"];
type CacheFill = Api["GET /api/traffic/cache"]["cache"];
type CacheWarming = Api["GET /api/traffic/cache"]["warming"][number];
type CachePages = Api["GET /api/traffic/cache"]["pages"][number];
type Estimate = Api["GET /api/traffic/estimate"];
/** What an estimate found of a log. */
interface Log {
	log: string;
	from_s: number | null;
	days: number;
	requests: Record<string, number>;
	verdict: Loose | null;
	problems: { words: string }[];
	/** Why no advice can be given, and how the log was read; an older result has neither. */
	doubts?: { words: string }[];
	understood?: { words: string }[];
	not_understood: { line: number; text: string }[];
	rows: Loose[];
	/** Hour since 1970, people, robots. */
	hours: number[][];
	gaps: { length_s: number; count_share: number; time_share: number }[];
	idealised: { threshold_s: number; saving: number }[];
}
interface LogCard {
	log: Log;
	figures: Record<string, HTMLElement>;
	week: HTMLElement;
}

// Update
type Update = Api["GET /api/update"];
type Slot = Update["slots"][number];
type Job = Update["job"];
type Press = (button: HTMLElement) => unknown;
interface ImagesDo {
	looks_only: boolean;
	back: Press;
	stay: Press;
	restart: Press;
}

// The first run
type SetupJob = Omit<Api["GET /api/setup/scan"], "result" | "error"> & {
	result: any;
	error: any;
};
type Proof = Api["GET /api/setup/proof"] & { report: any; power: { measured: any } };
interface Following {
	body?: object | null;
	query?: Query | null;
	fresh?: boolean;
	show?: (status: SetupJob) => unknown;
}

// Settings
interface Change {
	op: "set" | "add" | "remove";
	where: string;
	value?: any;
}
/** Begin and end of a part of a day. */
type Minutes = [number, number];
/** Days of the week, or a date, and minutes; past 1440 they are of the next day. */
interface Hours {
	days: number[];
	date: string | null;
	begin: number;
	end: number;
}
