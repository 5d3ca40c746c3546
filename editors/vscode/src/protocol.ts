/** The messages of docs/protocol.md that go beyond LSP, as far as this client uses them. Values only. */

export interface Position {
  line: number;
  character: number;
}

export interface Range {
  start: Position;
  end: Position;
}

/** Characters of a line of a hunk's new text. */
export interface NewPart {
  line: number;
  start: number;
  end: number;
}

export interface Hunk {
  id: number;
  range: Range;
  oldText: string;
  newText: string;
  /** What differs within the old lines, where lines became others. */
  removed: Range[];
  /** What differs within the new ones. */
  added: NewPart[];
  /** What the model wrote itself; the rest it copied. */
  written?: NewPart[] | null;
}

/** A hunk that can't be accepted any more: its lines were edited. */
export interface DroppedHunk {
  id: number;
  reason: string;
}

/** What a rewrite is asked of: the params of stet/prepare. */
export interface Target {
  textDocument: { uri: string; version?: number };
  range: Range;
}

export interface Diagnostic {
  range: Range;
  message: string;
}

/** What is wanted of it. */
export type Task = { instruction: string } | { recipe: string; diagnostics?: Diagnostic[] };

/** A reason to look before accepting. */
export interface Warning {
  code: string;
  message: string;
}

/** What a project file has put into the prompt. */
export interface Used {
  path: string;
  kind: string;
  characters: number;
  cut: boolean;
}

export interface Progress {
  jobId: string;
  uri: string;
  state: 'starting' | 'loading' | 'queued' | 'prefill' | 'writing' | 'done' | 'failed' | 'cancelled' | 'stale';
  /** The state in words, with figures. */
  message: string;
  /** What was asked, in words. */
  instruction?: string;
  version?: number;
  range?: Range;
  hunks: Hunk[];
  droppedHunks: DroppedHunk[];
  line?: number;
  copiedShare?: number | null;
  tokensPerSecond?: number | null;
  eta?: number | null;
  context?: Used[];
}

export interface RewriteResult {
  jobId: string;
  status: 'proposed' | 'unchanged';
  version: number;
  range: Range;
  hunks: Hunk[];
  droppedHunks: DroppedHunk[];
  warnings: Warning[];
  context: Used[];
}

export interface AcceptResult {
  applied: boolean;
  acceptedHunks: number[];
  remainingHunks: Hunk[];
  droppedHunks: DroppedHunk[];
  message: string;
}

export interface Recipe {
  id: string;
  title: string;
  kind: 'builtin' | 'user' | 'project';
}

/** JSON-RPC codes of requests that ended because somebody wanted them to: nothing to tell the user. */
export const QUIET_CODES = [-32800, -32802];

/** What was asked for has to wait: it, or another version of it, is still being written or applied. */
export const BUSY = -32803;
