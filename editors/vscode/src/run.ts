/** Runs the server's program for a word or two: out of sight, or in a terminal where the user can watch. */

import { execFile } from 'node:child_process';
import * as vscode from 'vscode';
import type { Program } from './find';

const TIMEOUT_MS = 120_000;

export interface Outcome {
  isOk: boolean;
  stdout: string;
  stderr: string;
}

/** What the program says. Nobody is there whom it could ask. */
export function outcomeOf({ command, args }: Program, words: readonly string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    // In a pipe Python writes the code page of Windows, Node reads UTF-8.
    const options = { timeout: TIMEOUT_MS, env: { ...process.env, PYTHONUTF8: '1' } };
    const child = execFile(command, [...args, ...words], options, (error, stdout, stderr) => {
      resolve({ isOk: !error, stdout, stderr: stderr || (error?.message ?? '') });
    });
    child.stdin?.end();
  });
}

/** The exit status; undefined if the user closed the terminal. No shell reads the words. */
export async function runInTerminal([program, ...args]: string[], name: string): Promise<number | undefined> {
  const run = new vscode.ProcessExecution(program ?? '', args);
  const task = new vscode.Task({ type: 'process' }, vscode.TaskScope.Workspace, name, 'Stet', run);
  const execution = await vscode.tasks.executeTask(task);
  return new Promise((resolve) => {
    const ends = vscode.tasks.onDidEndTaskProcess((event) => {
      if (event.execution === execution) {
        ends.dispose();
        resolve(event.exitCode);
      }
    });
  });
}

/** Ask before something happens that takes network or disk. */
export async function agreed(question: string, detail: string, yes: string): Promise<boolean> {
  return (await vscode.window.showInformationMessage(question, { modal: true, detail }, yes)) === yes;
}
