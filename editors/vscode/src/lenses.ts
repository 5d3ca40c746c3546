/** Code lenses: what can be done with a rewrite, above its first line, and above each of its hunks. */

import * as vscode from 'vscode';
import type { Job } from './job';
import type { Rewrites } from './rewrites';

/** A lens: what it says, and the command that it runs; none: it only says it. */
type Said = [title: string, command?: string];

export class Lenses implements vscode.CodeLensProvider, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeCodeLenses = this.changed.event;
  private readonly subscription: vscode.Disposable;

  constructor(private readonly rewrites: Rewrites) {
    this.subscription = rewrites.onDidChange(() => this.changed.fire());
  }

  dispose(): void {
    vscode.Disposable.from(this.subscription, this.changed).dispose();
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const last = document.lineCount - 1;
    return this.rewrites.jobs.shown(document.uri).flatMap((job) => {
      const top = job.span?.first;
      if (top === undefined) {
        return [];
      }
      // One change right below the summary can do without lenses of its own.
      const isAll = job.hunks.length === 1 && job.hunks[0]?.first === top;
      const above = job.hunks.flatMap((hunk, index) =>
        job.state === 'proposed' && !isAll
          ? [
              lens(
                hunk.first,
                last,
                [`$(check) Accept change ${index + 1} of ${job.hunks.length}`, 'acceptHunk'],
                job,
                hunk.id,
              ),
              lens(hunk.first, last, ['$(close) Reject', 'rejectHunk'], job, hunk.id),
            ]
          : [],
      );
      return [...this.summary(job).map((said) => lens(top, last, said, job)), ...above];
    });
  }

  private summary(job: Job): Said[] {
    const versions = this.rewrites.jobs.versions(job);
    const which = `${versions.indexOf(job) + 1}/${versions.length}`;
    const others: Said[] =
      versions.length > 1
        ? [
            ['$(chevron-left)', 'previousVersion'],
            [which, 'nextVersion'],
            ['$(chevron-right)', 'nextVersion'],
          ]
        : [];
    if (job.state === 'running') {
      return [...others, ['$(stop-circle) Cancel (Esc)', 'cancel'], ['$(diff) Show side by side', 'showChanges']];
    }
    const used = job.context.map(({ path }) => path);
    return [
      ...job.warnings.map(({ message }): Said => [`$(warning) ${message}`]),
      [`$(check-all) Accept all ${job.hunks.length}`, 'accept'],
      ['$(discard) Reject all', 'reject'],
      ...others,
      ['$(comment) Now also…', 'refine'],
      ['$(refresh) Another version', 'regenerate'],
      ['$(diff) Show side by side', 'showChanges'],
      ...(used.length > 0 ? [[`$(book) with ${[...new Set(used)].join(', ')}`, 'showContext'] as Said] : []),
    ];
  }
}

function lens(line: number, last: number, [title, command]: Said, job: Job, ...ids: number[]): vscode.CodeLens {
  const at = new vscode.Position(Math.min(line, last), 0);
  const run = command ? { command: `stet.${command}`, arguments: [job.id, ...ids] } : { command: '' };
  return new vscode.CodeLens(new vscode.Range(at, at), { title, ...run });
}
