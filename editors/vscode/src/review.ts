/** The commands that go through what was proposed, look into it, and end it. */

import * as vscode from 'vscode';
import type { View } from './drawing';
import {
  goTo,
  hunkInFront,
  hunksInFront,
  jobInFront,
  lineInFront,
  nextAfter,
  proposalInFront,
  say,
  uriInFront,
} from './front';
import type { Job } from './job';
import type { Preview } from './preview';
import type { Proposals } from './proposals';
import type { Rewrites } from './rewrites';

/** Stop the writing; what is proposed stays. */
export function cancel(rewrites: Rewrites, id: unknown): void {
  const isRunning = (job: Job): boolean => job.state === 'running';
  const uri = uriInFront();
  const hidden = uri && !rewrites.jobs.shown(uri).some(isRunning) && rewrites.jobs.in(uri).find(isRunning);
  const job = hidden || jobInFront(rewrites, 'cancel', id, isRunning);
  if (job) {
    rewrites.drop(job);
  }
}

export async function accept(rewrites: Rewrites, id: unknown): Promise<void> {
  const job = proposalInFront(rewrites, 'accept', id);
  if (job && (await isConfirmed(job))) {
    await rewrites.accept(job);
  }
}

/** The text stays as it is: all versions go. */
export function reject(rewrites: Rewrites, id: unknown): void {
  const job = jobInFront(rewrites, 'reject', id);
  if (job) {
    rewrites.jobs.versions(job).forEach((version) => rewrites.drop(version));
  }
}

export async function acceptHunk(rewrites: Rewrites, id: unknown, hunkId: unknown): Promise<void> {
  const at = hunkInFront(rewrites, 'accept', id, hunkId);
  if (at && (await isConfirmed(at.job))) {
    await rewrites.accept(at.job, at.hunk.id);
    goTo(nextAfter(hunksInFront(rewrites), at.hunk.first - 1));
  }
}

export async function rejectHunk(rewrites: Rewrites, id: unknown, hunkId: unknown): Promise<void> {
  const at = hunkInFront(rewrites, 'reject', id, hunkId);
  if (at) {
    await rewrites.reject(at.job, at.hunk.id);
    goTo(nextAfter(hunksInFront(rewrites), at.hunk.first - 1));
  }
}

export function goToHunk(rewrites: Rewrites, direction: 1 | -1): void {
  if (jobInFront(rewrites, 'go through')) {
    const hunks = hunksInFront(rewrites);
    const line = lineInFront();
    const before = hunks.findLast(({ hunk }) => hunk.first < line) ?? hunks.at(-1);
    goTo(direction === 1 ? nextAfter(hunks, line) : before);
  }
}

export function goToVersion(rewrites: Rewrites, direction: 1 | -1, id: unknown): void {
  const job = jobInFront(rewrites, 'show another version of', id);
  if (job) {
    const versions = rewrites.jobs.versions(job);
    const next = versions.at((versions.indexOf(job) + direction) % versions.length);
    rewrites.choose(next ?? job);
  }
}

export async function showChanges(rewrites: Rewrites, proposals: Proposals, id: unknown): Promise<void> {
  const job = jobInFront(rewrites, 'show', id);
  if (job) {
    await proposals.show(job);
  }
}

/** What the model wrote itself stands out, instead of what differs; or the other way round. */
export function toggleProvenance(rewrites: Rewrites, preview: Preview): void {
  const view: View = preview.view === 'differences' ? 'provenance' : 'differences';
  preview.setView(view);
  if (view === 'provenance' && hunksInFront(rewrites).some(({ hunk }) => !hunk.written)) {
    say('this server does not say what it has copied');
  }
}

/** The project files that are in the prompt: choose one to read it. */
export async function showContext(rewrites: Rewrites, id: unknown): Promise<void> {
  const job = jobInFront(rewrites, 'look into', id);
  if (job) {
    const items = job.context.map(({ path, kind, characters, cut }) => ({
      label: path,
      description: `${kind}, ${cut ? 'the first ' : ''}${characters} characters`,
    }));
    const title = items.length > 0 ? 'Stet: these files are in the prompt' : 'Stet: no project file is in the prompt';
    const chosen = await vscode.window.showQuickPick(items, { title });
    const folder = vscode.workspace.getWorkspaceFolder(job.uri);
    if (chosen && folder) {
      await vscode.window.showTextDocument(vscode.Uri.joinPath(folder.uri, chosen.label));
    }
  }
}

/** A proposal with warnings is accepted only by a user who has seen them. */
async function isConfirmed(job: Job): Promise<boolean> {
  if (job.warnings.length > 0 && !job.isConfirmed) {
    const detail = job.warnings.map(({ message }) => message).join('\n');
    const yes = 'Accept';
    const answer = await vscode.window.showWarningMessage('Accept this rewrite?', { modal: true, detail }, yes);
    job.isConfirmed = answer === yes;
    return job.isConfirmed;
  }
  return true;
}
