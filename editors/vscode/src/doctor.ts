/** A report on all that a rewrite needs. It holds no text of the user's. */

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import * as vscode from 'vscode';
import type { Program } from './find';
import type { Server } from './server';

const TIMEOUT_MS = 20_000;

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
    for (const args of [['--version'], ['engine', 'status'], ['models', 'list']]) {
      lines.push('', `## stet ${args.join(' ')}`, '', '```', await output(program, args), '```');
    }
  }
  return `${lines.join('\n')}\n`;
}

/** What the program says, whatever its exit status. */
async function output(program: Program, args: string[]): Promise<string> {
  try {
    const run = promisify(execFile);
    const { stdout, stderr } = await run(program.command, [...program.args, ...args], { timeout: TIMEOUT_MS });
    return (stdout + stderr).trim();
  } catch (error) {
    const { stdout, stderr, message } = error as Error & { stdout?: string; stderr?: string };
    return `${stdout ?? ''}${stderr ?? ''}`.trim() || message;
  }
}
