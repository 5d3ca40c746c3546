/** The rewrites, one for each document: from the order to the accepted edit. Draws nothing (preview.ts, lenses.ts, status.ts). */

import * as vscode from 'vscode';
import { type LanguageClient, ResponseError, State } from 'vscode-languageclient/node';
import { Job, type Order } from './job';
import { type AcceptResult, type Progress, QUIET_CODES, type RewriteResult, type Target, type Task } from './protocol';
import type { Server } from './server';
import { setting } from './settings';

/** A rewrite that is done sooner needs no notification. */
const NOTIFY_AFTER_MS = 700;

export class Rewrites implements vscode.Disposable {
  /** The order that was given last, to repeat it. */
  last: Order | undefined;

  private readonly jobs = new Map<string, Job>();
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  /** Fires when there is something new to draw for a document. */
  readonly onDidChange = this.changed.event;
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly server: Server) {
    this.subscriptions = [
      this.changed,
      server.onClient((client) => this.listen(client)),
      vscode.workspace.onDidChangeTextDocument((event) => this.onEdit(event)),
      vscode.workspace.onDidCloseTextDocument((document) => this.drop(document.uri)),
    ];
    server.onCommand = (argument) => this.runCommand(argument);
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  at(uri: vscode.Uri): Job | undefined {
    return this.jobs.get(uri.toString());
  }

  /** Rewrite, and propose what comes. Ends when the proposal is there, or when none is to come. */
  async run(order: Order): Promise<void> {
    const client = await this.server.client();
    if (!client) {
      return;
    }
    const job = new Job(order);
    this.drop(job.uri);
    this.last = order;
    this.jobs.set(job.uri.toString(), job);
    this.changed.fire(job.uri);
    const params = { ...order.target, ...order.task, ...order.sampling, jobId: job.id };
    const answer = client.sendRequest<RewriteResult>('stet/rewrite', params, job.stop.token);
    this.notify(job, answer);
    try {
      const result = await answer;
      if (client.isRunning()) {
        await this.onAnswer(job, result);
      } else {
        // A last word of a server that was stopped meanwhile: there is nobody left to accept from.
        this.forget(job);
      }
    } catch (error) {
      this.onFailure(job, error);
    }
  }

  /** Apply hunks, one or all that are left: one edit, one undo step. One after another: the server takes no two at once. */
  accept(job: Job, id?: number): Promise<void> {
    job.turn = job.turn.then(() => this.acceptNow(job, id));
    return job.turn;
  }

  /** Forget a hunk of a proposal. Nothing of it has touched the document. */
  async reject(job: Job, id: number): Promise<void> {
    this.keep(job, idsWithout(job, [id]));
    const client = await this.server.startIfFound();
    await client?.sendRequest('stet/reject', { jobId: job.id, hunks: [id] });
  }

  /** End a rewrite from this side, whatever it is doing. */
  drop(uri: vscode.Uri): void {
    const job = this.at(uri);
    if (!job) {
      return;
    }
    this.forget(job);
    if (job.state === 'running') {
      job.stop.cancel();
    } else {
      void this.server.startIfFound().then((client) => client?.sendRequest('stet/reject', { jobId: job.id }));
    }
  }

  private async acceptNow(job: Job, id: number | undefined): Promise<void> {
    // Those that are left now: an accept before this one may have taken some.
    const hunks = job.hunks.map((hunk) => hunk.id).filter((each) => id === undefined || each === id);
    const client = await this.server.client();
    if (!client || !this.isAlive(job) || hunks.length === 0) {
      return;
    }
    try {
      const result = await client.sendRequest<AcceptResult>('stet/accept', { jobId: job.id, hunks });
      if (result.applied) {
        this.keep(job, idsWithout(job, hunks));
      } else {
        void vscode.window.showWarningMessage(`Stet: ${result.message}`);
      }
    } catch (error) {
      this.onFailure(job, error);
    }
  }

  private isAlive(job: Job): boolean {
    return this.at(job.uri) === job;
  }

  private forget(job: Job): void {
    if (this.isAlive(job)) {
      this.jobs.delete(job.uri.toString());
      this.changed.fire(job.uri);
    }
  }

  private keep(job: Job, ids: number[]): void {
    job.keep(ids);
    if (ids.length === 0) {
      this.forget(job);
    } else if (this.isAlive(job)) {
      this.changed.fire(job.uri);
    }
  }

  private async onAnswer(job: Job, result: RewriteResult): Promise<void> {
    if (!this.isAlive(job)) {
      return;
    }
    if (result.status === 'unchanged') {
      this.forget(job);
      // Not awaited: the message may stand there for long.
      void this.offerAnotherTry(job);
      return;
    }
    job.propose(result);
    this.changed.fire(job.uri);
    for (const { message } of result.warnings) {
      void vscode.window.showWarningMessage(`Stet: ${message}`);
    }
    if (setting<boolean>('autoAccept') && result.warnings.length === 0) {
      await this.accept(job);
    }
  }

  private onFailure(job: Job, error: unknown): void {
    const wasAlive = this.isAlive(job);
    this.forget(job);
    const isWanted = error instanceof ResponseError && QUIET_CODES.includes(error.code);
    if (wasAlive && !isWanted) {
      void vscode.window.showErrorMessage(`Stet: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  private async offerAnotherTry(job: Job): Promise<void> {
    const again = 'Try again';
    if ((await vscode.window.showInformationMessage('Stet: the model changed nothing', again)) === again) {
      const { range, textDocument } = job.order.target;
      const target = { textDocument: { uri: textDocument.uri }, range };
      await this.run({ ...job.order, target, sampling: { again: true } });
    }
  }

  private listen(client: LanguageClient): void {
    client.onNotification('stet/progress', (progress: Progress) => this.onProgress(progress));
    client.onDidChangeState(({ newState }) => {
      if (newState === State.Stopped) {
        // A request that is running fails, and so is told of. A proposal is known to nobody any more.
        [...this.jobs.values()].filter(({ state }) => state === 'proposed').forEach((job) => this.forget(job));
      }
    });
  }

  private onProgress(progress: Progress): void {
    const job = [...this.jobs.values()].find(({ id }) => id === progress.jobId);
    if (!job) {
      return;
    }
    if (progress.state === 'stale') {
      this.forget(job);
      void vscode.window.showWarningMessage(`Stet: ${progress.message}`);
      return;
    }
    job.take(progress);
    this.changed.fire(job.uri);
    for (const { reason } of job.newlyDropped(progress.droppedHunks)) {
      void vscode.window.showWarningMessage(`Stet: ${reason}`);
    }
  }

  private onEdit(event: vscode.TextDocumentChangeEvent): void {
    const job = this.at(event.document.uri);
    if (job && event.contentChanges.length > 0) {
      job.follow(event);
      this.changed.fire(job.uri);
    }
  }

  /** A notification with Cancel, for a rewrite that takes its time. */
  private notify(job: Job, answer: Promise<unknown>): void {
    const isDone = answer.then(
      () => undefined,
      () => undefined,
    );
    const options = { location: vscode.ProgressLocation.Notification, title: 'Stet', cancellable: true };
    const timer = setTimeout(() => {
      void vscode.window.withProgress(options, (progress, token) => {
        const report = (): void => progress.report({ message: job.message });
        report();
        const subscriptions = vscode.Disposable.from(
          this.onDidChange(report),
          token.onCancellationRequested(() => this.isAlive(job) && this.drop(job.uri)),
        );
        return isDone.then(() => subscriptions.dispose());
      });
    }, NOTIFY_AFTER_MS);
    void isDone.then(() => clearTimeout(timer));
  }

  /** What was chosen in the code action menu. */
  private async runCommand(argument: unknown): Promise<void> {
    const { textDocument, range, ...task } = argument as Target & Task;
    await this.run({ target: { textDocument, range }, task, sampling: {} });
  }
}

function idsWithout(job: Job, ids: readonly number[]): number[] {
  return job.hunks.map((hunk) => hunk.id).filter((each) => !ids.includes(each));
}
