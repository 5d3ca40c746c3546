/** A report on all that a rewrite needs. It holds no text of the user's. */

import * as vscode from 'vscode';
import { outcomeOf } from './run';
import type { Server } from './server';
import { setting } from './settings';

const SCHEME = 'stet-doctor';
const REPORT = vscode.Uri.from({ scheme: SCHEME, path: 'Stet: Doctor.md' });

/** The report is a document that nobody is asked to save. */
export class Doctor implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly subscription = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);
  private content = '';

  constructor(private readonly server: Server) {}

  dispose(): void {
    vscode.Disposable.from(this.subscription, this.changed).dispose();
  }

  provideTextDocumentContent(): string {
    return this.content;
  }

  async show(): Promise<void> {
    const options = {
      location: vscode.ProgressLocation.Notification,
      title: 'Stet: looking at everything a rewrite needs',
    };
    this.content = await vscode.window.withProgress(options, () => report(this.server));
    this.changed.fire(REPORT);
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(REPORT), { preview: false });
  }
}

async function report(server: Server): Promise<string> {
  const client = await server.startIfFound();
  const { isTrusted } = vscode.workspace;
  const lines = [
    '# Stet: doctor',
    '',
    `- VS Code ${vscode.version}${vscode.env.remoteName ? ` (remote: ${vscode.env.remoteName})` : ''}`,
    `- folder trusted: ${isTrusted ? 'yes' : 'no, so no server is started'}`,
    `- language server: ${server.problem ?? (client ? 'running' : 'not started')}`,
  ];
  if (!client) {
    const remedy = isTrusted
      ? 'run *Stet: Install the Server…*, or let the setting `stet.path` name the program `stet`; *Stet: Show the Log* has more'
      : 'run *Workspaces: Manage Workspace Trust*, if you trust what is in the folder';
    return `${lines.join('\n')}\n- what to do: ${remedy}\n`;
  }
  const start = performance.now();
  // A reject of a job that nobody knows does nothing, and is answered.
  await client.sendRequest('stet/reject', { jobId: 'doctor' });
  lines.push(`- it answered in ${Math.round(performance.now() - start)} ms`);
  const program = await server.program();
  if (program) {
    lines.push(`- program: ${[program.command, ...program.args].join(' ')} (${program.source})`);
    for (const words of [
      ['--version'],
      ['doctor', '--model', setting<string>('model') || 'auto'],
      ['models', 'list'],
    ]) {
      const { stdout, stderr } = await outcomeOf(program, words);
      lines.push('', `## stet ${words.join(' ')}`, '', '```', (stdout + stderr).trim(), '```');
    }
  }
  return `${lines.join('\n')}\n`;
}
