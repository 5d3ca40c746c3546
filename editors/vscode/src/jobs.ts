/** The rewrites that there are: several in a document, and up to three versions of each. Asks and draws nothing. */

import type * as vscode from 'vscode';
import type { Job } from './job';

export class Jobs {
  /** In the order in which they were asked for. */
  private all: Job[] = [];

  /** Take one in, and show it. */
  add(job: Job): void {
    this.all.push(job);
    job.place.shown = job;
  }

  /** What is shown in its place is the version that was asked for last. */
  remove(job: Job): void {
    this.all = this.all.filter((other) => other !== job);
    const left = this.versions(job).at(-1);
    if (left && job.place.shown === job) {
      job.place.shown = left;
    }
  }

  has(job: Job): boolean {
    return this.all.includes(job);
  }

  get(id: unknown): Job | undefined {
    return this.all.find((job) => job.id === id);
  }

  /** Of one document, or of all. */
  in(uri?: vscode.Uri): Job[] {
    return this.all.filter((job) => !uri || job.uri.toString() === uri.toString());
  }

  /** Those to draw: one version in each place, in the order of the document. */
  shown(uri: vscode.Uri): Job[] {
    const shown = this.in(uri).filter((job) => job.place.shown === job);
    return shown.sort((a, b) => a.range.start.line - b.range.start.line);
  }

  /** All of its place, in the order in which they were asked for. */
  versions(job: Job): Job[] {
    return this.all.filter(({ place }) => place === job.place);
  }

  /** Of those that are shown the one at the line, or else the nearest. */
  near(uri: vscode.Uri, line: number, isMeant: (job: Job) => boolean = () => true): Job | undefined {
    const jobs = this.shown(uri).filter(isMeant);
    return jobs.sort((a, b) => distance(a, line) - distance(b, line))[0];
  }
}

/** A cursor right below is nearer than one as far above: a selection of whole lines leaves it there. */
function distance({ range: { start, end } }: Job, line: number): number {
  const last = Math.max(start.line, end.character > 0 ? end.line : end.line - 1);
  return line < start.line ? start.line - line : Math.max(0, line - last - 0.5);
}
