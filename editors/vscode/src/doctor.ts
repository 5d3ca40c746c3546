/** A report on all that a rewrite needs. It holds no text of the user's. */

import * as vscode from 'vscode';
import { outcomeOf } from './run';
import type { Server } from './server';
import { setting } from './settings';

export async function doctor(server: Server): Promise<void> {
  const options = {
    location: vscode.ProgressLocation.Notification,
    title: 'Stet: looking at everything a rewrite needs',
  };
  const content = await vscode.window.withProgress(options, () => report(server));
  await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ language: 'markdown', content }));
}

async function report(server: Server): Promise<string> {
  const client = await server.startIfFound();
  const lines = [
    '# Stet: doctor',
    '',
    `- VS Code ${vscode.version}${vscode.env.remoteName ? ` (remote: ${vscode.env.remoteName})` : ''}`,
    `- folder trusted: ${vscode.workspace.isTrusted ? 'yes' : 'no, so no server is started'}`,
    `- language server: ${server.problem ?? (client ? 'running' : 'not started')}`,
  ];
  if (client) {
    const start = performance.now();
    // A reject of a job that nobody knows does nothing, and is answered.
    await client.sendRequest('stet/reject', { jobId: 'doctor' });
    lines.push(`- it answered in ${Math.round(performance.now() - start)} ms`);
  }
  const program = client && (await server.program());
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
