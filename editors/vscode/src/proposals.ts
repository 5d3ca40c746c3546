/** The proposal as a document of its own, for the editor's side-by-side view. It follows the writing. */

import * as vscode from 'vscode';
import { withChanges } from './drawing';
import type { Job } from './job';
import type { Rewrites } from './rewrites';

const SCHEME = 'stet-proposal';

export class Proposals implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly rewrites: Rewrites) {
    this.subscriptions = [
      this.changed,
      rewrites.onDidChange((uri) => this.changed.fire(proposalUri(uri))),
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
    ];
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const original = documentUri(uri);
    const document = await vscode.workspace.openTextDocument(original);
    return withChanges(
      document.getText(),
      this.rewrites.jobs.shown(original).flatMap((job) => job.hunks),
    );
  }

  async show(job: Job): Promise<void> {
    const name = job.uri.path.split('/').at(-1) ?? '';
    await vscode.commands.executeCommand('vscode.diff', job.uri, proposalUri(job.uri), `${name} ↔ proposed by Stet`);
  }
}

/** The same path, so that the editor takes it for the same language. */
function proposalUri(uri: vscode.Uri): vscode.Uri {
  return uri.with({ scheme: SCHEME, query: uri.toString() });
}

/** The document that a proposal is for; any other document is its own. */
export function documentUri(uri: vscode.Uri): vscode.Uri {
  return uri.scheme === SCHEME ? vscode.Uri.parse(uri.query) : uri;
}
