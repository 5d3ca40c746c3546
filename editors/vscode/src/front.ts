/** What is in front of the user: the editor, the rewrite and the hunk at its cursor. */

import * as vscode from 'vscode';
import type { Job, PlacedHunk } from './job';
import { documentUri } from './proposals';
import type { Rewrites } from './rewrites';

export interface HunkAt {
  job: Job;
  hunk: PlacedHunk;
}

export function editorInFront(): vscode.TextEditor | undefined {
  const editor = vscode.window.activeTextEditor;
  if (!editor) {
    say('open the file to rewrite first');
  }
  return editor;
}

/** Of the document; of a proposal beside it, the same. */
export function uriInFront(): vscode.Uri | undefined {
  const uri = vscode.window.activeTextEditor?.document.uri;
  return uri && documentUri(uri);
}

export function lineInFront(): number {
  return vscode.window.activeTextEditor?.selection.active.line ?? 0;
}

/** The rewrite that a code lens names; or the one at the cursor, else the next. Menus give a command other things: not meant. */
export function jobInFront(
  rewrites: Rewrites,
  wanted: string,
  id?: unknown,
  isMeant?: (job: Job) => boolean,
): Job | undefined {
  const uri = uriInFront();
  const job = typeof id === 'string' ? rewrites.jobs.get(id) : uri && rewrites.jobs.near(uri, lineInFront(), isMeant);
  if (!job) {
    say(`there is no rewrite to ${wanted} in this editor`);
  }
  return job;
}

export function proposalInFront(rewrites: Rewrites, wanted: string, id: unknown): Job | undefined {
  const uri = uriInFront();
  const hasOne = uri && rewrites.jobs.shown(uri).some(isProposed);
  const job = jobInFront(rewrites, wanted, id, hasOne ? isProposed : undefined);
  if (job && !isProposed(job)) {
    say('it is still being written');
    return undefined;
  }
  return job;
}

/** Of all rewrites that are shown, in the order of the document. */
export function hunksInFront(rewrites: Rewrites): HunkAt[] {
  const uri = uriInFront();
  return uri ? rewrites.jobs.shown(uri).flatMap((job) => job.hunks.map((hunk) => ({ job, hunk }))) : [];
}

/** The hunk that a code lens names, or the one at the cursor or next after it. */
export function hunkInFront(rewrites: Rewrites, wanted: string, id: unknown, hunkId: unknown): HunkAt | undefined {
  const job = proposalInFront(rewrites, wanted, id);
  const hunks = job ? hunksInFront(rewrites).filter((at) => isProposed(at.job)) : [];
  if (typeof hunkId === 'number') {
    return hunks.find((at) => at.job === job && at.hunk.id === hunkId);
  }
  const line = lineInFront();
  const isHere = ({ hunk: { first, stop } }: HunkAt): boolean => first <= line && line < Math.max(stop, first + 1);
  return hunks.find(isHere) ?? nextAfter(hunks, line);
}

export function nextAfter(hunks: readonly HunkAt[], line: number): HunkAt | undefined {
  return hunks.find(({ hunk }) => hunk.first > line) ?? hunks[0];
}

export function goTo(at: HunkAt | undefined): void {
  const editor = vscode.window.activeTextEditor;
  if (at && editor) {
    const position = editor.document.validatePosition(new vscode.Position(at.hunk.first, 0));
    editor.selection = new vscode.Selection(position, position);
    editor.revealRange(new vscode.Range(position, position), vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  }
}

export function say(text: string): void {
  void vscode.window.showInformationMessage(`Stet: ${text}`);
}

function isProposed(job: Job): boolean {
  return job.state === 'proposed';
}
