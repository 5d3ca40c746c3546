/** The status bar item, and the context keys that menus and keybindings ask for. */

import * as vscode from 'vscode';
import type { Job } from './job';
import { documentUri } from './proposals';
import type { Rewrites } from './rewrites';
import type { Server } from './server';

/** Characters of an instruction in the tooltip. */
const MAX_WORDS = 100;

export class Status implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem('stet', vscode.StatusBarAlignment.Right, 100);
  private readonly subscriptions: vscode.Disposable[];
  /** What the last rewrite came to, in figures. */
  private last = '';

  constructor(
    private readonly rewrites: Rewrites,
    private readonly server: Server,
  ) {
    this.item.name = 'Stet';
    // The palette, filtered: a menu that needs no upkeep.
    this.item.command = { title: 'Stet', command: 'workbench.action.quickOpen', arguments: ['>Stet: '] };
    this.subscriptions = [
      this.item,
      rewrites.onDidChange(() => this.update()),
      server.onDidChange(() => this.update()),
      vscode.window.onDidChangeActiveTextEditor(() => this.update()),
      vscode.window.onDidChangeTextEditorSelection(() => this.rewrites.jobs.in().length > 0 && this.update()),
    ];
    this.update();
    this.item.show();
  }

  /** What is shown, for the tests. */
  get text(): string {
    return this.item.text;
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  private update(): void {
    const editor = vscode.window.activeTextEditor;
    const uri = editor && documentUri(editor.document.uri);
    const shown = uri ? this.rewrites.jobs.shown(uri) : [];
    const job = uri && this.rewrites.jobs.near(uri, editor.selection.active.line);
    const isIn = (state: Job['state']): boolean => shown.some((each) => each.state === state);
    setContext('running', uri !== undefined && this.rewrites.jobs.in(uri).some(({ state }) => state === 'running'));
    setContext('proposed', isIn('proposed'));
    setContext('hasVersions', job !== undefined && this.rewrites.jobs.versions(job).length > 1);
    if (job?.state === 'proposed') {
      this.last = job.message;
    }
    this.item.text = textOf(job, shown.length, this.server.problem);
    this.item.tooltip = this.tooltip(job);
  }

  private tooltip(job: Job | undefined): vscode.MarkdownString {
    const { problem } = this.server;
    const used = [...new Set(job?.context.map(({ path }) => path))];
    const lines = [
      problem ? `Stet: ${problem}` : 'Stet',
      job ? `“${shortened(job.words)}”: ${job.message}${timeLeft(job)}` : this.last && `The last rewrite: ${this.last}`,
      used.length > 0 ? `In the prompt: ${used.join(', ')}` : '',
      'Click for all commands.',
    ];
    // As text: others have written some of it.
    return new vscode.MarkdownString().appendText(lines.filter(Boolean).join('\n'));
  }
}

function setContext(name: string, value: boolean): void {
  void vscode.commands.executeCommand('setContext', `stet.${name}`, value);
}

/** Of the rewrite at the cursor; nShown: of all in this editor. */
function textOf(job: Job | undefined, nShown: number, problem: string | undefined): string {
  if (!job) {
    return problem ? '$(warning) Stet' : '$(edit) Stet';
  }
  const others = nShown > 1 ? ` (+${nShown - 1})` : '';
  return job.state === 'proposed'
    ? `$(edit) Stet: ${job.hunks.length} to review, ${job.message}${others}`
    : `$(sync~spin) Stet: ${job.message}${timeLeft(job)}${others}`;
}

function shortened(words: string): string {
  return words.length > MAX_WORDS ? `${words.slice(0, MAX_WORDS)}…` : words;
}

function timeLeft({ eta }: Job): string {
  return eta === undefined ? '' : `, ${Math.ceil(eta)} s left`;
}
