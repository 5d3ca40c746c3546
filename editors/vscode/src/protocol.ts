/** The messages of docs/protocol.md that go beyond LSP, as far as this client uses them. Values only. */

export interface Position {
  line: number;
  character: number;
}

export interface Range {
  start: Position;
  end: Position;
}

export interface Hunk {
  id: number;
  range: Range;
  oldText: string;
  newText: string;
  /** What differs within the old lines, where lines became others. */
  removed: Range[];
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

/** What is wanted of it. */
export type Task = { instruction: string } | { recipe: string; diagnostics?: unknown[] };

/** How another try is made to differ from the one before. */
export interface Sampling {
  again?: boolean;
  temperature?: number;
  seed?: number;
}

export interface Figures {
  eta?: number | null;
  message: string;
}

export interface Progress extends Figures {
  jobId: string;
  uri: string;
  state: 'starting' | 'loading' | 'queued' | 'prefill' | 'writing' | 'done' | 'failed' | 'cancelled' | 'stale';
  version?: number;
  range?: Range;
  hunks: Hunk[];
  droppedHunks: DroppedHunk[];
  line?: number;
}

export interface RewriteResult {
  jobId: string;
  status: 'proposed' | 'unchanged';
  version: number;
  range: Range;
  hunks: Hunk[];
  droppedHunks: DroppedHunk[];
  /** Reasons to look before accepting. */
  warnings: { code: string; message: string }[];
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
}

/** JSON-RPC codes of requests that ended because somebody wanted them to: nothing to tell the user. */
export const QUIET_CODES = [-32800, -32802];
