/** Code lenses: what can be done with a rewrite, above its first line, and above each of its hunks. */

import * as vscode from 'vscode';
import type { Job } from './job';
import type { Rewrites } from './rewrites';

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
    const job = this.rewrites.at(document.uri);
    if (!job?.span) {
      return [];
    }
    const last = document.lineCount - 1;
    const top = job.span.first;
    const above = job.hunks.flatMap((hunk, index) =>
      job.state === 'proposed'
        ? [
            lens(hunk.first, last, `$(check) Accept change ${index + 1} of ${job.hunks.length}`, 'acceptHunk', hunk.id),
            lens(hunk.first, last, '$(close) Reject', 'rejectHunk', hunk.id),
          ]
        : [],
    );
    return [...summary(job).map(([title, command]) => lens(top, last, title, command)), ...above];
  }
}

function summary(job: Job): [string, string][] {
  if (job.state === 'running') {
    return [
      ['$(stop-circle) Cancel (Esc)', 'cancel'],
      ['$(diff) Show side by side', 'showChanges'],
    ];
  }
  return [
    [`$(check-all) Accept all ${job.hunks.length}`, 'accept'],
    ['$(discard) Reject all', 'reject'],
    ['$(refresh) Try again', 'regenerate'],
    ['$(diff) Show side by side', 'showChanges'],
  ];
}

function lens(line: number, last: number, title: string, command: string, ...ids: number[]): vscode.CodeLens {
  const at = new vscode.Position(Math.min(line, last), 0);
  return new vscode.CodeLens(new vscode.Range(at, at), { title, command: `stet.${command}`, arguments: ids });
}
