/** The status bar item, and the context keys that menus and keybindings ask for. */

import * as vscode from 'vscode';
import type { Job } from './job';
import { documentUri } from './proposals';
import type { Rewrites } from './rewrites';
import type { Server } from './server';

export class Status implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem('stet', vscode.StatusBarAlignment.Right, 100);
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly rewrites: Rewrites,
    private readonly server: Server,
  ) {
    this.item.name = 'Stet';
    this.subscriptions = [
      this.item,
      rewrites.onDidChange(() => this.update()),
      server.onDidChange(() => this.update()),
      vscode.window.onDidChangeActiveTextEditor(() => this.update()),
    ];
    this.update();
    this.item.show();
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  private update(): void {
    const uri = vscode.window.activeTextEditor?.document.uri;
    const job = uri && this.rewrites.at(documentUri(uri));
    void vscode.commands.executeCommand('setContext', 'stet.running', job?.state === 'running');
    void vscode.commands.executeCommand('setContext', 'stet.proposed', job?.state === 'proposed');
    const { problem } = this.server;
    this.item.text = job ? textOf(job) : problem ? '$(warning) Stet' : '$(edit) Stet';
    this.item.tooltip = problem ? `Stet: ${problem}` : 'Stet: all commands';
    // The palette, filtered: a menu that needs no upkeep.
    this.item.command = { title: 'Stet', command: 'workbench.action.quickOpen', arguments: ['>Stet: '] };
  }
}

function textOf(job: Job): string {
  if (job.state === 'proposed') {
    return `$(edit) Stet: ${job.hunks.length} to review, ${job.message}`;
  }
  const left = job.eta === undefined ? '' : `, ${Math.ceil(job.eta)} s left`;
  return `$(sync~spin) Stet: ${job.message}${left}`;
}
