/** What becomes of rewrites: from the order to the accepted edit. Draws nothing (preview.ts, lenses.ts, status.ts). */

import * as vscode from 'vscode';
import { ErrorCodes, type LanguageClient, ResponseError, State } from 'vscode-languageclient/node';
import { Job, type Order } from './job';
import { Jobs } from './jobs';
import {
  type AcceptResult,
  BUSY,
  type Progress,
  QUIET_CODES,
  type RewriteResult,
  type Target,
  type Task,
} from './protocol';
import { FIX } from './problems';
import type { Server } from './server';
import { setting } from './settings';

/** A rewrite that is done sooner needs no notification. */
const NOTIFY_AFTER_MS = 700;
const STATUS_MS = 5000;
const CHOOSE_MODEL = 'Choose a model…';
const SHOW_LOG = 'Show the log';
const GONE: readonly number[] = [ErrorCodes.PendingResponseRejected, ErrorCodes.ConnectionInactive];

export class Rewrites implements vscode.Disposable {
  readonly jobs = new Jobs();
  /** What was asked last, to repeat it. */
  last: Job | undefined;

  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  /** Fires when there is something new to draw for a document. */
  readonly onDidChange = this.changed.event;
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly server: Server) {
    this.subscriptions = [
      this.changed,
      server.onClient((client) => this.listen(client)),
      vscode.workspace.onDidChangeTextDocument((event) => this.onEdit(event)),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => this.jobs.in(uri).forEach((job) => this.drop(job))),
    ];
    server.onCommand = (argument) => this.runCommand(argument);
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  /** Rewrite, and propose what comes. Ends when the proposal is there, or when none is to come. */
  async run(order: Order): Promise<void> {
    const client = await this.server.client();
    if (!client) {
      return;
    }
    const job = new Job(order);
    this.last = job;
    this.jobs.add(job);
    this.changed.fire(job.uri);
    const answer = client.sendRequest<RewriteResult>('stet/rewrite', job.params, job.stop.token);
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

  /** End a rewrite from this side, whatever it is doing. Other versions of it stay. */
  drop(job: Job): void {
    if (!this.jobs.has(job)) {
      return;
    }
    this.forget(job);
    if (job.state === 'running') {
      job.stop.cancel();
    } else {
      void this.server.startIfFound().then((client) => client?.sendRequest('stet/reject', { jobId: job.id }));
    }
  }

  /** Show this version in its place. */
  choose(job: Job): void {
    job.place.shown = job;
    this.changed.fire(job.uri);
  }

  private async acceptNow(job: Job, id: number | undefined): Promise<void> {
    // Those that are left now: an accept before this one may have taken some.
    const hunks = job.hunks.map((hunk) => hunk.id).filter((each) => id === undefined || each === id);
    const client = await this.server.client();
    if (!client || !this.jobs.has(job) || hunks.length === 0) {
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
      if (error instanceof ResponseError && error.code === BUSY) {
        void vscode.window.showWarningMessage(`Stet: ${error.message}`);
      } else {
        this.onFailure(job, error);
      }
    }
  }

  private forget(job: Job): void {
    if (this.jobs.has(job)) {
      this.jobs.remove(job);
      this.changed.fire(job.uri);
    }
  }

  private keep(job: Job, ids: number[]): void {
    job.keep(ids);
    if (ids.length === 0) {
      this.forget(job);
    } else if (this.jobs.has(job)) {
      this.changed.fire(job.uri);
    }
  }

  private async onAnswer(job: Job, result: RewriteResult): Promise<void> {
    if (!this.jobs.has(job)) {
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
    const wasAlive = this.jobs.has(job);
    this.forget(job);
    const isWanted = error instanceof ResponseError && QUIET_CODES.includes(error.code);
    if (wasAlive && !isWanted) {
      void this.sayError(error);
    }
  }

  /** A model that is not there, or is none, can be had by a button: that is where a new user meets the choice. */
  private async sayError(error: unknown): Promise<void> {
    if (error instanceof ResponseError && GONE.includes(error.code)) {
      const gone = 'the server stopped in mid-rewrite; nothing was changed; the next rewrite starts it again';
      if ((await vscode.window.showErrorMessage(`Stet: ${gone}`, SHOW_LOG)) === SHOW_LOG) {
        this.server.log.show();
      }
      return;
    }
    const text = error instanceof Error ? error.message : String(error);
    const remedies = /stet models fetch|model can't be loaded/.test(text) ? [CHOOSE_MODEL] : [];
    if ((await vscode.window.showErrorMessage(`Stet: ${text}`, ...remedies)) === CHOOSE_MODEL) {
      await vscode.commands.executeCommand('stet.chooseModel');
    }
  }

  private async offerAnotherTry(job: Job): Promise<void> {
    if (job.order.again) {
      // It would be told the same once more, and so write the same.
      const text = 'Stet: the model changed nothing again; say it in other words, or choose a larger model';
      if ((await vscode.window.showInformationMessage(text, CHOOSE_MODEL)) === CHOOSE_MODEL) {
        await vscode.commands.executeCommand('stet.chooseModel');
      }
      return;
    }
    const again = 'Try again';
    const isVersion = job.order.after?.as === 'alternativeTo';
    const text = isVersion ? 'Stet: the model wrote the same again' : 'Stet: the model changed nothing';
    if ((await vscode.window.showInformationMessage(text, again)) === again) {
      const { range, textDocument } = job.order.target;
      await this.run({ ...job.order, target: { textDocument: { uri: textDocument.uri }, range }, again: true });
    }
  }

  private listen(client: LanguageClient): void {
    client.onNotification('stet/progress', (progress: Progress) => this.onProgress(progress));
    client.onDidChangeState(({ newState }) => {
      if (newState === State.Stopped) {
        // A request that is running fails, and so is told of. A proposal is known to nobody any more.
        const proposals = this.jobs.in().filter(({ state }) => state === 'proposed');
        proposals.forEach((job) => this.forget(job));
        if (proposals.length > 0) {
          const text = 'the server stopped, and what it had proposed went with it; nothing was changed: ask once more';
          void vscode.window.showWarningMessage(`Stet: ${text}`);
        }
      }
    });
  }

  private onProgress(progress: Progress): void {
    const job = this.jobs.get(progress.jobId);
    if (!job) {
      return;
    }
    if (progress.state === 'stale') {
      this.onStale(job, progress.message);
      return;
    }
    job.take(progress);
    this.changed.fire(job.uri);
    for (const { reason } of job.newlyDropped(progress.droppedHunks)) {
      void vscode.window.showWarningMessage(`Stet: ${reason}`);
    }
  }

  /** A proposal that can't be accepted any more. What the user has brought about by asking or accepting is no warning. */
  private onStale(job: Job, reason: string): void {
    const others = this.jobs.in(job.uri).filter((other) => other !== job);
    const isNoNews = others.some((other) => other.place === job.place || other.state === 'running');
    this.forget(job);
    if (isNoNews) {
      vscode.window.setStatusBarMessage(`Stet: ${reason}`, STATUS_MS);
    } else {
      void vscode.window.showWarningMessage(`Stet: ${reason}`);
    }
  }

  private onEdit(event: vscode.TextDocumentChangeEvent): void {
    const { document, contentChanges } = event;
    const jobs = this.jobs.in(document.uri);
    if (jobs.length > 0 && contentChanges.length > 0) {
      jobs.forEach((job) => job.follow(event));
      this.changed.fire(document.uri);
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
          token.onCancellationRequested(() => this.drop(job)),
        );
        return isDone.then(() => void subscriptions.dispose());
      });
    }, NOTIFY_AFTER_MS);
    void isDone.then(() => clearTimeout(timer));
  }

  /** What was chosen in the code action menu. */
  private async runCommand(argument: unknown): Promise<void> {
    const { textDocument, range, ...task } = argument as Target & Task;
    // What is marked is where a problem shows; to mend it, the code around may have to change.
    const isMark = 'recipe' in task && task.recipe === FIX && range.start.line === range.end.line;
    const end = isMark ? range.start : range.end;
    await this.run({ target: { textDocument, range: { start: range.start, end } }, task });
  }
}

function idsWithout(job: Job, ids: readonly number[]): number[] {
  return job.hunks.map((hunk) => hunk.id).filter((each) => !ids.includes(each));
}
