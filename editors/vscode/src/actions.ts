/** What the commands do with the editor that is in front. */

import * as vscode from 'vscode';
import type { Instructions } from './instruction';
import type { Job, PlacedHunk } from './job';
import type { Target, Task } from './protocol';
import { documentUri, type Proposals } from './proposals';
import type { Rewrites } from './rewrites';
import type { Server } from './server';

/** What an instruction needs on its way. */
export interface User {
  rewrites: Rewrites;
  server: Server;
  instructions: Instructions;
}

/** A keybinding may bring the instruction: `"args": {"instruction": "Add type hints"}`; so may one that names a recipe. */
export async function rewriteSelection(user: User, argument: unknown): Promise<void> {
  const editor = editorInFront();
  if (editor) {
    await rewrite(user, targetOf(editor.document, editor.selection), argument);
  }
}

export async function rewriteFile(user: User, argument: unknown): Promise<void> {
  const document = editorInFront()?.document;
  if (document) {
    const end = document.lineAt(document.lineCount - 1).range.end;
    await rewrite(user, targetOf(document, new vscode.Range(new vscode.Position(0, 0), end)), argument);
  }
}

/** The last instruction once more, for what is selected now. */
export async function repeat(user: User): Promise<void> {
  const last = user.rewrites.last;
  if (last) {
    await rewriteSelection(user, last.task);
  } else {
    say('there is no instruction yet to repeat');
  }
}

/** Drop the proposal and ask again, with some chance in it: greedy decoding would write the same. */
export async function regenerate(rewrites: Rewrites): Promise<void> {
  const job = jobInFront(rewrites, 'try again');
  if (!job) {
    return;
  }
  const target = { textDocument: { uri: job.uri.toString() }, range: job.range };
  const sampling = { temperature: 0.6, seed: Math.floor(Math.random() * 2 ** 31) };
  await rewrites.run({ target, task: job.order.task, sampling });
}

export function cancel(rewrites: Rewrites): void {
  const job = jobInFront(rewrites, 'cancel');
  if (job) {
    rewrites.drop(job.uri);
  }
}

export async function accept(rewrites: Rewrites): Promise<void> {
  const job = proposalInFront(rewrites);
  if (job) {
    await rewrites.accept(job);
  }
}

export function reject(rewrites: Rewrites): void {
  const job = jobInFront(rewrites, 'reject');
  if (job) {
    rewrites.drop(job.uri);
  }
}

export async function acceptHunk(rewrites: Rewrites, id: unknown): Promise<void> {
  const job = proposalInFront(rewrites);
  const hunk = job && hunkOf(job, id);
  if (hunk) {
    await rewrites.accept(job, hunk.id);
    goTo(nextAfter(job.hunks, hunk.first - 1));
  }
}

export async function rejectHunk(rewrites: Rewrites, id: unknown): Promise<void> {
  const job = proposalInFront(rewrites);
  const hunk = job && hunkOf(job, id);
  if (hunk) {
    await rewrites.reject(job, hunk.id);
    goTo(nextAfter(job.hunks, hunk.first - 1));
  }
}

export function goToHunk(rewrites: Rewrites, direction: 1 | -1): void {
  const job = jobInFront(rewrites, 'go through');
  const line = vscode.window.activeTextEditor?.selection.active.line ?? 0;
  if (job) {
    goTo(
      direction === 1
        ? nextAfter(job.hunks, line)
        : (job.hunks.findLast(({ first }) => first < line) ?? job.hunks.at(-1)),
    );
  }
}

export async function showChanges(rewrites: Rewrites, proposals: Proposals): Promise<void> {
  const job = jobInFront(rewrites, 'show');
  if (job) {
    await proposals.show(job);
  }
}

async function rewrite({ rewrites, instructions }: User, target: Target, argument: unknown): Promise<void> {
  const task = isTask(argument) ? argument : await instructions.ask(target);
  if (task) {
    await rewrites.run({ target, task, sampling: {} });
  }
}

function isTask(argument: unknown): argument is Task {
  return typeof argument === 'object' && argument !== null && ('instruction' in argument || 'recipe' in argument);
}

function targetOf(document: vscode.TextDocument, range: vscode.Range): Target {
  const { start, end } = range;
  return {
    textDocument: { uri: document.uri.toString(), version: document.version },
    range: {
      start: { line: start.line, character: start.character },
      end: { line: end.line, character: end.character },
    },
  };
}

function editorInFront(): vscode.TextEditor | undefined {
  const editor = vscode.window.activeTextEditor;
  if (!editor) {
    say('open the file to rewrite first');
  }
  return editor;
}

function jobInFront(rewrites: Rewrites, wanted: string): Job | undefined {
  const uri = vscode.window.activeTextEditor?.document.uri;
  const job = uri && rewrites.at(documentUri(uri));
  if (!job) {
    say(`there is no rewrite to ${wanted} in this editor`);
  }
  return job;
}

function proposalInFront(rewrites: Rewrites): Job | undefined {
  const job = jobInFront(rewrites, 'accept');
  if (job?.state === 'running') {
    say('it is still being written');
    return undefined;
  }
  return job;
}

/** The hunk that a code lens names, or the one at the cursor or next after it. */
function hunkOf(job: Job, id: unknown): PlacedHunk | undefined {
  const line = vscode.window.activeTextEditor?.selection.active.line ?? 0;
  return typeof id === 'number'
    ? job.hunks.find((hunk) => hunk.id === id)
    : (job.hunks.find(({ first, stop }) => first <= line && line < Math.max(stop, first + 1)) ??
        nextAfter(job.hunks, line));
}

function nextAfter(hunks: readonly PlacedHunk[], line: number): PlacedHunk | undefined {
  return hunks.find(({ first }) => first > line) ?? hunks[0];
}

function goTo(hunk: PlacedHunk | undefined): void {
  const editor = vscode.window.activeTextEditor;
  if (hunk && editor) {
    const position = editor.document.validatePosition(new vscode.Position(hunk.first, 0));
    editor.selection = new vscode.Selection(position, position);
    editor.revealRange(new vscode.Range(position, position), vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  }
}

function say(text: string): void {
  void vscode.window.showInformationMessage(`Stet: ${text}`);
}
