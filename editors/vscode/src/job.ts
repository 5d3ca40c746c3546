/** One rewrite as this side knows it: what is asked, how far it is, and where its hunks stand now. Asks and draws nothing. */

import * as vscode from 'vscode';
import type { Change } from './drawing';
import type {
  DroppedHunk,
  Hunk,
  NewPart,
  Progress,
  Range,
  RewriteResult,
  Target,
  Task,
  Used,
  Warning,
} from './protocol';
import { moved, movedSince, type Span, spanOf, type Version } from './spans';

/** A hunk where it stands in the newest version of the document. */
export interface PlacedHunk extends Change {
  id: number;
}

/** All that makes a rewrite: enough to ask for it again. */
export interface Order {
  target: Target;
  task: Task;
  /** Another try after an answer that changed nothing. */
  again?: boolean;
  /** The proposal that this is another version of, or that it goes on from. */
  after?: { job: Job; as: 'alternativeTo' | 'refines' };
}

/** Where versions of a rewrite stand side by side. */
export interface Place {
  shown: Job;
}

let nJobs = 0;

export class Job {
  readonly id = `vscode-${process.pid}-${++nJobs}`;
  readonly uri: vscode.Uri;
  readonly place: Place;
  readonly stop = new vscode.CancellationTokenSource();
  state: 'running' | 'proposed' = 'running';
  /** Accepts wait for each other here. */
  turn = Promise.resolve();
  /** What it is doing, with figures, for a person. */
  message = 'asking';
  eta: number | undefined;
  /** What was asked, in words. */
  words: string;
  hunks: PlacedHunk[] = [];
  warnings: readonly Warning[] = [];
  /** The user has seen the warnings and wants it all the same. */
  isConfirmed = false;
  /** What project files have put into the prompt. */
  context: readonly Used[] = [];
  /** The lines being rewritten; undefined until the server has said which. */
  span: Span | undefined;
  /** Writing has reached this line. */
  line: number | undefined;
  /** Characters that it begins and ends at. */
  private columns = { start: 0, end: 0 };
  private readonly history: Version[] = [];
  private readonly told = new Set<number>();

  constructor(readonly order: Order) {
    this.uri = vscode.Uri.parse(order.target.textDocument.uri);
    this.place = order.after?.job.place ?? { shown: this };
    this.words = 'instruction' in order.task ? order.task.instruction : order.task.recipe;
  }

  /** What to ask elsewhere to get the same: after a refinement, both instructions. */
  get whole(): Task {
    const { task, after } = this.order;
    if (!after) {
      return task;
    }
    const before = after.job.whole;
    const words = 'instruction' in before ? before.instruction : after.job.words;
    return after.as === 'refines' ? { instruction: `${words}\n${this.words}` } : before;
  }

  /** Of stet/rewrite. The server knows the range of a proposal, and what was asked for it. */
  get params(): object {
    const { target, task, again, after } = this.order;
    const common = { jobId: this.id, ...(again ? { again } : {}) };
    if (!after) {
      return { ...target, ...task, ...common };
    }
    const textDocument = { uri: target.textDocument.uri };
    return { textDocument, [after.as]: after.job.id, ...(after.as === 'refines' ? task : {}), ...common };
  }

  /** What is being rewritten, as it stands now. */
  get range(): Range {
    if (!this.span) {
      return this.order.target.range;
    }
    const { first, stop } = this.span;
    const { start, end } = this.columns;
    return {
      start: { line: first, character: start },
      end: { line: end > 0 ? stop - 1 : stop, character: end },
    };
  }

  /** Take what the server says. It may speak of a version that is older than the document. */
  take({ message, eta, version, range, hunks, line, instruction, context }: Progress): void {
    this.message = message;
    this.eta = eta ?? undefined;
    this.words = instruction ?? this.words;
    this.context = context ?? this.context;
    if (version !== undefined && range) {
      this.setPlaces(version, range, hunks);
      this.line = line === undefined ? undefined : movedSince({ first: line, stop: line }, version, this.history).first;
    }
  }

  propose({ version, range, hunks, warnings }: RewriteResult): void {
    this.state = 'proposed';
    this.eta = undefined;
    this.line = undefined;
    this.warnings = warnings;
    this.setPlaces(version, range, hunks);
  }

  /** Forget all hunks but these. */
  keep(ids: readonly number[]): void {
    this.hunks = this.hunks.filter((hunk) => ids.includes(hunk.id));
  }

  /** Follow an edit of the document. */
  follow(event: vscode.TextDocumentChangeEvent): void {
    const edits = event.contentChanges;
    this.history.push({ version: event.document.version, edits });
    const follow = (span: Span): Span => edits.reduce(moved, span);
    this.hunks = this.hunks.map((hunk) => ({ ...hunk, ...follow(hunk) }));
    this.span = this.span && follow(this.span);
    this.line = this.line === undefined ? undefined : follow({ first: this.line, stop: this.line }).first;
  }

  /** Those that the user has not been told of. */
  newlyDropped(dropped: readonly DroppedHunk[]): DroppedHunk[] {
    const news = dropped.filter(({ id }) => !this.told.has(id));
    news.forEach(({ id }) => this.told.add(id));
    return news;
  }

  private setPlaces(version: number, range: Range, hunks: readonly Hunk[]): void {
    const placed = (of: Range): Span => movedSince(spanOf(of), version, this.history);
    this.span = placed(range);
    this.columns = { start: range.start.character, end: range.end.character };
    this.hunks = hunks.map(({ id, range: of, newText, removed, added, written }) => ({
      id,
      newText,
      ...placed(of),
      removed: removed.map(({ start, end }) => ({
        row: start.line - of.start.line,
        start: start.character,
        end: end.character,
      })),
      added: added.map(rowOf),
      written: written?.map(rowOf),
    }));
  }
}

function rowOf({ line, start, end }: NewPart): { row: number; start: number; end: number } {
  return { row: line, start, end };
}
